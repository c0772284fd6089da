//! The live step: two hosts, two cables, a packet port on one cable and an XDP port on the other.
//!
//! ```text
//!   near host                                                     far host
//!   ping, TCP, UDP  v0 ---------------- v1  afpacket: copies      answers everything
//!                   w0 ---------------- w1  xdp: takes UDP away   answers the rest
//! ```
//!
//! The hosts are network namespaces of this process; the kernel and real programs send the traffic.
//! The kernel's counters of `v1` and `w1` verify what the ports report as offered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

use burstline_engine::{Inlet, Report};
use burstline_port::{Filter, OpenOptions, Probe, ProbeOptions, probe_ports};
use burstline_testbed::{Bed, BedError, FAR, FAR_ADDRESS, serve_bytes};

use crate::failure::Failure;

/// The second cable.
const NEAR_TAKEN: &str = "w0";
const FAR_TAKEN: &str = "w1";
const NEAR_TAKEN_NET: &str = "10.78.0.1/24";
const FAR_TAKEN_ADDRESS: &str = "10.78.0.2";
const FAR_TAKEN_NET: &str = "10.78.0.2/24";

/// The addresses of the ports.
pub(super) const COPIED: &str = "afpacket:v1";
pub(super) const TAKEN: &str = "xdp:w1";

/// Output of `tcpdump -y EN10MB -ddd 'ip and udp'`, so that libpcap is not needed.
const ONLY_UDP: &str = "6\n40 0 0 12\n21 0 3 2048\n48 0 0 23\n21 0 1 17\n6 0 0 262144\n6 0 0 0\n";

/// Bytes sent by TCP over each cable.
pub(super) const FETCHED_BYTES: usize = 100_000;
/// Datagrams over each cable: as many as fit into an unread socket.
pub(super) const DATAGRAMS: usize = 100;
const DATAGRAM: [u8; 100] = [0x5a; 100];

/// Timeout for a peer that does not answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Interval between two reads of the kernel's counters: longer than a delayed acknowledgement, or
/// the kernel's own work on a machine without a free core.
const PAUSE: Duration = Duration::from_millis(250);

/// The network and its servers.
pub(super) struct Live {
    bed: Bed,
    servers: Vec<SocketAddr>,
    inboxes: Vec<UdpSocket>,
    /// Why there is no XDP port, and what to do about it.
    pub(super) without_xdp: Option<String>,
}

/// The kernel's counts.
pub(super) struct Verdict {
    /// Packets that each cable carried, by the kernel's counters.
    pub(super) carried: Vec<u64>,
    /// Datagrams that the far host's program received over each cable.
    pub(super) datagrams: Vec<usize>,
}

impl Live {
    /// Creates the hosts and connects them.
    pub(super) fn new() -> Result<Self, BedError> {
        let bed = Bed::new()?;
        bed.connect(NEAR_TAKEN, FAR_TAKEN, 1500)?;
        bed.near.command("ip", &["address", "add", NEAR_TAKEN_NET, "dev", NEAR_TAKEN])?;
        bed.far.command("ip", &["address", "add", FAR_TAKEN_NET, "dev", FAR_TAKEN])?;
        let mut live = Self { bed, servers: Vec::new(), inboxes: Vec::new(), without_xdp: None };
        live.without_xdp = live.try_xdp();
        let addresses = [FAR_ADDRESS, FAR_TAKEN_ADDRESS].into_iter().take(live.cables());
        for address in addresses {
            let served = serve_bytes(&live.bed.far, address, FETCHED_BYTES);
            live.servers.push(served.map_err(BedError::Namespace)?);
            let inbox = live.bed.far.run(move || {
                let socket = UdpSocket::bind((address, 0))?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            live.inboxes.push(inbox.map_err(BedError::Namespace)?);
        }
        Ok(live)
    }

    fn try_xdp(&self) -> Option<String> {
        let try_it = || probe_ports(&[FAR_TAKEN.to_owned()], &ProbeOptions::default());
        let probes = self.bed.far.run(try_it);
        let refused = probes.iter().find(|probe| probe.port == TAKEN && !probe.can_open);
        let words = |probe: &Probe| {
            let why = probe.why_not.as_deref().unwrap_or("it does not open");
            let mend = probe.mend.as_deref().unwrap_or("burstline doctor ports");
            format!("Without xdp: {why}; {mend}")
        };
        refused.map(words)
    }

    /// Returns the number of cables with a port.
    fn cables(&self) -> usize {
        if self.without_xdp.is_some() { 1 } else { 2 }
    }

    /// Opens the ports on the far host.
    pub(super) fn open(&self, options: &OpenOptions) -> Result<Vec<Inlet>, Failure> {
        let only = ONLY_UDP.parse::<Filter>().map_err(|error| Failure::new(error.to_string()))?;
        let mut sources = Vec::new();
        for address in [COPIED, TAKEN].into_iter().take(self.cables()) {
            let address = address.parse()?;
            let options = OpenOptions { only: only.clone(), ..options.clone() };
            sources.extend(self.bed.far.run(move || Inlet::open_all(&address, &options))?);
        }
        Ok(sources)
    }

    /// Sends over all cables, and returns when everything has arrived, or early when `stop` is set.
    pub(super) fn send(&self, stop: &AtomicBool) -> io::Result<()> {
        for (server, inbox) in self.servers.iter().zip(&self.inboxes) {
            if stop.load(Relaxed) {
                // The flag carries no memory.
                return Ok(());
            }
            // Without ping there is still TCP and UDP traffic.
            let host = server.ip().to_string();
            let _ = self.bed.near.command("ping", &["-c", "3", "-i", "0.2", "-W", "5", &host]);
            let (server, inbox) = (*server, inbox.local_addr()?);
            self.bed.near.run(move || fetch(server).and_then(|()| send_datagrams(inbox)))?;
        }
        let mut before = self.carried();
        loop {
            thread::sleep(PAUSE);
            let now = self.carried();
            if now == before {
                return Ok(());
            }
            before = now;
        }
    }

    /// Returns the kernel's counters: all of the first cable, received packets of the second.
    fn carried(&self) -> Vec<u64> {
        let copied = self.bed.far.counts(FAR);
        let taken = self.bed.far.counts(FAR_TAKEN);
        let all = [copied.received + copied.sent, taken.received];
        all[..self.cables()].to_vec()
    }

    /// Compares a report with the kernel's counters, and returns whether they agree.
    pub(super) fn judge(&self, report: &Report) -> (Verdict, bool) {
        let carried = self.carried();
        let (copied, taken) = report.ports.split_at(1);
        let offered = [copied, taken].map(|rows| rows.iter().map(|row| row.offered).sum::<u64>());
        let datagrams: Vec<usize> = self.inboxes.iter().map(received).collect();
        // The XDP port takes datagrams away; the packet port copies them.
        let is_apart = datagrams.first() == Some(&DATAGRAMS)
            && datagrams.get(1).is_none_or(|&datagrams| datagrams == 0);
        let agrees = offered[..carried.len()] == carried[..] && is_apart;
        (Verdict { carried, datagrams }, agrees)
    }
}

/// Downloads what a server sends over TCP.
fn fetch(server: SocketAddr) -> io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&server, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::with_capacity(FETCHED_BYTES);
    stream.read_to_end(&mut answer)?;
    match answer.len() > FETCHED_BYTES {
        true => Ok(()),
        false => Err(ErrorKind::UnexpectedEof.into()),
    }
}

fn send_datagrams(inbox: SocketAddr) -> io::Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    (0..DATAGRAMS).try_for_each(|_| socket.send_to(&DATAGRAM, inbox).map(drop))
}

/// Returns the number of datagrams queued in a socket.
fn received(inbox: &UdpSocket) -> usize {
    let mut bytes = [0; DATAGRAM.len()];
    std::iter::from_fn(|| inbox.recv(&mut bytes).ok()).count()
}

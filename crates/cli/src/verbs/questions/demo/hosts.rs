//! The hosts of the live step, in a process of their own: `burstline demo --network`.
//!
//! ```text
//!   near host                                                     far host
//!   ping, TCP, UDP  v0 ---------------- v1  afpacket: copies      answers everything
//!                   w0 ---------------- w1  xdp: takes UDP away   answers the rest
//!
//!   demonstration ◄── {"thread": the far host's} ───────────────── hosts   they are connected
//!   demonstration ─── the number of cables ──────────────────────► hosts   it has opened ports
//!   demonstration ◄── {"carried": [..], "datagrams": [..]} ─────── hosts   all has arrived
//!   demonstration ─── end of input ──────────────────────────────► hosts   they end
//! ```
//!
//! Either answer may be `{"why_not": ..}` instead. The hosts are network namespaces of this
//! process, which keeps the rights that they take: it reads no packets, and of the demonstration
//! only that number. The kernel and real programs send the traffic. The kernel's counters of `v1`
//! and `w1` verify what the ports report as offered.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use burstline_testbed::{Bed, BedError, FAR, FAR_ADDRESS, serve_bytes};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::view;

/// The second cable.
const NEAR_TAKEN: &str = "w0";
pub(super) const FAR_TAKEN: &str = "w1";
const NEAR_TAKEN_NET: &str = "10.78.0.1/24";
const FAR_TAKEN_ADDRESS: &str = "10.78.0.2";
const FAR_TAKEN_NET: &str = "10.78.0.2/24";
/// The number of cables.
pub(super) const CABLES: usize = 2;

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
struct Hosts {
    bed: Bed,
    servers: Vec<SocketAddr>,
    inboxes: Vec<UdpSocket>,
}

/// Makes the hosts, and sends when the demonstration says so.
pub(super) fn serve() -> Result<ExitCode, Failure> {
    let hosts = Hosts::new();
    tell(&match &hosts {
        Ok(hosts) => json!({ "thread": hosts.bed.far.thread_id() }),
        Err(reason) => why_not(reason),
    })?;
    let Ok(hosts) = hosts else { return Ok(ExitCode::SUCCESS) };
    for line in io::stdin().lines() {
        let cables = line?.parse().unwrap_or(CABLES).min(CABLES);
        tell(&match hosts.send(cables) {
            Ok(()) => hosts.counts(cables),
            Err(error) => why_not(&error),
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(what: &Value) -> Result<(), Failure> {
    Ok(view::print(&format!("{what}\n"))?)
}

fn why_not(error: &dyn std::error::Error) -> Value {
    json!({ "why_not": error.to_string() })
}

impl Hosts {
    /// Creates the hosts and connects them.
    fn new() -> Result<Self, BedError> {
        let bed = Bed::new()?;
        bed.connect(NEAR_TAKEN, FAR_TAKEN, 1500)?;
        bed.near.command("ip", &["address", "add", NEAR_TAKEN_NET, "dev", NEAR_TAKEN])?;
        bed.far.command("ip", &["address", "add", FAR_TAKEN_NET, "dev", FAR_TAKEN])?;
        let mut hosts = Self { bed, servers: Vec::new(), inboxes: Vec::new() };
        for address in [FAR_ADDRESS, FAR_TAKEN_ADDRESS] {
            let served = serve_bytes(&hosts.bed.far, address, FETCHED_BYTES);
            hosts.servers.push(served.map_err(BedError::Namespace)?);
            let inbox = hosts.bed.far.run(move || {
                let socket = UdpSocket::bind((address, 0))?;
                socket.set_nonblocking(true)?;
                Ok(socket)
            });
            hosts.inboxes.push(inbox.map_err(BedError::Namespace)?);
        }
        Ok(hosts)
    }

    /// Sends over the first `cables` cables, and returns when everything has arrived.
    fn send(&self, cables: usize) -> io::Result<()> {
        for (server, inbox) in self.servers.iter().zip(&self.inboxes).take(cables) {
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
    fn carried(&self) -> [u64; CABLES] {
        let copied = self.bed.far.counts(FAR);
        let taken = self.bed.far.counts(FAR_TAKEN);
        [copied.received + copied.sent, taken.received]
    }

    /// Returns the packets that each cable carried, by the kernel's counters, and the datagrams
    /// that the far host's program received over it.
    fn counts(&self, cables: usize) -> Value {
        let datagrams: Vec<usize> = self.inboxes[..cables].iter().map(received).collect();
        json!({ "carried": self.carried()[..cables], "datagrams": datagrams })
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

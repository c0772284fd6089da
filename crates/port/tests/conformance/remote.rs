//! A sink in another process, which runs this program again: with some DPDK drivers, both ends of a
//! shared memory cannot be in one process.
//!
//! ```text
//!  test ─► Remote ── one socket ──► the_other_end ─► sink ══ memory ══► source of the test
//!            ◄────── packets taken ────
//! ```
//!
//! A request is a letter, a length and that many bytes; an answer is three numbers. The other
//! process opens one sink at a time, and ends when its socket is closed.

use std::env;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use burstline_log::{Burst, Meta, Scratch};
use burstline_port::{
    Capabilities, Loss, LostPackets, Port, PortAccount, PortError, PortInfo, Sink, Tally,
    TimestampSource, leaked_mbufs,
};
use burstline_testbed::Killed;

use crate::backends::options;
use crate::common::live::PATIENCE;
use crate::common::sink;

const OPEN: u8 = b'o';
const TRANSMIT: u8 = b't';
const FINISH: u8 = b'f';
const CLOSE: u8 = b'c';

/// Marks this program as the other end, with the socket as its standard input.
const MARK: &str = "BURSTLINE_OTHER_END";

/// The answer of the other process: packets taken; after [`FINISH`] those offered, lost and in
/// flight.
type Answer = [u64; 3];

/// The other process.
pub(crate) struct OtherEnd {
    _child: Killed,
    socket: Mutex<UnixStream>,
}

impl OtherEnd {
    pub(crate) fn start() -> Arc<Self> {
        let (near, far) = UnixStream::pair().unwrap();
        // Only a failing test waits that long.
        near.set_read_timeout(Some(2 * PATIENCE)).unwrap();
        let child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "remote::the_other_end", "--ignored", "--nocapture"])
            .env(MARK, "1")
            .stdin(OwnedFd::from(far))
            .stdout(Stdio::null())
            .spawn();
        Arc::new(Self { socket: Mutex::new(near), _child: Killed(child.unwrap()) })
    }

    fn ask(&self, what: u8, body: &[u8]) -> io::Result<Answer> {
        let mut socket: MutexGuard<'_, UnixStream> =
            self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        let mut request = vec![what];
        request.extend((body.len() as u32).to_le_bytes());
        request.extend(body);
        socket.write_all(&request)?;
        let mut answer = [0; 24];
        socket.read_exact(&mut answer)?;
        let number = |at: usize| u64::from_le_bytes(answer[8 * at..][..8].try_into().unwrap());
        Ok([number(0), number(1), number(2)])
    }
}

/// A sink in the other process.
pub(crate) struct Remote {
    info: PortInfo,
    at: Arc<OtherEnd>,
    ended: Answer,
}

impl Remote {
    /// Opens the sink; no other may be open there.
    pub(crate) fn open(at: &Arc<OtherEnd>, address: &str) -> Self {
        at.ask(OPEN, address.as_bytes()).unwrap_or_else(|error| panic!("{address}: {error}"));
        let capabilities = Capabilities::default();
        let (name, timestamps) = (address.to_owned(), TimestampSource::Poll);
        let info = PortInfo { name, capabilities, timestamps };
        Self { info, at: Arc::clone(at), ended: [0; 3] }
    }

    fn ask(&self, what: u8, body: &[u8]) -> Answer {
        let answer = self.at.ask(what, body);
        answer.unwrap_or_else(|error| panic!("{}: {error}", self.info.name))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let closed = self.at.ask(CLOSE, &[]);
        assert!(closed.is_ok() || thread::panicking(), "{}: {closed:?}", self.info.name);
    }
}

impl Port for Remote {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.ended = self.ask(FINISH, &[]);
        Ok(())
    }

    /// Returns the final account, with losses of all causes as a single one.
    fn account(&self) -> PortAccount {
        let [offered, lost, in_flight] = self.ended;
        let mut account = PortAccount { offered, in_flight, ..PortAccount::default() };
        if lost > 0 {
            account.lost.add(Loss::TxRingFull, lost);
        }
        account
    }
}

impl Sink for Remote {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let mut body = Vec::new();
        for packet in burst.packets() {
            body.extend((packet.bytes().len() as u32).to_le_bytes());
            body.extend(packet.bytes());
        }
        Ok(self.ask(TRANSMIT, &body)[0])
    }

    /// The lengths of the packets are unknown.
    fn lost(&self) -> LostPackets {
        let mut lost = LostPackets::default();
        let tally = Tally { packets: self.ended[1], ..Tally::default() };
        lost.add(0, Loss::TxRingFull, &tally);
        lost
    }
}

/// The process of an [`OtherEnd`]; not a test.
#[test]
#[ignore = "the other end of other tests"]
fn the_other_end() {
    if env::var_os(MARK).is_none() {
        return;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned().unwrap();
    let (mut socket, mut port) = (UnixStream::from(socket), None);
    let mut head = [0; 5];
    while socket.read_exact(&mut head).is_ok() {
        let [what, length @ ..] = head;
        let mut body = vec![0; u32::from_le_bytes(length) as usize];
        socket.read_exact(&mut body).unwrap();
        let answer = serve(what, &body, &mut port);
        socket.write_all(&answer.map(u64::to_le_bytes).concat()).unwrap();
    }
}

fn serve(what: u8, body: &[u8], port: &mut Option<Box<dyn Sink>>) -> Answer {
    if what == OPEN {
        assert!(port.is_none(), "one at a time");
        let address = std::str::from_utf8(body).unwrap();
        *port = Some(sink(address, &options()).unwrap_or_else(|error| panic!("{error}")));
        return [0; 3];
    }
    if what == CLOSE {
        *port = None;
        assert_eq!(leaked_mbufs(), 0);
        return [0; 3];
    }
    let port = port.as_mut().expect("it was opened");
    if what == FINISH {
        port.finish().unwrap();
        let account = port.account();
        return [account.offered, account.lost.total(), account.in_flight];
    }
    assert_eq!(what, TRANSMIT);
    [transmit(&mut **port, body), 0, 0]
}

/// Sends packets, each preceded by its length.
fn transmit(to: &mut dyn Sink, mut packets: &[u8]) -> u64 {
    let (mut scratch, mut bytes) = (Scratch::new(), Vec::new());
    while let Some((length, rest)) = packets.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        let (packet, rest) = rest.split_at(length as usize);
        scratch.push(bytes.len() as u32, length, &Meta::new(0, length, 0));
        bytes.extend(packet);
        packets = rest;
    }
    let taken = to.transmit(&scratch.burst(&bytes, 0)).unwrap();
    to.flush().unwrap();
    taken
}

//! Encodes the protocol by hand, for tests that replace our client or our publisher.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use burstline_share::MESSAGE_BYTES_MAX;
use burstline_sys::seqpacket::SeqPacket;

pub(crate) const ATTACH: u16 = 1;
pub(crate) const QUERY: u16 = 2;
pub(crate) const WELCOME: u16 = 3;
pub(crate) const REFUSED: u16 = 4;
pub(crate) const PUBLISHER: u16 = 5;
pub(crate) const LOG: u16 = 6;
pub(crate) const READERS: u16 = 7;
pub(crate) const END: u16 = 8;

pub(crate) const VERSION: u16 = 3;
/// Another version.
pub(crate) const OTHER: u16 = 2;

pub(crate) fn header(version: u16, kind: u16) -> Vec<u8> {
    let mut bytes = b"brstshar".to_vec();
    bytes.extend(version.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Returns an attach request: lossy, start now, a window of 1, all logs.
pub(crate) fn attach(version: u16) -> Vec<u8> {
    let mut bytes = header(version, ATTACH);
    bytes.extend([0, 0, 0, 0]);
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(u32::MAX.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

/// Returns a welcome: log `index` of `count`, epoch 1, seat 0, a window of this number of segments.
pub(crate) fn welcome(index: u32, count: u32, window: u32) -> Vec<u8> {
    let mut bytes = header(VERSION, WELCOME);
    bytes.extend(1u64.to_le_bytes());
    for word in [std::process::id(), index, count, 0, window, 0] {
        bytes.extend(word.to_le_bytes());
    }
    bytes
}

pub(crate) fn connect(name: &str) -> SeqPacket {
    SeqPacket::connect(Path::new(name), Duration::from_secs(60)).unwrap()
}

/// Sends these bytes and returns the publisher's answer; `None` if it closes the connection.
pub(crate) fn ask(name: &str, bytes: &[u8], files: &[BorrowedFd<'_>]) -> Option<Answer> {
    let socket = connect(name);
    // The publisher may already have closed the connection.
    let _ = socket.send(bytes, files);
    hear(&socket)
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) kind: u16,
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

pub(crate) fn hear(socket: &SeqPacket) -> Option<Answer> {
    let (mut room, mut files) = ([0; MESSAGE_BYTES_MAX], Vec::new());
    for _ in 0..2 {
        match socket.receive(&mut room, Some(&mut files)) {
            Ok(received) if received.bytes == 0 => return None,
            Ok(received) => {
                let bytes = room[..received.bytes].to_vec();
                let kind = u16::from_le_bytes([bytes[10], bytes[11]]);
                return Some(Answer { kind, bytes, files });
            }
            // The connection was reset with unread data of ours; the answer can still be read.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {}
            Err(error) => panic!("{error}"),
        }
    }
    None
}

impl Answer {
    /// Returns code and numbers of a refusal.
    pub(crate) fn refusal(&self) -> (u64, u64, u64) {
        assert_eq!((self.kind, self.bytes.len()), (REFUSED, 40), "{self:?}");
        let word = |at| u64::from_le_bytes(*self.bytes[at..].first_chunk().unwrap());
        (word(16), word(24), word(32))
    }
}

/// Starts a publisher that answers each request with these messages, in a thread that ends after
/// `connections` connections.
pub(crate) fn fake_publisher(
    name: &str,
    connections: usize,
    say: impl Fn(&SeqPacket) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let _ = std::fs::remove_file(name);
    let listener = SeqPacket::bind(Path::new(name)).unwrap();
    listener.listen(8).unwrap();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let wait = |socket: BorrowedFd<'_>| {
                burstline_sys::readiness::wait(&[socket], u64::MAX).unwrap();
            };
            wait(listener.as_fd());
            let socket = listener.accept().unwrap();
            wait(socket.as_fd());
            socket.receive(&mut [0; 256], None).unwrap();
            say(&socket);
        }
    })
}

//! The messages between the supervisor and the process that writes the log.
//!
//! ```text
//!   supervisor ──lines of its own events, in parts──────────► journal
//!              ──the pipes of a start, with number and job──►
//!              ◄──a number: both pipes of that start ended───
//! ```
//!
//! The supervisor parses nothing: what it reads is one number of 8 bytes.

use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use burstline_sys::seqpacket::SeqPacket;
use serde_json::{Value, json};

/// The longest part of a line in a message, far below what a socket takes.
const PART_BYTES: usize = 32 << 10;

/// What a message is, by its first byte.
const PART: u8 = b'm';
const LAST_PART: u8 = b'l';
const PIPES: u8 = b'p';

/// What prints into pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printer {
    /// Number among all starts of the service.
    pub(super) number: u64,
    /// The job, or `None` for the process that answers at `--metrics`.
    pub(super) job: Option<String>,
}

/// A message to the journal.
#[derive(Debug)]
pub(super) enum Message {
    /// A line of the log.
    Line(String),
    /// The pipes of a job are its output and its errors. The other process has only errors.
    Pipes { printer: Printer, pipes: Vec<OwnedFd> },
}

/// Sends a line of the log.
pub(super) fn send_text(line: &SeqPacket, text: &str) -> io::Result<()> {
    let mut parts = text.as_bytes().chunks(PART_BYTES).peekable();
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { PART } else { LAST_PART };
        line.send(&[&[kind], part].concat(), &[])?;
    }
    Ok(())
}

/// Sends the pipes of a start.
pub(super) fn send_pipes(line: &SeqPacket, printer: &Printer, pipes: &[OwnedFd]) -> io::Result<()> {
    let text = json!([printer.number, printer.job]).to_string();
    let pipes: Vec<BorrowedFd<'_>> = pipes.iter().map(AsFd::as_fd).collect();
    line.send(&[&[PIPES], text.as_bytes()].concat(), &pipes)
}

/// Receives the number of a start whose pipes have ended. `None` if the other end has closed, or
/// says anything else.
pub(super) fn receive_end(line: &SeqPacket) -> Option<u64> {
    let mut room = [0; 8];
    let received = line.receive(&mut room, None).ok()?;
    (received.bytes == room.len() && !received.is_cut).then(|| u64::from_ne_bytes(room))
}

/// Says that the pipes of a start have ended.
pub(super) fn send_end(line: &SeqPacket, number: u64) -> io::Result<()> {
    line.send(&number.to_ne_bytes(), &[])
}

/// Receives the next message. `None` after the last one.
pub(super) fn receive(line: &SeqPacket) -> io::Result<Option<Message>> {
    let (mut text, mut room) = (Vec::new(), vec![0; PART_BYTES + 1]);
    loop {
        let mut pipes = Vec::new();
        let received = line.receive(&mut room, Some(&mut pipes))?;
        let message = &room[..received.bytes];
        let invalid = || io::Error::from(ErrorKind::InvalidData);
        match message {
            _ if received.is_cut => return Err(invalid()),
            [] => return Ok(None),
            [PIPES, told @ ..] => {
                let printer = printer(told).ok_or_else(invalid)?;
                return Ok(Some(Message::Pipes { printer, pipes }));
            }
            [kind, part @ ..] => {
                text.extend_from_slice(part);
                if *kind == LAST_PART {
                    let text = String::from_utf8(text).map_err(|_| invalid())?;
                    return Ok(Some(Message::Line(text)));
                }
            }
        }
    }
}

fn printer(told: &[u8]) -> Option<Printer> {
    let parts: Value = serde_json::from_slice(told).ok()?;
    let job = parts[1].as_str().map(str::to_owned);
    Some(Printer { number: parts[0].as_u64()?, job })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write, pipe};
    use std::thread;

    use super::*;

    #[test]
    fn lines_of_any_length_and_pipes_arrive_in_order() {
        let [here, there] = SeqPacket::pair().unwrap();
        let long = "ä".repeat(500_000) + "\n";
        let (read, mut write) = pipe().unwrap();
        let job = |number, job: Option<&str>| Printer { number, job: job.map(str::to_owned) };
        let sent = [job(u64::MAX, Some("a\"b")), job(2, None)];
        let sender = thread::spawn({
            let (long, sent) = (long.clone(), sent.clone());
            move || {
                send_text(&here, &long).unwrap();
                send_pipes(&here, &sent[0], &[read.into()]).unwrap();
                send_pipes(&here, &sent[1], &[]).unwrap();
                send_text(&here, "x\n").unwrap();
                assert_eq!(receive_end(&here), Some(7));
                assert_eq!(receive_end(&here), None, "it is too long");
                assert_eq!(receive_end(&here), None, "it is too short");
            }
        });
        let next = || receive(&there).unwrap();
        assert!(matches!(next(), Some(Message::Line(text)) if text == long));
        let Some(Message::Pipes { printer, mut pipes }) = next() else { panic!() };
        assert_eq!((&printer, pipes.len()), (&sent[0], 1));
        write.write_all(b"y").unwrap();
        drop(write);
        let (mut pipe, mut text) = (std::fs::File::from(pipes.remove(0)), String::new());
        pipe.read_to_string(&mut text).unwrap();
        assert_eq!(text, "y");
        let other = next();
        assert!(matches!(other, Some(Message::Pipes { printer, pipes })
            if printer == sent[1] && pipes.is_empty()));
        assert!(matches!(next(), Some(Message::Line(text)) if text == "x\n"));
        send_end(&there, 7).unwrap();
        there.send(&[0; 9], &[]).unwrap();
        there.send(&[0; 7], &[]).unwrap();
        sender.join().unwrap();
        assert!(next().is_none());
    }
}

//! Requests to the kernel over netlink: one message each way.
//!
//! ```text
//! | length, 4 | kind, 2 | flags, 2 | sequence, 4 | port, 4 | fixed part | attribute | ...
//!
//! attribute   | length, 2 | kind, 2 | payload, padded to 4 |
//! ```
//!
//! Source: netlink(7).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use libc::c_int;

const HEADER_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;

/// Room for one answer; the longest one seen is far smaller.
const ANSWER_BYTES: usize = 64 << 10;

/// The bits of an attribute's kind without its flags. Source: NLA_TYPE_MASK, linux/netlink.h.
const KIND_MASK: u16 = 0x3fff;

/// A netlink socket for requests. They concern the network namespace where it was opened, from any
/// thread.
#[derive(Debug)]
pub struct Line(File);

impl Line {
    /// Opens a socket of one `NETLINK_` protocol.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn open(protocol: c_int) -> io::Result<Self> {
        Ok(Self(File::from(socket(protocol)?)))
    }

    /// Makes one request and returns the answer's body, after the header. An answer that is an
    /// error becomes an error with its number.
    ///
    /// # Errors
    /// Errors from the kernel, or [`malformed`].
    /// What the kernel says, or [`malformed`].
    pub fn ask(&self, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
        let mut socket = &self.0;
        let mut question = Vec::with_capacity(HEADER_BYTES + body.len());
        question.extend(((HEADER_BYTES + body.len()) as u32).to_ne_bytes());
        question.extend(kind.to_ne_bytes());
        question.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
        // Each request is answered before the next one: none needs a sequence number or a port.
        question.extend([0; 8]);
        question.extend(body);
        socket.write_all(&question)?;
        let mut answer = vec![0; ANSWER_BYTES];
        let bytes = socket.read(&mut answer)?;
        let answer = &answer[..bytes];
        let kind = answer.get(4..).and_then(half).ok_or_else(malformed)?;
        let body = answer.get(HEADER_BYTES..).ok_or_else(malformed)?;
        if c_int::from(kind) == libc::NLMSG_ERROR {
            // The kernel reports negative error numbers.
            let error = word(body).ok_or_else(malformed)? as i32;
            return Err(io::Error::from_raw_os_error(error.wrapping_neg()));
        }
        Ok(body.to_vec())
    }
}

/// Makes one request in the calling thread's network namespace, like [`Line::ask`].
///
/// # Errors
/// The same.
pub fn ask(protocol: c_int, kind: u16, body: &[u8]) -> io::Result<Vec<u8>> {
    Line::open(protocol)?.ask(kind, body)
}

/// Makes an attribute with its header, padded.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = ATTRIBUTE_BYTES + payload.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// Returns the payload of the first attribute whose kind `will_do`.
pub fn find(mut attributes: &[u8], will_do: impl Fn(u16) -> bool) -> Option<&[u8]> {
    loop {
        let length = usize::from(half(attributes)?);
        let kind = half(attributes.get(2..)?)? & KIND_MASK;
        let payload = attributes.get(ATTRIBUTE_BYTES..length)?;
        if will_do(kind) {
            return Some(payload);
        }
        attributes = attributes.get(length.next_multiple_of(4)..)?;
    }
}

/// Returns the 16 bits at the start of `bytes`.
pub fn half(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
}

/// Returns the 32 bits at the start of `bytes`.
pub fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes))
}

/// Returns the error for a malformed answer.
pub fn malformed() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn socket(protocol: c_int) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_found_again_and_damage_ends_the_search() {
        let list = [attribute(2, b"abcde"), attribute(7 | 0x8000, b"xy")].concat();
        assert_eq!(list.len(), 12 + 8);
        assert_eq!(find(&list, |kind| kind == 2), Some(&b"abcde"[..]));
        assert_eq!(find(&list, |kind| kind == 7), Some(&b"xy"[..]), "flags are not the kind");
        assert_eq!(find(&list, |kind| kind == 3), None);
        assert_eq!(find(&[3, 0, 2, 0], |kind| kind == 2), None, "shorter than its header");
        assert_eq!(find(&list[..9], |kind| kind == 2), Some(&b"abcde"[..]));
        assert_eq!(find(&list[..8], |kind| kind == 2), None, "cut off");
    }
}

//! One question to rtnetlink: which XDP program is on an interface?
//!
//! ```text
//! | nlmsghdr, 16 | ifinfomsg, 16 | attribute | attribute | ...
//!                                  | length, 2 | kind, 2 | payload, padded to 4 |
//! ```
//!
//! Source: netlink(7), rtnetlink(7); rtnl_xdp_fill, net/core/rtnetlink.c.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};

use super::{Attached, XdpMode};

const HEADER_BYTES: usize = 16;
const LINK_BYTES: usize = 16;
const ATTRIBUTE_BYTES: usize = 4;

/// An answer about one interface; the longest seen is far below it.
const ANSWER_BYTES: usize = 64 << 10;

/// Attributes: what is attached, and in which mode. Source: include/uapi/linux/if_link.h.
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROGRAM_ID: u16 = 4;
/// Programs of several modes at a time have an attribute each: driver, generic, device.
const IFLA_XDP_MODE_IDS: std::ops::RangeInclusive<u16> = 5..=7;

/// The bits of an attribute's kind that are the kind. Source: NLA_TYPE_MASK, linux/netlink.h.
const KIND_MASK: u16 = 0x3fff;

/// The program on an interface. `ENODEV` if there is no such interface.
pub(super) fn attached(interface_index: u32) -> io::Result<Option<Attached>> {
    let mut socket = File::from(socket()?);
    socket.write_all(&question(interface_index))?;
    let mut answer = vec![0; ANSWER_BYTES];
    let bytes = socket.read(&mut answer)?;
    answer.truncate(bytes);
    parse(&answer)
}

fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointer.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn question(interface_index: u32) -> Vec<u8> {
    let mut question = Vec::with_capacity(HEADER_BYTES + LINK_BYTES);
    question.extend(((HEADER_BYTES + LINK_BYTES) as u32).to_ne_bytes());
    question.extend(libc::RTM_GETLINK.to_ne_bytes());
    question.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Sequence and port number are for those who ask more than once.
    question.extend([0; 8]);
    // Family and type of the interface: any.
    question.extend([0; 4]);
    question.extend(interface_index.to_ne_bytes());
    question.extend([0; 8]);
    question
}

fn parse(answer: &[u8]) -> io::Result<Option<Attached>> {
    let malformed = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = answer.get(4..).and_then(half).ok_or_else(malformed)?;
    let body = answer.get(HEADER_BYTES..).ok_or_else(malformed)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        // The kernel has its errors negative.
        let error = word(body).ok_or_else(malformed)? as i32;
        return Err(io::Error::from_raw_os_error(-error));
    }
    let attributes = body.get(LINK_BYTES..).ok_or_else(malformed)?;
    let Some(xdp) = find(attributes, |kind| kind == IFLA_XDP) else { return Ok(None) };
    // Source: XDP_ATTACHED_, include/uapi/linux/if_link.h.
    let mode = match find(xdp, |kind| kind == IFLA_XDP_ATTACHED) {
        Some([0, ..]) | None => return Ok(None),
        Some([1, ..]) => XdpMode::Native,
        Some([2, ..]) => XdpMode::Generic,
        Some(_) => XdpMode::Auto,
    };
    let id = find(xdp, |kind| kind == IFLA_XDP_PROGRAM_ID)
        .or_else(|| find(xdp, |kind| IFLA_XDP_MODE_IDS.contains(&kind)));
    Ok(id.and_then(word).map(|program_id| Attached { program_id, mode }))
}

/// The payload of the first attribute whose kind will do.
fn find(mut attributes: &[u8], will_do: impl Fn(u16) -> bool) -> Option<&[u8]> {
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

fn half(bytes: &[u8]) -> Option<u16> {
    bytes.first_chunk().map(|&bytes| u16::from_ne_bytes(bytes))
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|&bytes| u32::from_ne_bytes(bytes))
}

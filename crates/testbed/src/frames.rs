//! Frames that carry a number, so that each missing one can be identified.
//!
//! ```text
//! | to, 6 | from, 6 | tags, 4 each | 0x88b5 | number, 8, big-endian | pattern of the number ... |
//! ```
//!
//! Source of the EtherType: IEEE 802, local experimental use 1; no host answers to it.

use std::io;
use std::thread;

use burstline_afpacket::{SEND_MAX, Sender};

use crate::{FAR_MAC, NEAR_MAC};

/// The EtherType of the frames.
pub const ETHERTYPE: u16 = 0x88b5;

/// Bytes of a frame up to the end of its number, tags not counted.
pub const SEQUENCE_BYTES: usize = 14 + 8;

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 or 0x88a8.
    pub protocol: u16,
    /// Priority and VLAN id.
    pub control: u16,
}

/// Frames with the numbers `[first, first + count)`.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The first number.
    pub first: u64,
    /// The number of frames.
    pub count: u64,
    /// Bytes of each without FCS, tags included.
    pub length: usize,
    /// Tags, the outermost first.
    pub tags: Vec<Tag>,
}

impl Frames {
    /// Makes `count` frames of `length` bytes, numbered from 0, without tags.
    pub fn new(count: u64, length: usize) -> Self {
        Self { first: 0, count, length, tags: Vec::new() }
    }

    /// Returns the offset of a frame's number.
    pub fn number_at(&self) -> usize {
        SEQUENCE_BYTES - 8 + 4 * self.tags.len()
    }

    /// Returns the bytes of the frame with this number, as on the wire.
    pub fn frame(&self, number: u64) -> Vec<u8> {
        let mut frame = [FAR_MAC, NEAR_MAC].concat();
        for tag in &self.tags {
            frame.extend(tag.protocol.to_be_bytes());
            frame.extend(tag.control.to_be_bytes());
        }
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(number.to_be_bytes());
        let pattern = (frame.len()..self.length).map(|at| (at as u64 + number) as u8);
        frame.extend(pattern);
        frame
    }

    /// Sends all frames from an interface of the calling thread's host. Returns how many the device
    /// took: all of them, if there is no error.
    ///
    /// # Errors
    /// Errors from the kernel for the first frame that it does not take.
    pub fn send(&self, sender: &mut Sender) -> io::Result<u64> {
        let mut sent = 0;
        while sent < self.count {
            let batch = (self.count - sent).min(SEND_MAX as u64);
            let start = self.first + sent;
            let frames: Vec<Vec<u8>> =
                (start..start + batch).map(|number| self.frame(number)).collect();
            let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
            let taken = sender.send(&frames)?;
            if taken == 0 {
                thread::yield_now();
            }
            sent += taken as u64;
        }
        Ok(sent)
    }
}

/// Returns the number of a frame; `None` if it is not one of ours.
pub fn sequence_of(frame: &[u8]) -> Option<u64> {
    let mut at = 12;
    loop {
        let kind = u16::from_be_bytes(*frame.get(at..)?.first_chunk()?);
        at += match kind {
            ETHERTYPE => return Some(u64::from_be_bytes(*frame.get(at + 2..)?.first_chunk()?)),
            0x8100 | 0x88a8 => 4,
            _ => return None,
        };
    }
}

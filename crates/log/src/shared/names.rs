//! Stores the interface names of descs' port numbers, for readers in other processes.
//!
//! ```text
//! word 0: link type, 32 bits | length, 16 bits | name bytes 0 and 1     words 1 to 7: bytes 2..58
//! ```
//!
//! A name is written once, before the first packet of its port is published, and never changes.
//! A reader treats it as untrusted input: it reads each word once and then checks the whole.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::protocol::Word64;

/// The longest interface name that is stored, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 58;
/// The number of ports that a desc can distinguish.
pub(crate) const NAMES: usize = 256;
const WORDS: usize = 8;
const NAME_STARTS_AT: usize = 6;

/// One port's entry, a cache line. All zeros means no name.
#[repr(C, align(64))]
pub(crate) struct PortName([AtomicU64; WORDS]);

const _: () = assert!(size_of::<PortName>() == NAME_STARTS_AT + MAX_NAME_BYTES);

impl PortName {
    /// Writes the name, truncated to [`MAX_NAME_BYTES`] at a character. An existing name stays. The
    /// caller holds a lock, so only one thread writes.
    pub(crate) fn write(&self, link: u32, name: &str) {
        if name.is_empty() || self.0[0].load(Relaxed) != 0 {
            return;
        }
        let name = &name.as_bytes()[..name.floor_char_boundary(MAX_NAME_BYTES)];
        let mut bytes = [0; WORDS * 8];
        bytes[..4].copy_from_slice(&link.to_le_bytes());
        bytes[4..NAME_STARTS_AT].copy_from_slice(&(name.len() as u16).to_le_bytes());
        bytes[NAME_STARTS_AT..][..name.len()].copy_from_slice(name);
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks().0).skip(1) {
            word.store(u64::from_le_bytes(*bytes), Relaxed);
        }
        let first = u64::from_le_bytes(bytes.as_chunks().0[0]);
        self.0[0].store(first, Release); // pairs with `read`: the rest is visible
    }

    /// Returns the link type and the name; `None` if there is no name or the entry is invalid.
    pub(crate) fn read(&self) -> Option<(u32, String)> {
        let mut bytes = [0; WORDS * 8];
        for (word, bytes) in self.0.iter().zip(bytes.as_chunks_mut().0) {
            *bytes = Word64::load(word, Acquire).to_le_bytes(); // pairs with `write`, word 0 first
        }
        let (link, rest) = bytes.split_first_chunk()?;
        let (length, name) = rest.split_first_chunk()?;
        let name = name.get(..usize::from(u16::from_le_bytes(*length)))?;
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty())?;
        Some((u32::from_le_bytes(*link), name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zeros() -> PortName {
        PortName(Default::default())
    }

    #[test]
    fn a_name_is_read_as_written_and_stays() {
        let name = zeros();
        assert_eq!(name.read(), None);
        name.write(1, "");
        assert_eq!(name.read(), None);
        name.write(0xffff_ffff, "eth0");
        name.write(1, "eth1");
        assert_eq!(name.read(), Some((0xffff_ffff, "eth0".into())));
    }

    #[test]
    fn a_long_name_is_cut_at_a_character() {
        let name = zeros();
        name.write(1, &"ü".repeat(30)); // 60 bytes
        assert_eq!(name.read(), Some((1, "ü".repeat(29))));
        let odd = zeros();
        odd.write(1, &format!("x{}", "ü".repeat(30)));
        assert_eq!(odd.read(), Some((1, format!("x{}", "ü".repeat(28)))));
    }

    #[test]
    fn what_no_writer_wrote_is_no_name() {
        for (length, byte) in [(59, b'x'), (u16::MAX, b'x'), (0, b'x'), (58, 0xff)] {
            let mut bytes = [byte; 64];
            bytes[4..6].copy_from_slice(&length.to_le_bytes());
            let name = zeros();
            for (word, bytes) in name.0.iter().zip(bytes.as_chunks().0) {
                word.store(u64::from_le_bytes(*bytes), Relaxed);
            }
            assert_eq!(name.read(), None, "{length}");
        }
    }
}

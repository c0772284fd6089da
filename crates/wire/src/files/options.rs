//! The options at the end of a pcapng block body.

use super::{PacketOptions, half, word};

/// Iterates over `code, length, value, padding` until the end of options or of the bytes.
///
/// Source: draft-ietf-opsawg-pcapng, section 3.5.
pub(super) struct Options<'a> {
    rest: &'a [u8],
    swapped: bool,
}

/// Options whose lengths do not add up.
#[derive(Debug)]
pub(super) struct Malformed;

/// The code of an option, and its value.
type Entry<'a> = (u16, &'a [u8]);

impl<'a> Options<'a> {
    /// Starts at the first option.
    pub(super) fn new(bytes: &'a [u8], swapped: bool) -> Self {
        Options { rest: bytes, swapped }
    }

    /// Returns the next option, or `None` after the last one.
    pub(super) fn next(&mut self) -> Result<Option<Entry<'a>>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        if self.rest.len() < 4 {
            return Err(Malformed);
        }
        let code = half(self.rest, 0, self.swapped);
        let length = usize::from(half(self.rest, 2, self.swapped));
        if code == 0 {
            // Nothing may follow opt_endofopt. A flipped bit in a captured length shows up here.
            let ends = length == 0 && self.rest.len() == 4;
            return if ends { Ok(None) } else { Err(Malformed) };
        }
        let value = self.rest.get(4..4 + length).ok_or(Malformed)?;
        self.rest = self.rest.get(4 + length.next_multiple_of(4)..).ok_or(Malformed)?;
        Ok(Some((code, value)))
    }
}

/// Reads a 64-bit number whose two halves are one number in the writer's byte order.
pub(super) fn number(value: &[u8], swapped: bool) -> Option<u64> {
    let eight = *value.first_chunk::<8>().filter(|_| value.len() == 8)?;
    Some(if swapped { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
}

/// Reads the options of a packet block.
pub(super) fn packet_options(bytes: &[u8], swapped: bool) -> Result<PacketOptions, Malformed> {
    let mut found = PacketOptions::default();
    let mut options = Options::new(bytes, swapped);
    while let Some((code, value)) = options.next()? {
        let four = || if value.len() == 4 { Ok(word(value, 0, swapped)) } else { Err(Malformed) };
        let eight = || number(value, swapped).ok_or(Malformed);
        match code {
            2 => found.flags = Some(four()?),
            3 if found.hash.is_none() => {
                let (&algorithm, digest) = value.split_first().ok_or(Malformed)?;
                let mut first = [0; 4];
                let length = digest.len().min(4);
                first[..length].copy_from_slice(&digest[..length]);
                found.hash = Some((algorithm, u32::from_le_bytes(first)));
            }
            4 => found.drops_before = Some(eight()?),
            5 => found.packet_id = Some(eight()?),
            6 => found.queue = Some(four()?),
            _ => {}
        }
    }
    Ok(found)
}

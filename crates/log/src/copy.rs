//! Copying one packet: most are short, and a call to `memcpy` costs more than the bytes.

use std::ptr;

/// Packets up to this length are copied in line, in pieces of 16 bytes.
const SHORT_BYTES: usize = 256;

type Piece = [u8; 16];

/// Copies `packet` to `to`.
///
/// # Safety
/// `to` must be valid for writes of `packet.len()` bytes and not overlap it.
#[inline]
pub(crate) unsafe fn copy_packet(packet: &[u8], to: *mut u8) {
    let (from, length) = (packet.as_ptr(), packet.len());
    if !(size_of::<Piece>()..=SHORT_BYTES).contains(&length) {
        // SAFETY: the caller's promise.
        unsafe { ptr::copy_nonoverlapping(from, to, length) };
        return;
    }
    let last = length - size_of::<Piece>();
    let mut at = 0;
    while at < last {
        // SAFETY: `at + 16 <= length`, within both.
        unsafe { copy_piece(from.add(at), to.add(at)) };
        at += size_of::<Piece>();
    }
    // SAFETY: the last 16 bytes, some of them for the second time.
    unsafe { copy_piece(from.add(last), to.add(last)) };
}

/// # Safety
/// Both must be valid for 16 bytes and not overlap.
#[inline]
unsafe fn copy_piece(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise; unaligned accesses are one instruction each.
    unsafe { to.cast::<Piece>().write_unaligned(from.cast::<Piece>().read_unaligned()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_copied_exactly() {
        let source: Vec<u8> = (0..600_u32).map(|value| (value * 7 + 1) as u8).collect();
        for length in 0..=source.len() {
            let mut target = vec![0xee_u8; length + 1];
            // SAFETY: the target has `length` bytes and more.
            unsafe { copy_packet(&source[..length], target.as_mut_ptr()) };
            assert_eq!(&target[..length], &source[..length]);
            assert_eq!(target[length], 0xee, "wrote past {length} bytes");
        }
    }
}

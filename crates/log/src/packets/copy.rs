//! Copies single packets: most are short, and a call to `memcpy` costs more than the bytes.
//!
//! If the reader is far, packets go past this core's cache ([`Handoff`](crate::Handoff)): a store
//! through the cache would first fetch the line from the reader's core. Whole lines leave in one
//! transfer. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1,
//! 10.4.6.2, "Caching of Temporal vs. Non-Temporal Data".

use std::ptr;

use crate::desc::Desc;

/// Packets up to this length are copied in line, in pieces of 16 bytes.
const SHORT_BYTES: usize = 256;

type Piece = [u8; 16];

/// Pieces are copied in pairs, so a packet of up to 64 bytes needs no loop.
const TWO: usize = 2 * size_of::<Piece>();

/// Copies `packet` to `to`.
///
/// # Safety
/// `to` must be valid for writes of `packet.len()` bytes and must not overlap `packet`.
#[inline]
pub(crate) unsafe fn copy_packet(packet: &[u8], to: *mut u8) {
    let (from, length) = (packet.as_ptr(), packet.len());
    if !(size_of::<Piece>()..=SHORT_BYTES).contains(&length) {
        // SAFETY: guaranteed by the caller.
        unsafe { ptr::copy_nonoverlapping(from, to, length) };
        return;
    }
    if length < TWO {
        // SAFETY: `length` is at least 16; the last 16 bytes may overlap the first.
        unsafe {
            copy_piece(from, to);
            copy_piece(from.add(length - TWO / 2), to.add(length - TWO / 2));
        }
        return;
    }
    let last = length - TWO;
    // SAFETY: `length` is at least 32; the last 32 bytes may overlap the first.
    unsafe {
        copy_two(from, to);
        copy_two(from.add(last), to.add(last));
    }
    let mut at = TWO;
    while at < last {
        // SAFETY: `at + 32 <= length`, within both.
        unsafe { copy_two(from.add(at), to.add(at)) };
        at += TWO;
    }
}

/// # Safety
/// Both must be valid for 32 bytes and must not overlap.
#[inline(always)]
unsafe fn copy_two(from: *const u8, to: *mut u8) {
    const STEP: usize = size_of::<Piece>();
    // SAFETY: guaranteed by the caller.
    unsafe {
        copy_piece(from, to);
        copy_piece(from.add(STEP), to.add(STEP));
    }
}

/// Copies `packet` to `to`, past the cache if the processor supports it. It must not be announced
/// before [`settle`]. The bytes after the packet, up to the next multiple of 16, become zeros.
///
/// # Safety
/// `to` must be aligned to 16, valid for writes of `packet.len()` bytes rounded up to a multiple of
/// 16, and not overlap the packet.
pub(crate) unsafe fn stream_packet(packet: &[u8], to: *mut u8) {
    let (pieces, rest) = packet.as_chunks::<{ size_of::<Piece>() }>();
    for (index, piece) in pieces.iter().enumerate() {
        // SAFETY: piece `index` is within the packet's length.
        unsafe { stream_piece(*piece, to.add(index * size_of::<Piece>())) };
    }
    if !rest.is_empty() {
        let mut last = [0; size_of::<Piece>()];
        last[..rest.len()].copy_from_slice(rest);
        // SAFETY: the caller guarantees room for whole pieces.
        unsafe { stream_piece(last, to.add(size_of_val(pieces))) };
    }
}

/// Copies whole pieces past the cache, like [`stream_packet`].
///
/// # Safety
/// `from` and `to` must be aligned to 16, valid for `bytes` bytes, a multiple of 16, and apart.
pub(crate) unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    for at in (0..bytes).step_by(size_of::<Piece>()) {
        // SAFETY: the piece is within the `bytes` bytes that the caller guarantees.
        unsafe { stream_piece(from.add(at).cast::<Piece>().read(), to.add(at)) };
    }
}

/// Writes a desc past the cache, like [`stream_packet`].
///
/// # Safety
/// `to` must be valid for writes.
#[inline]
pub(crate) unsafe fn stream_desc(desc: Desc, to: *mut Desc) {
    let [place, flow] = desc.words().map(u64::to_ne_bytes);
    let mut piece = [0; size_of::<Piece>()];
    piece[..8].copy_from_slice(&place);
    piece[8..].copy_from_slice(&flow);
    // SAFETY: guaranteed by the caller; a desc is aligned to its 16 bytes.
    unsafe { stream_piece(piece, to.cast()) };
}

/// # Safety
/// `to` must be aligned to 16 and valid for writes of 16 bytes.
#[inline]
unsafe fn stream_piece(piece: Piece, to: *mut u8) {
    #[cfg(all(target_arch = "x86_64", not(miri), not(tsan)))]
    {
        use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
        // SAFETY: every x86-64 processor has SSE2; `piece` is 16 bytes; the caller vouches for
        // `to`.
        unsafe {
            _mm_stream_si128(to.cast::<__m128i>(), _mm_loadu_si128((&raw const piece).cast()))
        };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri), not(tsan))))]
    // SAFETY: guaranteed by the caller.
    unsafe {
        to.cast::<Piece>().write(piece);
    }
}

/// Orders streamed stores before all stores that follow: a Release store alone does not.
#[inline]
pub(crate) fn settle() {
    #[cfg(all(target_arch = "x86_64", not(miri), not(tsan)))]
    // SAFETY: every x86-64 processor has it, and it changes no memory.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
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

    #[test]
    fn every_length_from_every_alignment_is_streamed_exactly() {
        #[repr(align(16))]
        struct Room([u8; 656]);
        let source: Vec<u8> = (0..640_u32).map(|value| (value * 7 + 1) as u8).collect();
        let lengths = if cfg!(miri) { 0..=70 } else { 0..=620 };
        for (start, length) in lengths.flat_map(|length| (0..16).map(move |start| (start, length)))
        {
            let (packet, padded) = (&source[start..start + length], length.next_multiple_of(16));
            let mut room = Room([0xee; 656]);
            // SAFETY: the room is aligned and longer than any packet rounded up.
            unsafe { stream_packet(packet, room.0.as_mut_ptr()) };
            settle();
            assert_eq!(&room.0[..length], packet, "{length} bytes from {start}");
            assert!(room.0[length..padded].iter().all(|&byte| byte == 0));
            assert_eq!(room.0[padded], 0xee, "wrote past {padded} bytes");
        }
    }
}

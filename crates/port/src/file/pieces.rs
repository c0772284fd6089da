//! Compresses an output piece by piece.
//!
//! ```text
//!  gzip   | member | member | member |          each whole in itself
//!  zstd   | header | blocks | blocks | blocks | an empty last block |
//!                           /        \
//!                           | compressed | as is |   if the end of a piece must be readable alone
//! ```
//!
//! A piece is the argument of one write to [`Output`](super::output::Output): whole blocks of the
//! inner format. It can be decompressed before the next one is written. Every reader takes several
//! gzip members as one stream. With several Zstandard frames, Wireshark 4.0 sometimes loses its
//! position between two of them. So there is one frame, to which each piece adds its blocks.

use std::io::{self, Write};

use flate2::Compression as GzipLevel;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::naming::Compression;
use super::zstd::BlockHead;

/// Bytes of the header that `ruzstd` writes: magic number, descriptor, window.
/// Source: RFC 8878, 3.1.1.1.
pub(super) const HEADER_BYTES: usize = 6;

/// Offset of the descriptor in it, and the flag that a checksum ends the frame.
const DESCRIPTOR_AT: usize = 4;
const HAS_CHECKSUM: u8 = 1 << 2;

/// The longest block, with `ruzstd`'s window size. Source: RFC 8878, 3.1.1.2.4.
pub(super) const BLOCK_BYTES: usize = 128 << 10;

/// Compresses the pieces of one output.
pub(super) struct Pieces {
    compression: Compression,
    is_begun: bool,
}

impl Pieces {
    pub(super) fn new(compression: Compression) -> Self {
        Self { compression, is_begun: false }
    }

    /// Compresses the next piece.
    pub(super) fn next(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self.compression {
            Compression::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), GzipLevel::fast());
                encoder.write_all(bytes)?;
                encoder.finish()
            }
            Compression::Zstd => {
                // An empty piece begins a frame, too.
                let (first, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES));
                let mut piece = self.block(first)?;
                for block in rest.chunks(BLOCK_BYTES) {
                    piece.extend(self.block(block)?);
                }
                Ok(piece)
            }
        }
    }

    /// Compresses a block independently. A `ruzstd` 0.9.1 encoder of several blocks may let one
    /// reuse the Huffman code of the block before. But if that block was stored uncompressed, it
    /// has no code.
    fn block(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let frame = compress_to_vec(bytes, CompressionLevel::Fastest);
        let is_first = !std::mem::replace(&mut self.is_begun, true);
        part_of_a_frame(frame, is_first)
            .ok_or_else(|| io::Error::other("an invalid Zstandard frame"))
    }

    /// As [`next`](Self::next) for Zstandard, but stores the bytes from `tail_at` on uncompressed:
    /// [`stored_at`] locates them.
    pub(super) fn next_with_tail(&mut self, bytes: &[u8], tail_at: usize) -> io::Result<Vec<u8>> {
        let (front, tail) = bytes.split_at(tail_at);
        // `ruzstd` turns 128 KiB of zeros into some 6 KiB.
        let zeros = front.iter().rev().take_while(|byte| **byte == 0).count();
        let (front, zeros) = front.split_at(front.len() - zeros);
        let mut piece = self.next(front)?;
        let head = |kind, size| BlockHead { is_last: false, kind, size }.to_bytes();
        for block in zeros.chunks(BLOCK_BYTES) {
            piece.extend_from_slice(&head(BlockHead::REPEATED, block.len()));
            piece.push(0);
        }
        for block in tail.rchunks(BLOCK_BYTES).rev() {
            piece.extend_from_slice(&head(BlockHead::RAW, block.len()));
            piece.extend_from_slice(block);
        }
        Ok(piece)
    }

    /// Continues after an ended output whose end was cut off.
    pub(super) fn go_on(&mut self, is_begun: bool) {
        self.is_begun = is_begun && self.compression == Compression::Zstd;
    }

    /// Returns the bytes that end the output. Nothing may follow.
    pub(super) fn end(&mut self) -> &'static [u8] {
        match std::mem::replace(&mut self.is_begun, false) {
            true => &BlockHead::LAST,
            false => &[],
        }
    }
}

/// Locates a byte of the tail; `behind` is the distance from it to the end of the piece before
/// compression. Returns its distance from the end as stored, and how many bytes are contiguous
/// there. `None` if there is no such byte.
pub(super) fn stored_at(behind: u64) -> Option<(u64, usize)> {
    let blocks = behind.checked_sub(1)? / BLOCK_BYTES as u64;
    let contiguous = behind - blocks * BLOCK_BYTES as u64;
    Some((behind + blocks * BlockHead::BYTES as u64, contiguous as usize))
}

/// Turns a frame into a part of a longer one: with its header only if it is the first, and without
/// its end.
///
/// Its blocks do not depend on earlier blocks. A separate encoder made them, and `ruzstd` does not
/// use the offsets that a decoder remembers from block to block.
fn part_of_a_frame(mut frame: Vec<u8>, is_first: bool) -> Option<Vec<u8>> {
    let descriptor = frame.get_mut(DESCRIPTOR_AT)?;
    *descriptor &= !HAS_CHECKSUM;
    let mut at = HEADER_BYTES;
    loop {
        let place = frame.get_mut(at..)?.first_chunk_mut()?;
        let head = BlockHead::of(*place);
        *place = BlockHead { is_last: false, ..head }.to_bytes();
        at += BlockHead::BYTES + head.content_bytes();
        if head.is_last {
            break;
        }
    }
    frame.truncate(at);
    Some(if is_first { frame } else { frame.split_off(HEADER_BYTES) })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::bufread::MultiGzDecoder;

    use super::super::zstd::ZstdReader;
    use super::*;

    /// Pieces of all sizes: similar, identical, and without any pattern.
    fn plain() -> Vec<Vec<u8>> {
        let mut state = 7_u32;
        let mut noise = |_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let lengths = [1, 40, 3_000, 131_072, 131_073, 500_000];
        let alike = |length: usize| (0..length).map(|at| (at / 3 % 200) as u8).collect();
        let pieces = lengths.map(|length| [alike(length), vec![9; length]]);
        let noisy = [5, 70_000, 300_000].map(|length| (0..length).map(&mut noise).collect());
        pieces.into_iter().flatten().chain(noisy).collect()
    }

    /// A literals section of type 3 uses another block's code. Source: RFC 8878, 3.1.1.3.1.1.
    #[test]
    fn no_block_borrows_the_code_of_another() {
        let mut pieces = Pieces::new(Compression::Zstd);
        for piece in plain() {
            let stream = pieces.next(&piece).unwrap();
            let mut at =
                if stream.starts_with(&[0x28, 0xB5, 0x2F, 0xFD]) { HEADER_BYTES } else { 0 };
            while at < stream.len() {
                let head = BlockHead::of(*stream[at..].first_chunk().unwrap());
                at += BlockHead::BYTES;
                let is_plain = [BlockHead::RAW, BlockHead::REPEATED].contains(&head.kind);
                assert!(is_plain || stream[at] & 3 != 3, "{} bytes, at {at}", piece.len());
                at += head.content_bytes();
            }
        }
    }

    #[test]
    fn pieces_are_one_stream_which_may_end_behind_any() {
        for compression in [Compression::Gzip, Compression::Zstd] {
            let (mut pieces, mut stream, mut whole) = (Pieces::new(compression), vec![], vec![]);
            let unpacked = |stream: &[u8]| {
                let mut bytes = Vec::new();
                let outcome = match compression {
                    Compression::Gzip => MultiGzDecoder::new(stream).read_to_end(&mut bytes),
                    Compression::Zstd => ZstdReader::new(stream, 8 << 20).read_to_end(&mut bytes),
                };
                (outcome.is_ok(), bytes)
            };
            for piece in plain() {
                stream.extend(pieces.next(&piece).unwrap());
                whole.extend(piece);
                let end = match compression {
                    Compression::Gzip => &[][..],
                    Compression::Zstd => &BlockHead::LAST,
                };
                let ended = unpacked(&[&stream, end].concat());
                assert!(ended == (true, whole.clone()), "{compression:?} at {}", whole.len());
                // It is readable without its end, too, except for what a decoder still wants to
                // keep.
                let cut = unpacked(&stream).1;
                assert!(whole.starts_with(&cut) && cut.len() + (128 << 10) >= whole.len());
            }
            assert_eq!(pieces.end().is_empty(), compression == Compression::Gzip);
            assert!(stream.len() < whole.len());
        }
    }

    #[test]
    fn the_tail_of_a_piece_is_stored_as_it_is() {
        let noise = |at: u32| (at.wrapping_mul(at) >> 7) as u8;
        let mut piece: Vec<u8> = (0..400_000).map(noise).collect();
        piece[120_000..260_000].fill(0);
        for tail_at in [0, 1, 128 << 10, 260_000, 399_999, 400_000] {
            let mut pieces = Pieces::new(Compression::Zstd);
            let packed = pieces.next_with_tail(&piece, tail_at).unwrap();
            let mut whole = Vec::new();
            ZstdReader::new(&[&packed, pieces.end()].concat()[..], 8 << 20)
                .read_to_end(&mut whole)
                .unwrap();
            assert!(whole == piece, "{tail_at}");
            let mut at = tail_at;
            while at < piece.len() {
                let (before_end, bytes) = stored_at((piece.len() - at) as u64).unwrap();
                let stored = &packed[packed.len() - before_end as usize..][..bytes];
                assert!(stored == &piece[at..at + bytes], "{tail_at}: {at}");
                at += bytes;
            }
        }
    }
}

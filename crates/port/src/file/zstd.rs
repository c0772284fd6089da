//! Decompresses Zstandard, with any number of consecutive frames.
//!
//! ```text
//!  source --gather--> | a header, or a block, whole | --> decoder, which keeps a window --> reader
//! ```
//!
//! The decoder of `ruzstd` cannot stop in the middle of a block. So we first collect its next unit
//! of input, at most 128 KiB. A pipe without more data then says so, without blocking.

mod block;
mod found;
pub(super) mod packed;

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::{Address, AddressError, Key};
pub(super) use block::BlockHead;

/// The keys of an input file's address.
pub(crate) const SOURCE_KEYS: &[Key] = &[Key::size(
    "window",
    1024..=1 << 31,
    "The most memory that a zstd stream may have kept of what was decompressed",
)
.or("8m")];

/// The default of `window`, in bytes, for files that are opened without an address.
pub(super) const WINDOW_BYTES: u64 = 8 << 20;

/// Returns the maximum window of a zstd stream for a source's address, in bytes.
pub(crate) fn window_bytes(address: &Address) -> Result<u64, AddressError> {
    address.values(SOURCE_KEYS)?.integer("window")
}

/// Magic number and descriptor of a frame. Source: RFC 8878, 3.1.1.
const DESCRIPTOR_END: usize = 5;

/// The magic number of a frame. Source: RFC 8878, 3.1.1.
const FRAME: u32 = 0xfd2f_b528;

/// The magic numbers of skippable frames, without the last four bits. Source: RFC 8878, 3.1.2.
const SKIPPABLE: u32 = 0x184d_2a50;

/// Bytes of a frame's checksum, after its last block. Source: RFC 8878, 3.1.1.
const CHECKSUM_BYTES: usize = 4;

/// The state of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Between two frames.
    Between,
    /// In a skippable frame, with this many bytes left.
    Skipping(u64),
    /// In a frame that may end with a checksum.
    Inside { has_checksum: bool },
    /// In a truncated frame: bytes that the decoder holds are returned before the error.
    Cut,
}

/// Decompresses all frames of a stream; skippable frames are skipped.
pub(super) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    at: At,
    /// The start of the decoder's next unit of input.
    gathered: Vec<u8>,
}

impl<R: BufRead> ZstdReader<R> {
    /// Creates a reader. It refuses a stream that needs a window of more than `window_bytes`.
    pub(super) fn new(source: R, window_bytes: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(window_bytes);
        Self { source, decoder, at: At::Between, gathered: Vec::new() }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    /// Collects up to `bytes` bytes; `false` if the stream ends before the first of them.
    fn gather(&mut self, bytes: usize) -> io::Result<bool> {
        while self.gathered.len() < bytes {
            let here = self.source.fill_buf()?;
            if here.is_empty() {
                return match self.gathered.is_empty() {
                    true => Ok(false),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
            let taken = here.len().min(bytes - self.gathered.len());
            self.gathered.extend_from_slice(&here[..taken]);
            self.source.consume(taken);
        }
        Ok(true)
    }

    /// As [`gather`](Self::gather); `false` also if the stream ends among them.
    fn gather_whole(&mut self, bytes: usize) -> io::Result<bool> {
        self.gather(bytes).or_else(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Ok(false),
            _ => Err(error),
        })
    }

    /// Advances to the next frame; `false` at the end of the stream.
    fn open_frame(&mut self) -> io::Result<bool> {
        if !self.gather(DESCRIPTOR_END)? {
            return Ok(false);
        }
        let magic = u32::from_le_bytes([0, 1, 2, 3].map(|at| self.gathered[at]));
        let descriptor = self.gathered[DESCRIPTOR_END - 1];
        let is_skippable = magic & !0xf == SKIPPABLE;
        let header = if is_skippable { 8 } else { header_bytes(descriptor) };
        self.gather(header)?;
        let outcome = self.decoder.reset(&self.gathered[..]);
        self.gathered.clear();
        self.at = match outcome {
            Ok(()) => At::Inside { has_checksum: descriptor & 1 << 2 != 0 },
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => At::Skipping(length.into()),
            Err(FrameDecoderError::WindowSizeTooBig { requested, max }) => {
                let text = format!(
                    "zstd needs a window of {requested} bytes, but only {max} are allowed: see \
                     window= in burstline ports file, or compress without --long"
                );
                return Err(io::Error::new(io::ErrorKind::InvalidData, text));
            }
            Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
        };
        Ok(true)
    }

    fn skip(&mut self, left: u64) -> io::Result<()> {
        let here = self.source.fill_buf()?.len() as u64;
        if here == 0 && left > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let taken = here.min(left);
        self.source.consume(taken as usize);
        self.at = if taken == left { At::Between } else { At::Skipping(left - taken) };
        Ok(())
    }

    /// Decompresses the next block.
    fn block(&mut self, has_checksum: bool) -> io::Result<()> {
        let mut is_whole = self.gather_whole(BlockHead::BYTES)?;
        if is_whole {
            let head = BlockHead::of([0, 1, 2].map(|at| self.gathered[at]));
            let checksum = if head.is_last && has_checksum { CHECKSUM_BYTES } else { 0 };
            is_whole = self.gather_whole(BlockHead::BYTES + head.content_bytes() + checksum)?;
        }
        if !is_whole {
            // A decoder that expects a checksum gets one, but does not verify it.
            self.gathered = [&BlockHead::LAST[..], &[0; CHECKSUM_BYTES]].concat();
            self.at = At::Cut;
        }
        let one_block = BlockDecodingStrategy::UptoBlocks(1);
        let decoded = self.decoder.decode_blocks(&self.gathered[..], one_block);
        self.gathered.clear();
        decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)).map(drop)
    }

    fn close_frame(&mut self) -> io::Result<()> {
        self.at = At::Between;
        let computed = self.decoder.get_calculated_checksum();
        match self.decoder.get_checksum_from_data() {
            Some(stored) if Some(stored) != computed => {
                let computed = computed.unwrap_or(0);
                let text = format!("zstd checksum is {computed:#010x}, should be {stored:#010x}");
                Err(io::Error::new(io::ErrorKind::InvalidData, text))
            }
            _ => Ok(()),
        }
    }
}

impl<R: BufRead> Read for ZstdReader<R> {
    fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
        loop {
            let has_checksum = match self.at {
                At::Between => match self.open_frame()? {
                    true => continue,
                    false => return Ok(0),
                },
                At::Skipping(left) => {
                    self.skip(left)?;
                    continue;
                }
                At::Inside { has_checksum } => has_checksum,
                At::Cut => false,
            };
            let bytes = self.decoder.read(place)?;
            if bytes > 0 || place.is_empty() {
                return Ok(bytes);
            }
            match self.decoder.is_finished() {
                true if self.at == At::Cut => return Err(io::ErrorKind::UnexpectedEof.into()),
                true => self.close_frame()?,
                false => self.block(has_checksum)?,
            }
        }
    }
}

/// Returns the length of a frame's header, including magic number and descriptor. Source: RFC 8878,
/// 3.1.1.1.
fn header_bytes(descriptor: u8) -> usize {
    let is_single = descriptor >> 5 & 1 == 1;
    let window = if is_single { 0 } else { 1 };
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content = match descriptor >> 6 {
        0 => usize::from(is_single),
        flag => 1 << flag,
    };
    DESCRIPTOR_END + window + dictionary + content
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    /// Returns one byte at a time, and nothing every second time, like a slow pipe.
    struct Slow<'a>(&'a [u8], bool);

    impl Read for Slow<'_> {
        fn read(&mut self, place: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            match (self.1, self.0.split_first()) {
                (true, _) => Err(io::ErrorKind::WouldBlock.into()),
                (false, None) => Ok(0),
                (false, Some((&first, rest))) => {
                    (place[0], self.0) = (first, rest);
                    Ok(1)
                }
            }
        }
    }

    #[test]
    fn files_with_and_without_an_address_have_one_default() {
        let address: Address = "file:x.zst".parse().unwrap();
        assert_eq!(window_bytes(&address), Ok(WINDOW_BYTES));
    }

    #[test]
    fn a_slow_pipe_is_never_waited_for() {
        let plain: Vec<u8> = (0..300_000_u32).map(|at| (at / 7 % 251) as u8).collect();
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let stream = [frame(&plain[..1000]), skippable, frame(&plain[1000..])].concat();
        let mut reader = ZstdReader::new(BufReader::new(Slow(&stream, false)), 8 << 20);
        let (mut whole, mut place, mut pauses) = (Vec::<u8>::new(), [0; 4096], 0);
        loop {
            match reader.read(&mut place) {
                Ok(0) => break,
                Ok(bytes) => whole.extend(&place[..bytes]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => pauses += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(whole == plain && pauses >= stream.len());
        let mut cut = ZstdReader::new(&stream[..stream.len() - 1], 8 << 20);
        let error = io::copy(&mut cut, &mut io::sink()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn a_window_is_refused_before_it_is_there() {
        // A frame with a window descriptor of 128 MiB, and one empty block.
        let stream = [0x28, 0xb5, 0x2f, 0xfd, 0, 17 << 3, 1, 0, 0];
        let mut place = [0; 8];
        let error = ZstdReader::new(&stream[..], 8 << 20).read(&mut place).unwrap_err();
        assert!(
            error.to_string().contains("a window of 134217728 bytes, but only 8388608"),
            "{error}"
        );
        assert_eq!(ZstdReader::new(&stream[..], 128 << 20).read(&mut place).unwrap(), 0);
    }
}

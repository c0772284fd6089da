//! Zstandard, with any number of frames one behind the other.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Decompresses all frames of a stream; skippable frames are skipped.
pub(super) struct ZstdReader<R> {
    source: R,
    decoder: FrameDecoder,
    /// Whether the decoder is inside a frame.
    is_open: bool,
}

impl<R: BufRead> ZstdReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, decoder: FrameDecoder::new(), is_open: false }
    }

    pub(super) fn get_ref(&self) -> &R {
        &self.source
    }

    /// Goes to the next frame; `false` at the end of the stream.
    fn open_frame(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.source) {
                Ok(()) => {
                    self.is_open = true;
                    return Ok(true);
                }
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::new(io::ErrorKind::InvalidData, error)),
            }
        }
        Ok(false)
    }

    fn close_frame(&mut self) -> io::Result<()> {
        self.is_open = false;
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
            if !self.is_open && !self.open_frame()? {
                return Ok(0);
            }
            let bytes = self.decoder.read(place)?;
            if bytes > 0 || place.is_empty() {
                return Ok(bytes);
            }
            if self.decoder.is_finished() {
                self.close_frame()?;
                continue;
            }
            let one_block = BlockDecodingStrategy::UptoBlocks(1);
            let decoded = self.decoder.decode_blocks(&mut self.source, one_block);
            decoded.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }
}

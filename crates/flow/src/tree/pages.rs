//! Compresses pages with zstd without a C compiler: pages are created plain, `ruzstd` packs them,
//! and the column's metadata is changed afterwards (decision 0042).

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ruzstd::encoding::{CompressionLevel, FrameCompressor, Matcher, Sequence, compress_to_vec};

/// The kind of a page's contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Values that may repeat: the compressor searches for matches.
    Ordinary,
    /// Random letters: only entropy coding, which takes a fraction of the time.
    Random,
}

/// Packs pages and writes them into memory.
pub(super) struct ZstdPages<'a> {
    writer: SerializedPageWriter<'a, Vec<u8>>,
    content: Content,
}

impl<'a> ZstdPages<'a> {
    pub(super) fn new(into: &'a mut TrackedWrite<Vec<u8>>, content: Content) -> Self {
        Self { writer: SerializedPageWriter::new(into), content }
    }
}

impl PageWriter for ZstdPages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let bytes = page.uncompressed_size();
        let packed = packed(page.data(), self.content).into();
        let mut page = page.compressed_page().clone();
        match &mut page {
            Page::DataPage { buf, .. }
            | Page::DataPageV2 { buf, .. }
            | Page::DictionaryPage { buf, .. } => *buf = packed,
        }
        self.writer.write_page(CompressedPage::new(page, bytes))
    }

    fn close(&mut self) -> Result<()> {
        self.writer.close()
    }
}

/// Bytes of a block. Source: RFC 8878, section 3.1.1.2.4.
const BLOCK_BYTES: usize = 128 << 10;

/// Packs bytes as frames of one block each. In a frame of several, `ruzstd` 0.9.1 may let a block
/// reuse the Huffman code of the previous block. But that block may have been stored raw, without a
/// code.
fn packed(bytes: &[u8], content: Content) -> Vec<u8> {
    let mut packed = Vec::with_capacity(bytes.len());
    // A page without bytes also has a frame.
    let (first, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES));
    for block in [first].into_iter().chain(rest.chunks(BLOCK_BYTES)) {
        match content {
            Content::Ordinary => {
                packed.extend(compress_to_vec(block, CompressionLevel::Fastest));
            }
            Content::Random => shorten(block, &mut packed),
        }
    }
    packed
}

/// Packs a block with Huffman coding only.
fn shorten(block: &[u8], into: &mut Vec<u8>) {
    let mut frame =
        FrameCompressor::new_with_matcher(NoMatches::default(), CompressionLevel::Fastest);
    frame.set_source(block);
    frame.set_drain(into);
    frame.compress();
}

/// A match finder that never searches.
#[derive(Default)]
struct NoMatches {
    block: Vec<u8>,
}

impl Matcher for NoMatches {
    fn get_next_space(&mut self) -> Vec<u8> {
        let mut space = std::mem::take(&mut self.block);
        space.resize(BLOCK_BYTES, 0);
        space
    }

    fn get_last_space(&mut self) -> &[u8] {
        &self.block
    }

    fn commit_space(&mut self, space: Vec<u8>) {
        self.block = space;
    }

    fn skip_matching(&mut self) {}

    fn start_matching(&mut self, mut handle_sequence: impl for<'b> FnMut(Sequence<'b>)) {
        handle_sequence(Sequence::Literals { literals: &self.block });
    }

    fn reset(&mut self, _: CompressionLevel) {}

    fn window_size(&self) -> u64 {
        BLOCK_BYTES as u64
    }
}

/// Marks a column as compressed, which the writer took for plain.
pub(super) fn said_to_be_zstd(close: ColumnCloseResult) -> Result<ColumnCloseResult> {
    let metadata = close.metadata.into_builder().set_compression(zstd()).build()?;
    Ok(of_chunk(metadata, close.rows_written, close.bytes_written))
}

/// Returns the codec for the metadata.
pub(super) fn zstd() -> Compression {
    Compression::ZSTD(ZstdLevel::default())
}

/// Returns the description of a column that is copied unchanged.
pub(super) fn of_chunk(metadata: ColumnChunkMetaData, rows: u64, bytes: u64) -> ColumnCloseResult {
    ColumnCloseResult {
        bytes_written: bytes,
        rows_written: rows,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    }
}

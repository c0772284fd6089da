//! Pages in zstd, without a C compiler: the column writers hand over plain pages, `ruzstd` packs
//! them, and the column's metadata says so afterwards (decision 0042).

use parquet::basic::{Compression, ZstdLevel};
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Packs pages and writes them into memory.
pub(super) struct ZstdPages<'a>(SerializedPageWriter<'a, Vec<u8>>);

impl<'a> ZstdPages<'a> {
    pub(super) fn new(into: &'a mut TrackedWrite<Vec<u8>>) -> Self {
        Self(SerializedPageWriter::new(into))
    }
}

impl PageWriter for ZstdPages<'_> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        let bytes = page.uncompressed_size();
        let packed = compress_to_vec(page.data(), CompressionLevel::Fastest).into();
        let mut page = page.compressed_page().clone();
        match &mut page {
            Page::DataPage { buf, .. }
            | Page::DataPageV2 { buf, .. }
            | Page::DictionaryPage { buf, .. } => *buf = packed,
        }
        self.0.write_page(CompressedPage::new(page, bytes))
    }

    fn close(&mut self) -> Result<()> {
        self.0.close()
    }
}

/// A column's metadata, of which the writer thought that its pages are plain.
pub(super) fn said_to_be_zstd(close: ColumnCloseResult) -> Result<ColumnCloseResult> {
    let codec = Compression::ZSTD(ZstdLevel::default());
    let metadata = close.metadata.into_builder().set_compression(codec).build()?;
    Ok(of_chunk(metadata, close.rows_written, close.bytes_written))
}

/// What has to be said of a column that is copied as it is.
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

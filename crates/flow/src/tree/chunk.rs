//! Encodes a column of a row group: its pages and their description in the file.
//!
//! ```text
//! dictionary page | each value once, plain |
//! data page       | rows with a value | bits per number | the number of each row's value |
//! ```
//!
//! Source: apache/parquet-format, README.md, "Data Pages", and Encodings.md.

use bytes::Bytes;
use parquet::basic::{Encoding, PageType};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::Result;
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::statistics::Statistics;
use parquet::file::writer::TrackedWrite;
use parquet::schema::types::ColumnDescPtr;

use super::pages::{self, Content, ZstdPages};
use super::runs;

/// An encoded column of a row group, and its description in the file.
pub(super) type Chunk = (Bytes, ColumnCloseResult);

/// Distinct values, in order of first occurrence.
pub(super) struct Values {
    /// In Parquet's plain encoding.
    pub(super) plain: Vec<u8>,
    pub(super) count: usize,
    /// The minimum and the maximum.
    pub(super) statistics: Option<Statistics>,
}

/// The value of each row.
pub(super) struct Rows<'a> {
    /// Numbers of the values, for rows that have one.
    pub(super) ids: &'a [u32],
    /// Whether each row has a value; empty if the column is required or all rows have one.
    pub(super) levels: &'a [u32],
    pub(super) count: usize,
}

/// Encodes a column whose values repeat.
pub(super) fn repeating(
    descriptor: &ColumnDescPtr,
    values: Values,
    rows: &Rows<'_>,
) -> Result<Chunk> {
    let mut data = Vec::with_capacity(rows.ids.len() * 2 + 64);
    append_levels(descriptor, rows, &mut data);
    let dictionary = (values.count > 0).then(|| {
        let width = runs::width(values.count);
        data.push(width as u8);
        runs::append(rows.ids, width, &mut data);
        Page::DictionaryPage {
            buf: values.plain.into(),
            num_values: values.count as u32,
            encoding: Encoding::PLAIN,
            is_sorted: false,
        }
    });
    // If no row has a value, no dictionary is needed.
    let encoding = if dictionary.is_some() { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN };
    let data = data_page(data, encoding, rows.count);
    let pages = dictionary.into_iter().chain([data]);
    chunk(descriptor, pages, Content::Ordinary, values.statistics)
}

/// Encodes a required column of random texts of one length with a common prefix.
pub(super) fn random(
    descriptor: &ColumnDescPtr,
    common: &[u8],
    rest_bytes: usize,
    rests: &[u8],
) -> Result<Chunk> {
    let count = rests.len() / rest_bytes;
    let mut data = Vec::with_capacity(rests.len() + 256);
    runs::append_differences(0, common.len() as u64, count, &mut data);
    let first = common.len() + rest_bytes;
    runs::append_differences(first as u64, rest_bytes as u64, count, &mut data);
    data.extend(common);
    data.extend(rests);
    let page = data_page(data, Encoding::DELTA_BYTE_ARRAY, count);
    chunk(descriptor, [page], Content::Random, None)
}

/// Appends which rows have a value: nothing if all must have one.
fn append_levels(descriptor: &ColumnDescPtr, rows: &Rows<'_>, data: &mut Vec<u8>) {
    if descriptor.max_def_level() == 0 {
        return;
    }
    data.extend([0; 4]);
    match rows.levels.is_empty() {
        true => runs::append_run(1, rows.count, 1, data),
        false => runs::append(rows.levels, 1, data),
    }
    let bytes = data.len() as u32 - 4;
    data[..4].copy_from_slice(&bytes.to_le_bytes());
}

fn data_page(data: Vec<u8>, encoding: Encoding, rows: usize) -> Page {
    Page::DataPage {
        buf: data.into(),
        num_values: rows as u32,
        encoding,
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    }
}

fn chunk(
    descriptor: &ColumnDescPtr,
    pages: impl IntoIterator<Item = Page>,
    content: Content,
    statistics: Option<Statistics>,
) -> Result<Chunk> {
    let mut packed = TrackedWrite::new(Vec::new());
    let mut writer = ZstdPages::new(&mut packed, content);
    let (mut dictionary_at, mut data_at, mut rows) = (None, 0, 0);
    let (mut bytes, mut packed_bytes) = (0, 0);
    let (mut encodings, mut of_pages) = (vec![Encoding::RLE], Vec::new());
    for page in pages {
        let (encoding, plain_bytes) = (page.encoding(), page.buffer().len());
        let written = writer.write_page(CompressedPage::new(page, plain_bytes))?;
        match written.page_type {
            PageType::DICTIONARY_PAGE => dictionary_at = Some(written.offset as i64),
            _ => (data_at, rows) = (written.offset as i64, written.num_values),
        }
        bytes += written.uncompressed_size as i64;
        packed_bytes += written.compressed_size as i64;
        encodings.push(encoding);
        let page_type = written.page_type;
        of_pages.push(PageEncodingStats { page_type, encoding, count: 1 });
    }
    writer.close()?;
    let mut metadata = ColumnChunkMetaData::builder(descriptor.clone())
        .set_compression(pages::zstd())
        .set_encodings(encodings)
        .set_page_encoding_stats(of_pages)
        .set_total_compressed_size(packed_bytes)
        .set_total_uncompressed_size(bytes)
        .set_num_values(rows.into())
        .set_data_page_offset(data_at)
        .set_dictionary_page_offset(dictionary_at);
    if let Some(statistics) = statistics {
        metadata = metadata.set_statistics(statistics);
    }
    let close = pages::of_chunk(metadata.build()?, rows.into(), packed_bytes as u64);
    Ok((packed.into_inner()?.into(), close))
}

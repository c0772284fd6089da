//! Checks that the pages of a file are undamaged, before they are copied.
//!
//! ```text
//! column ──► | header | frames of zstd | ──► unpacked: checksums, lengths, counts
//! ```
//!
//! A frame ends with a checksum of the unpacked data. The library has no codec here. It takes pages
//! for plain ones, and returns their stored bytes. Headers of pages have no checksum: each must be,
//! byte for byte, what this program writes for such a page.

use std::fmt::Display;
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::page::{Page, PageReader};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::runs;

/// The longest page that is unpacked, and the bytes unpacked per step.
const PAGE_MOST: usize = 1 << 28;
const STEP: usize = 1 << 20;

/// First bytes of a frame: a checksum at its end, a window of 128 KiB, and no other options.
/// Decoders differ in what else they accept here. Source: RFC 8878, section 3.1.1.1.
const FRAME: [u8; 6] = [0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x38];

/// Prefix of a field: the increment of its number, and its type.
const NUMBER: u8 = 0x15;
const SECOND_IS_STRUCT: u8 = 0x2c;
const FOURTH_IS_STRUCT: u8 = 0x4c;
const FALSE: u8 = 0x12;

/// Checks all pages of a file. Cost: it unpacks them, one at a time.
///
/// # Errors
/// The first problem, and its column.
pub(super) fn check(file: &File, metadata: &ParquetMetaData) -> Result<()> {
    let bytes = file.metadata().map_err(|error| error.to_string())?.len();
    for (number, group) in metadata.row_groups().iter().enumerate() {
        for column in group.columns() {
            check_column(file, bytes, column, group.num_rows()).map_err(|error| {
                let name = column.column_path().string();
                format!("damaged in row group {number}, column {name}: {error}")
            })?;
        }
    }
    let rows = metadata.row_groups().iter().map(|group| group.num_rows()).sum::<i64>();
    match rows == metadata.file_metadata().num_rows() {
        true => Ok(()),
        false => wrong("damaged: the file and its row groups declare different numbers of rows"),
    }
}

/// The error describes the problem.
type Result<T> = std::result::Result<T, String>;

fn wrong<T>(what: &str) -> Result<T> {
    Err(what.to_owned())
}

fn text(error: impl Display) -> String {
    error.to_string()
}

fn check_column(file: &File, bytes: u64, column: &ColumnChunkMetaData, rows: i64) -> Result<()> {
    let data_at = column.data_page_offset();
    let begin = column.dictionary_page_offset().unwrap_or(data_at);
    let length = column.compressed_size();
    // The library panics on negative numbers, as a bug of the caller.
    let is_inside = 0 <= begin && begin <= data_at && 0 <= length && rows >= 0;
    if !is_inside || begin as u64 + length as u64 > bytes {
        return wrong("its position is outside the file");
    }
    if !matches!(column.compression(), Compression::ZSTD(_)) {
        return Err(format!("it is compressed with {}, not zstd", column.compression()));
    }
    let chunk = file.get_bytes(begin as u64, length as usize).map_err(text)?;
    let plain = column.clone().into_builder();
    let plain = plain
        .set_compression(Compression::UNCOMPRESSED)
        .set_data_page_offset(data_at - begin)
        .set_dictionary_page_offset(column.dictionary_page_offset().map(|_| 0))
        .build()
        .map_err(text)?;
    let source = Arc::new(chunk.clone());
    let mut pages = SerializedPageReader::new(source, &plain, rows as usize, None).map_err(text)?;
    let (mut at, mut values) = (0, 0);
    while let Some(page) = pages.get_next_page().map_err(text)? {
        let header = header(&chunk, at, page.buffer()).ok_or("a page has no header")?;
        at += header.len() + page.buffer().len();
        check_page(header, &page, column)?;
        values += match page {
            Page::DictionaryPage { .. } => 0,
            _ => i64::from(page.num_values()),
        };
    }
    match values == rows && column.num_values() == rows {
        true => Ok(()),
        false => Err(format!("it has {values} values, and the row group has {rows}")),
    }
}

/// Returns the bytes between the previous page and this one's bytes, which are part of the chunk.
fn header<'a>(chunk: &'a Bytes, at: usize, packed: &Bytes) -> Option<&'a [u8]> {
    let end = packed.as_ptr().addr().checked_sub(chunk.as_ptr().addr())?;
    chunk.get(at..end)
}

fn check_page(header: &[u8], page: &Page, column: &ColumnChunkMetaData) -> Result<()> {
    let most = usize::try_from(column.uncompressed_size()).unwrap_or(0).min(PAGE_MOST);
    let plain = unpacked(page.buffer(), most)?;
    let is_known = match page {
        Page::DictionaryPage { num_values, .. } => {
            values_in(&plain, column.column_type()) == Some(*num_values as usize)
        }
        _ => encodes_values(page.encoding(), column),
    };
    match is_known && header == header_of(page, plain.len()) {
        true => Ok(()),
        false => wrong("a page does not match its header"),
    }
}

/// Returns whether a column may have such pages, with its dictionary or without one. RLE is for
/// levels.
fn encodes_values(encoding: Encoding, column: &ColumnChunkMetaData) -> bool {
    match column.dictionary_page_offset() {
        Some(_) => encoding == Encoding::RLE_DICTIONARY,
        None => {
            let is_other = ![Encoding::RLE, Encoding::RLE_DICTIONARY].contains(&encoding);
            is_other && column.encodings().any(|known| known == encoding)
        }
    }
}

/// Returns the header that this crate writes for a page of this many bytes. Source:
/// apache/parquet-format, parquet.thrift, PageHeader; Thrift, the compact protocol.
fn header_of(page: &Page, bytes: usize) -> Vec<u8> {
    let (kind, fields, values, end): (i64, u8, Vec<i64>, &[u8]) = match page {
        Page::DictionaryPage { num_values, .. } => {
            let values = vec![(*num_values).into(), code(Encoding::PLAIN)];
            (2, FOURTH_IS_STRUCT, values, &[FALSE, 0, 0])
        }
        Page::DataPage { num_values, encoding, .. } => {
            let levels = code(Encoding::RLE);
            let values = vec![(*num_values).into(), code(*encoding), levels, levels];
            (0, SECOND_IS_STRUCT, values, &[0, 0])
        }
        // This crate never writes these.
        Page::DataPageV2 { .. } => return Vec::new(),
    };
    let mut header = Vec::new();
    let append = |numbers: &[i64], header: &mut Vec<u8>| {
        for number in numbers {
            header.push(NUMBER);
            runs::append_signed(*number, header);
        }
    };
    append(&[kind, bytes as i64, page.buffer().len() as i64], &mut header);
    header.push(fields);
    append(&values, &mut header);
    header.extend(end);
    header
}

/// Returns the code of an encoding in a header. Source: parquet.thrift, Encoding.
fn code(encoding: Encoding) -> i64 {
    match encoding {
        Encoding::PLAIN => 0,
        Encoding::RLE => 3,
        Encoding::DELTA_BINARY_PACKED => 5,
        Encoding::DELTA_BYTE_ARRAY => 7,
        Encoding::RLE_DICTIONARY => 8,
        _ => i64::MAX,
    }
}

/// Unpacks frames, up to slightly more than `most` bytes.
fn unpacked(mut packed: &[u8], most: usize) -> Result<Vec<u8>> {
    let failed = |error: FrameDecoderError| format!("a page is not zstd: {error}");
    let (mut decoder, mut plain) = (FrameDecoder::new(), Vec::new());
    while !packed.is_empty() {
        if !packed.starts_with(&FRAME) {
            return wrong("a page is not zstd as this program writes it");
        }
        decoder.init(&mut packed).map_err(failed)?;
        while !decoder.is_finished() && plain.len() <= most {
            let step = BlockDecodingStrategy::UptoBytes(STEP);
            decoder.decode_blocks(&mut packed, step).map_err(failed)?;
            decoder.collect_to_writer(&mut plain).map_err(text)?;
        }
        if plain.len() > most {
            return wrong("a page is longer than its header says");
        }
        let said = decoder.get_checksum_from_data();
        if said.is_none() || said != decoder.get_calculated_checksum() {
            return wrong("the checksum of a page is wrong");
        }
    }
    Ok(plain)
}

/// Returns the number of a dictionary's values. Source: apache/parquet-format, Encodings.md,
/// "Plain".
fn values_in(mut plain: &[u8], kind: Type) -> Option<usize> {
    match kind {
        Type::INT32 => Some(plain.len() / 4).filter(|_| plain.len().is_multiple_of(4)),
        Type::INT64 => Some(plain.len() / 8).filter(|_| plain.len().is_multiple_of(8)),
        _ => {
            let mut count = 0;
            while let Some((length, rest)) = plain.split_first_chunk() {
                plain = rest.get(u32::from_le_bytes(*length) as usize..)?;
                count += 1;
            }
            plain.is_empty().then_some(count)
        }
    }
}

//! Records as columns: the mapping of fields to columns, and the encoding of each column.
//!
//! ```text
//! rows, by time ──1024 at a time──► each column: the number of its value ──► pages, zstd
//! ```
//!
//! The schema is the file `crates/flow/schema`. Columns are created in its order, by name. So a
//! column of the file without a value here fails every test that writes.
//!
//! Numbers that grow from row to row are stored as differences, since rows are sorted by the first
//! packet's time. A flow's ID is random: it is stored without the common prefix. All others have
//! dictionaries, whose values are compared as numbers and formatted once each.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::file::statistics::Statistics;
use parquet::file::writer::{SerializedFileWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnDescPtr, ColumnPath, TypePtr};

use burstline_wire::flow::{CommunityId, IpVersion};

use super::Origin;
use super::chunk::{self, Chunk, Rows, Values};
use super::dictionary::{Address, Dictionary};
use super::pages::{Content, ZstdPages, said_to_be_zstd};
use crate::record::{EndReason, Record, Tunnel};

/// The checked-in schema.
pub const SCHEMA: &str = include_str!("../../schema");

/// Value of the column `schema_version`.
pub const SCHEMA_VERSION: i32 = 1;

/// Columns stored as differences.
const DIFFERENCES: [&str; 3] = ["first_ns", "last_ns", "packet_number"];

/// Rows that all columns process while they are in the core's cache.
const ROWS_AT_A_TIME: usize = 1024;

/// A record and its batch number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) batch: u64,
    pub(super) record: Record,
}

pub(super) fn schema() -> Result<TypePtr> {
    static PARSED: LazyLock<Result<TypePtr, String>> = LazyLock::new(|| {
        parse_message_type(SCHEMA).map(Arc::new).map_err(|error| error.to_string())
    });
    PARSED.clone().map_err(ParquetError::General)
}

pub(super) fn properties() -> WriterPropertiesPtr {
    let column = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("burstline ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true);
    for name in DIFFERENCES {
        builder = builder
            .set_column_dictionary_enabled(column(name), false)
            .set_column_encoding(column(name), Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(builder.build())
}

pub(super) fn write_group<W: std::io::Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &[Row],
    origin: &Origin,
) -> Result<()> {
    let descriptors = file.schema_descr().columns().to_vec();
    let of = |column: &ColumnDescPtr| Column::new(column.name(), rows.len());
    let mut columns = descriptors.iter().map(of).collect::<Result<Vec<_>>>()?;
    let mut order: Vec<_> = (0_u32..)
        .zip(rows)
        .map(|(at, row)| (row.record.first_ns, row.record.place.number, at))
        .collect();
    order.sort_unstable();
    let mut now = Vec::with_capacity(ROWS_AT_A_TIME);
    for part in order.chunks(ROWS_AT_A_TIME) {
        now.clear();
        now.extend(part.iter().map(|&(_, _, at)| rows[at as usize]));
        columns.iter_mut().for_each(|column| column.take(&now));
    }
    let properties = properties();
    let mut group = file.next_row_group()?;
    for (column, descriptor) in columns.into_iter().zip(&descriptors) {
        let (bytes, close) = column.chunk(descriptor, rows.len(), origin, &properties)?;
        group.append_column(&bytes, close)?;
    }
    group.close().map(drop)
}

/// A column under construction.
enum Column {
    /// Numbers that grow.
    Growing(Vec<i64>, fn(&Record) -> u64),
    /// Numbers that repeat.
    Numbers(Dictionary<u64>, fn(&Row) -> Option<u64>),
    /// Texts that repeat, by a numeric key.
    Texts(Dictionary<u64>, fn(&Row) -> Option<u64>, fn(&mut String, u64, &Origin)),
    Addresses(Dictionary<Address>, fn(&Record) -> [u8; 16]),
    /// The letters of IDs without their common prefix.
    Ids(Vec<u8>),
}

impl Column {
    /// Creates the column with this name, for about this many rows.
    fn new(name: &str, rows: usize) -> Result<Self> {
        let growing = |value| Self::Growing(Vec::with_capacity(rows), value);
        let numbers = |value| Self::Numbers(Dictionary::new(rows), value);
        let texts = |key, text| Self::Texts(Dictionary::new(rows), key, text);
        let addresses = |value| Self::Addresses(Dictionary::new(rows), value);
        Ok(match name {
            "schema_version" => numbers(|_| Some(SCHEMA_VERSION as u64)),
            "sensor" => texts(|_| Some(0), |text, _, origin| *text += origin.sensor.as_str()),
            "boot_id" => texts(|_| Some(0), |text, _, origin| *text += origin.boot.as_str()),
            "batch" => numbers(|row| Some(row.batch)),
            "flow_id" => Self::Ids(Vec::with_capacity(rows * ID_BYTES)),
            "port" => texts(|row| Some(row.record.port.into()), append_port),
            "first_ns" => growing(|record| record.first_ns),
            "last_ns" => growing(|record| record.last_ns),
            "src_ip" => addresses(|record| record.key.source),
            "dst_ip" => addresses(|record| record.key.destination),
            "src_port" => numbers(|row| Some(row.record.key.ports?.source.into())),
            "dst_port" => numbers(|row| Some(row.record.key.ports?.destination.into())),
            "protocol" => numbers(|row| Some(row.record.key.protocol.into())),
            "vlan" => numbers(|row| row.record.vlan.map(u64::from)),
            "tunnel" => texts(
                |row| row.record.tunnel.map(Tunnel::to_bits),
                |text, bits, _| {
                    if let Some(tunnel) = Tunnel::from_bits(bits) {
                        // Writing to a string cannot fail, here and below.
                        let _ = write!(text, "{tunnel}");
                    }
                },
            ),
            "src_mac" => texts(|row| row.record.macs.map(|macs| mac(&macs[6..])), append_mac),
            "dst_mac" => texts(|row| row.record.macs.map(|macs| mac(&macs[..6])), append_mac),
            "packets" => numbers(|row| Some(row.record.packets)),
            "bytes" => numbers(|row| Some(row.record.bytes)),
            "packets_back" => numbers(|row| Some(row.record.packets_back)),
            "bytes_back" => numbers(|row| Some(row.record.bytes_back)),
            "tcp_flags" => numbers(|row| Some(row.record.tcp_flags.into())),
            "tcp_flags_back" => numbers(|row| Some(row.record.tcp_flags_back.into())),
            "rtt_ns" => numbers(|row| row.record.rtt_ns),
            "retransmissions" => numbers(|row| Some(row.record.retransmissions.into())),
            "end_reason" => texts(
                |row| Some(row.record.end as u64),
                |text, number, _| {
                    let reason = EndReason::ALL.get(number as usize);
                    *text += reason.map_or("", |reason| reason.name());
                },
            ),
            "losses" => numbers(|row| Some(row.record.losses)),
            "file" => texts(file_of, |text, key, origin| {
                let file = origin.ports.get((key >> 16) as usize);
                *text +=
                    file.and_then(|port| port.files.get(key as u16 as usize)).map_or("", |f| f);
            }),
            "segment" => numbers(|row| row.record.place.segment.map(u64::from)),
            "packet_number" => growing(|record| record.place.number),
            _ => return Err(ParquetError::General(format!("column {name:?} has no value"))),
        })
    }

    /// Adds rows.
    fn take(&mut self, rows: &[Row]) {
        match self {
            Self::Growing(values, value) => {
                values.extend(rows.iter().map(|row| value(&row.record) as i64));
            }
            Self::Numbers(dictionary, value) | Self::Texts(dictionary, value, _) => {
                for row in rows {
                    match value(row) {
                        Some(key) => dictionary.push(key),
                        None => dictionary.push_none(),
                    }
                }
            }
            Self::Addresses(dictionary, value) => {
                for Row { record, .. } in rows {
                    let is_v4 = record.key.version == IpVersion::V4;
                    dictionary.push(Address { bytes: value(record), is_v4 });
                }
            }
            Self::Ids(letters) => {
                for row in rows {
                    letters.extend(&row.record.flow_id().text()[ID_COMMON.len()..]);
                }
            }
        }
    }

    fn chunk(
        self,
        descriptor: &ColumnDescPtr,
        rows: usize,
        origin: &Origin,
        properties: &WriterPropertiesPtr,
    ) -> Result<Chunk> {
        match self {
            Self::Growing(values, _) => growing(descriptor, &values, properties),
            Self::Numbers(dictionary, _) => {
                let values = numbers(&dictionary.values, descriptor, rows - dictionary.ids.len());
                chunk::repeating(descriptor, values, &rows_of(&dictionary, rows))
            }
            Self::Texts(dictionary, _, append) => {
                let append = |text: &mut String, key: u64| append(text, key, origin);
                let values = texts(&dictionary.values, append, rows - dictionary.ids.len());
                chunk::repeating(descriptor, values, &rows_of(&dictionary, rows))
            }
            Self::Addresses(dictionary, _) => {
                let values = texts(&dictionary.values, append_address, 0);
                chunk::repeating(descriptor, values, &rows_of(&dictionary, rows))
            }
            Self::Ids(letters) => chunk::random(descriptor, ID_COMMON, ID_BYTES, &letters),
        }
    }
}

/// The common prefix of IDs, and the number of letters after it.
const ID_COMMON: &[u8] = b"1:";
const ID_BYTES: usize = CommunityId::TEXT_BYTES - ID_COMMON.len();

fn rows_of<K>(dictionary: &Dictionary<K>, count: usize) -> Rows<'_> {
    Rows { ids: &dictionary.ids, levels: &dictionary.levels, count }
}

/// Encodes a column of differences.
fn growing(
    descriptor: &ColumnDescPtr,
    values: &[i64],
    properties: &WriterPropertiesPtr,
) -> Result<Chunk> {
    let mut packed = TrackedWrite::new(Vec::new());
    let pages = Box::new(ZstdPages::new(&mut packed, Content::Ordinary));
    let mut writer = get_column_writer(descriptor.clone(), properties.clone(), pages);
    let ColumnWriter::Int64ColumnWriter(typed) = &mut writer else {
        return Err(ParquetError::General("a column has another type".to_owned()));
    };
    typed.write_batch(values, None, None)?;
    let close = said_to_be_zstd(writer.close()?)?;
    Ok((Bytes::from(packed.into_inner()?), close))
}

/// Encodes numbers in the column's type.
fn numbers(values: &[u64], descriptor: &ColumnDescPtr, missing: usize) -> Values {
    let signed = || values.iter().map(|&value| value as i64);
    let (least, most, missing) = (signed().min(), signed().max(), Some(missing as u64));
    let (plain, statistics) = match descriptor.physical_type() {
        Type::INT32 => {
            let short = |value: Option<i64>| value.map(|value| value as i32);
            let plain = values.iter().flat_map(|&value| (value as u32).to_le_bytes()).collect();
            (plain, Statistics::int32(short(least), short(most), None, missing, false))
        }
        _ => {
            let plain = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            (plain, Statistics::int64(least, most, None, missing, false))
        }
    };
    Values { plain, count: values.len(), statistics: Some(statistics) }
}

fn texts<K: Copy>(keys: &[K], append: impl Fn(&mut String, K), missing: usize) -> Values {
    let mut plain = Vec::with_capacity(keys.len() * 20);
    let mut bounds: Option<(String, String)> = None;
    let mut text = String::new();
    for &key in keys {
        text.clear();
        append(&mut text, key);
        plain.extend((text.len() as u32).to_le_bytes());
        plain.extend(text.as_bytes());
        match &mut bounds {
            None => bounds = Some((text.clone(), text.clone())),
            Some((least, _)) if text < *least => least.clone_from(&text),
            Some((_, most)) if text > *most => most.clone_from(&text),
            Some(_) => {}
        }
    }
    let (least, most) = bounds.unzip();
    let bytes = |text: Option<String>| text.map(|text| ByteArray::from(text.into_bytes()));
    let missing = Some(missing as u64);
    let statistics = Statistics::byte_array(bytes(least), bytes(most), None, missing, false);
    Values { plain, count: keys.len(), statistics: Some(statistics) }
}

fn append_port(text: &mut String, port: u64, origin: &Origin) {
    *text += origin.ports.get(port as usize).map_or("", |port| &port.name);
}

/// Returns the numbers of a port and of one of its files.
fn file_of(row: &Row) -> Option<u64> {
    let file = row.record.place.file?;
    Some(u64::from(row.record.port) << 16 | u64::from(file))
}

fn append_address(text: &mut String, address: Address) {
    let _ = match (address.is_v4, address.bytes) {
        (true, [.., a, b, c, d]) => write!(text, "{}", IpAddr::from([a, b, c, d])),
        (false, bytes) => write!(text, "{}", IpAddr::from(bytes)),
    };
}

/// Returns six bytes as a number.
fn mac(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn append_mac(text: &mut String, number: u64, _: &Origin) {
    for shift in (0..6).rev() {
        let end = if shift == 0 { "" } else { ":" };
        let _ = write!(text, "{:02x}{end}", number >> (8 * shift) & 0xff);
    }
}

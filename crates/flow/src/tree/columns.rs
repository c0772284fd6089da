//! Records as columns: which value of a record stands where, and how each column is encoded.
//!
//! The schema is the file `crates/flow/schema`. Columns are made in its order, by name, so a column
//! of the file without a value here fails every test that writes.
//!
//! Numbers that grow from row to row are stored as differences, since rows are sorted by the first
//! packet's time. A flow's ID is random: it is stored without what all have in common. All others
//! have dictionaries.

use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::{ColumnWriter, get_column_writer};
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::{
    EnabledStatistics, WriterProperties, WriterPropertiesPtr, WriterVersion,
};
use parquet::file::writer::{SerializedFileWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{ColumnPath, TypePtr};

use super::Origin;
use super::pages::{ZstdPages, said_to_be_zstd};
use crate::record::Record;

/// The schema, as it is checked in.
pub const SCHEMA: &str = include_str!("../../schema");

/// The version in the column `schema_version`.
pub const SCHEMA_VERSION: i32 = 1;

/// Columns of differences.
const DIFFERENCES: [&str; 3] = ["first_ns", "last_ns", "packet_number"];

/// The column whose values have no order and do not repeat.
const RANDOM: &str = "flow_id";

/// A record and its batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) batch: u64,
    pub(super) record: Record,
}

/// The schema as the library has it.
pub(super) fn schema() -> Result<TypePtr> {
    static PARSED: LazyLock<Result<TypePtr, String>> = LazyLock::new(|| {
        parse_message_type(SCHEMA).map(Arc::new).map_err(|error| error.to_string())
    });
    PARSED.clone().map_err(ParquetError::General)
}

/// How columns are written.
pub(super) fn properties() -> WriterPropertiesPtr {
    let column = |name: &str| ColumnPath::from(name);
    let mut builder = WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(concat!("burstline ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::UNCOMPRESSED)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(column(RANDOM), EnabledStatistics::None)
        .set_column_dictionary_enabled(column(RANDOM), false)
        .set_column_encoding(column(RANDOM), Encoding::DELTA_BYTE_ARRAY)
        .set_offset_index_disabled(true);
    for name in DIFFERENCES {
        builder = builder
            .set_column_dictionary_enabled(column(name), false)
            .set_column_encoding(column(name), Encoding::DELTA_BINARY_PACKED);
    }
    Arc::new(builder.build())
}

/// Writes rows as one row group.
pub(super) fn write_group<W: std::io::Write + Send>(
    file: &mut SerializedFileWriter<W>,
    rows: &mut [Row],
    origin: &Origin,
) -> Result<()> {
    rows.sort_unstable_by_key(|row| (row.record.first_ns, row.record.packet_number));
    let properties = properties();
    let descriptor = file.schema_descr().columns().to_vec();
    let mut group = file.next_row_group()?;
    for column in descriptor {
        let mut packed = TrackedWrite::new(Vec::new());
        let pages = Box::new(ZstdPages::new(&mut packed));
        let mut writer = get_column_writer(column.clone(), properties.clone(), pages);
        Values::of(column.name(), rows, origin)?.write(&mut writer)?;
        let close = said_to_be_zstd(writer.close()?)?;
        group.append_column(&Bytes::from(packed.into_inner()?), close)?;
    }
    group.close().map(drop)
}

/// One column's values; those that may be absent are `None` where they are.
enum Values {
    Int32(Vec<i32>),
    MaybeInt32(Vec<Option<i32>>),
    Int64(Vec<i64>),
    MaybeInt64(Vec<Option<i64>>),
    Text(Vec<ByteArray>),
    MaybeText(Vec<Option<ByteArray>>),
}

impl Values {
    fn of(name: &str, rows: &[Row], origin: &Origin) -> Result<Self> {
        let longs = |value: fn(&Record) -> u64| {
            Self::Int64(rows.iter().map(|row| value(&row.record) as i64).collect())
        };
        let ints = |value: fn(&Record) -> i32| {
            Self::Int32(rows.iter().map(|row| value(&row.record)).collect())
        };
        let maybe_ints = |value: fn(&Record) -> Option<u16>| {
            Self::MaybeInt32(rows.iter().map(|row| value(&row.record).map(i32::from)).collect())
        };
        let same = |text: &str| Self::Text(vec![ByteArray::from(text); rows.len()]);
        let port = |record: &Record| origin.ports.get(usize::from(record.port));
        Ok(match name {
            "schema_version" => Self::Int32(vec![SCHEMA_VERSION; rows.len()]),
            "sensor" => same(origin.sensor.as_str()),
            "boot_id" => same(origin.boot.as_str()),
            "batch" => Self::Int64(rows.iter().map(|row| row.batch as i64).collect()),
            "flow_id" => texts(rows, |text, record| write!(text, "{}", record.flow_id())),
            "port" => texts(rows, |text, record| {
                text.push_str(port(record).map_or("", |port| &port.name));
                Ok(())
            }),
            "first_ns" => longs(|record| record.first_ns),
            "last_ns" => longs(|record| record.last_ns),
            "src_ip" => texts(rows, |text, record| write!(text, "{}", record.source())),
            "dst_ip" => texts(rows, |text, record| write!(text, "{}", record.destination())),
            "src_port" => maybe_ints(|record| record.key.ports.map(|ports| ports.source)),
            "dst_port" => maybe_ints(|record| record.key.ports.map(|ports| ports.destination)),
            "protocol" => ints(|record| record.key.protocol.into()),
            "vlan" => maybe_ints(|record| record.vlan),
            "tunnel" => maybe_texts(rows, |record| record.tunnel.map(|tunnel| tunnel.to_string())),
            "src_mac" => maybe_texts(rows, |record| record.macs.map(|macs| mac(&macs[6..]))),
            "dst_mac" => maybe_texts(rows, |record| record.macs.map(|macs| mac(&macs[..6]))),
            "packets" => longs(|record| record.packets),
            "bytes" => longs(|record| record.bytes),
            "packets_back" => longs(|record| record.packets_back),
            "bytes_back" => longs(|record| record.bytes_back),
            "tcp_flags" => ints(|record| record.tcp_flags.into()),
            "tcp_flags_back" => ints(|record| record.tcp_flags_back.into()),
            "rtt_ns" => Self::MaybeInt64(
                rows.iter().map(|row| row.record.rtt_ns.map(|rtt_ns| rtt_ns as i64)).collect(),
            ),
            "retransmissions" => longs(|record| record.retransmissions.into()),
            "end_reason" => texts(rows, |text, record| {
                text.push_str(record.end.name());
                Ok(())
            }),
            "losses" => longs(|record| record.losses),
            "file" => maybe_texts(rows, |record| port(record).and_then(|port| port.file.clone())),
            "segment" => Self::MaybeInt64(vec![None; rows.len()]),
            "packet_number" => longs(|record| record.packet_number),
            _ => return Err(ParquetError::General(format!("column {name:?} has no value"))),
        })
    }

    fn write(self, writer: &mut ColumnWriter<'_>) -> Result<()> {
        let is_there = |is_there: bool| i16::from(is_there);
        match (self, writer) {
            (Self::Int32(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                writer.write_batch(&values, None, None)?
            }
            (Self::MaybeInt32(values), ColumnWriter::Int32ColumnWriter(writer)) => {
                let levels: Vec<_> = values.iter().map(|v| is_there(v.is_some())).collect();
                let values: Vec<_> = values.into_iter().flatten().collect();
                writer.write_batch(&values, Some(&levels), None)?
            }
            (Self::Int64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                writer.write_batch(&values, None, None)?
            }
            (Self::MaybeInt64(values), ColumnWriter::Int64ColumnWriter(writer)) => {
                let levels: Vec<_> = values.iter().map(|v| is_there(v.is_some())).collect();
                let values: Vec<_> = values.into_iter().flatten().collect();
                writer.write_batch(&values, Some(&levels), None)?
            }
            (Self::Text(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                writer.write_batch(&values, None, None)?
            }
            (Self::MaybeText(values), ColumnWriter::ByteArrayColumnWriter(writer)) => {
                let levels: Vec<_> = values.iter().map(|v| is_there(v.is_some())).collect();
                let values: Vec<_> = values.into_iter().flatten().collect();
                writer.write_batch(&values, Some(&levels), None)?
            }
            _ => return Err(ParquetError::General("a column has another type".to_owned())),
        };
        Ok(())
    }
}

/// A text for each row: one allocation for all of them.
fn texts(rows: &[Row], mut write: impl FnMut(&mut String, &Record) -> std::fmt::Result) -> Values {
    let mut all = String::with_capacity(rows.len() * 16);
    let mut ends = Vec::with_capacity(rows.len());
    for row in rows {
        // Writing to a string does not fail.
        let _ = write(&mut all, &row.record);
        ends.push(all.len());
    }
    let all = Bytes::from(all);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    Values::Text(starts.zip(&ends).map(|(from, &to)| all.slice(from..to).into()).collect())
}

fn maybe_texts(rows: &[Row], value: impl Fn(&Record) -> Option<String>) -> Values {
    let text = |row: &Row| value(&row.record).map(|text| ByteArray::from(text.into_bytes()));
    Values::MaybeText(rows.iter().map(text).collect())
}

fn mac(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(17);
    for (at, byte) in bytes.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{byte:02x}", if at == 0 { "" } else { ":" });
    }
    text
}

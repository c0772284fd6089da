//! Encodes a batch for a bus as the file that the tree would have of it alone (decision 0052).

use std::io;
use std::path::Path;

use parquet::file::writer::SerializedFileWriter;

use super::Origin;
use super::columns::{self, Row};
use super::names::{HOUR_NS, SensorName, folder};
use super::part::io_of;
use crate::sink::Batch;

/// An encoded batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The hour of its earliest record, counted from 1970.
    pub hour: u64,
}

/// Encodes a complete Parquet file with the records of one batch in one row group: some 47 bytes
/// for each of 500 records of the generator. Its metadata has a fixed size, even for a few records.
///
/// # Errors
/// A column has no value here: a bug in this program.
pub fn encode(batch: &Batch, origin: &Origin) -> io::Result<Encoded> {
    let row = |record: &_| Row { batch: batch.number, record: *record };
    let rows: Vec<Row> = batch.records.iter().map(row).collect();
    let schema = columns::schema().map_err(io_of)?;
    let writer = SerializedFileWriter::new(Vec::new(), schema, columns::properties());
    let mut writer = writer.map_err(io_of)?;
    columns::write_group(&mut writer, &rows, origin).map_err(io_of)?;
    let bytes = writer.into_inner().map_err(io_of)?;
    let first_ns = batch.records.iter().map(|record| record.first_ns).min();
    let hour = first_ns.map_or(0, |first_ns| first_ns / HOUR_NS);
    Ok(Encoded { bytes, hour })
}

/// Returns the path of a batch's file in a tree: always the same for the same batch.
#[must_use]
pub fn place_in_tree(sensor: &SensorName, boot: &str, batch: u64, hour: u64) -> String {
    let place =
        folder(Path::new(""), hour, sensor).join(format!("part-{boot}-{batch:010}.parquet"));
    place.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::tests::record;
    use crate::record::Record;
    use crate::tree::BootId;

    #[test]
    fn a_batch_has_the_same_bytes_and_place_each_time() {
        let sensor = SensorName::new("s").unwrap();
        let origin = Origin { sensor, boot: BootId::default(), ports: Vec::new() };
        let of = |first_ns| Record { first_ns, ..record(2) };
        let records = vec![of(2 * HOUR_NS), of(HOUR_NS + 1), of(5 * HOUR_NS)];
        let batch = Batch { number: 7, records };
        let encoded = encode(&batch, &origin).unwrap();
        assert_eq!(encoded, encode(&batch, &origin).unwrap());
        assert_eq!((&encoded.bytes[..4], encoded.hour), (&b"PAR1"[..], 1));
        let place = place_in_tree(&origin.sensor, "b", 7, encoded.hour);
        assert_eq!(place, "date=1970-01-01/hour=01/sensor=s/part-b-0000000007.parquet");
    }
}

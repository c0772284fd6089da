use std::fs::File;
use std::time::Duration;

use burstline_sys::temporary::TemporaryFolder;
use parquet::basic::Compression;
use parquet::file::metadata::ParquetMetaDataReader;
use parquet::schema::printer::print_schema;

use super::*;
use crate::queue::tests::record;
use crate::record::Record;

fn origin() -> Origin {
    let ports = vec![PortName { name: "a".to_owned(), files: Vec::new() }];
    Origin { sensor: SensorName::new("s").unwrap(), boot: BootId::default(), ports }
}

fn parts(root: &Path) -> Vec<PathBuf> {
    let folders = sensor_folders(root).unwrap();
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut parts: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    parts.sort();
    parts
}

fn batch(number: u64, times_ns: &[u64]) -> Batch {
    let of = |first_ns: &u64| Record { first_ns: *first_ns, ..record(2) };
    Batch { number, records: times_ns.iter().map(of).collect() }
}

#[test]
fn what_is_written_has_the_schema_that_is_checked_in() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let (mut sink, last) =
        TreeSink::open(folder.path(), origin(), Duration::from_secs(60)).unwrap();
    assert_eq!(last, None);
    sink.write(&batch(0, &[5, 3, HOUR_NS, 4]));
    assert!(parts(folder.path()).is_empty(), "a file gathers records first");
    sink.finish(&Made::default());
    let parts = parts(folder.path());
    assert_eq!(parts.len(), 2, "an hour has its file: {parts:?}");
    let file = File::open(&parts[0]).unwrap();
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
    let mut text = Vec::new();
    print_schema(&mut text, metadata.file_metadata().schema());
    assert_eq!(String::from_utf8(text).unwrap().trim(), SCHEMA.trim());
    let group = metadata.row_group(0);
    assert_eq!((metadata.num_row_groups(), group.num_rows()), (1, 3));
    let is_packed = |codec| matches!(codec, Compression::ZSTD(_));
    assert!(group.columns().iter().all(|column| is_packed(column.compression())));
    let account = sink.account();
    assert_eq!((account.records, account.packets, account.parts), (4, 8, 2));
}

#[test]
fn a_part_that_is_due_is_written_and_many_hours_take_turns() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let (mut sink, _) = TreeSink::open(folder.path(), origin(), Duration::ZERO).unwrap();
    sink.write(&batch(0, &[1]));
    sink.tick(&Made::default());
    assert_eq!(parts(folder.path()).len(), 1);
    // More hours than parts: the oldest go first.
    let hours: Vec<u64> = (0..40).map(|hour| hour * HOUR_NS).collect();
    sink.write(&batch(1, &hours));
    assert_eq!(sink.parts.len(), PARTS_MAX);
    sink.finish(&Made::default());
    assert_eq!((sink.account().records, sink.rows), (41, 0));
    assert_eq!(parts(folder.path()).len(), 41);
    assert_eq!(compact(folder.path()).unwrap().files_after, 40);
}

#[test]
fn a_file_that_cannot_be_written_is_lost_by_name_and_the_next_one_is_written() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let (mut sink, _) = TreeSink::open(folder.path(), origin(), Duration::ZERO).unwrap();
    // A file stands where the folder of that day has to be.
    fs::write(folder.path().join("date=1970-01-01"), "").unwrap();
    sink.write(&batch(0, &[1, 2]));
    sink.write(&batch(1, &[24 * HOUR_NS]));
    sink.finish(&Made::default());
    let account = sink.account();
    assert_eq!((account.records, account.lost.len()), (1, 1));
    let lost = account.lost[0];
    assert_eq!((lost.name, lost.records, lost.packets), ("write_failed", 2, 4));
    assert!(account.first_error.is_some());
}

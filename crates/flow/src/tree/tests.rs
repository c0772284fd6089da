use std::fs;
use std::fs::File;
use std::os::unix::fs::symlink;
use std::process::Command;
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
    // More hours than parts: the oldest are closed first.
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
    // A file is in the place of that day's folder.
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

fn two_files(root: &Path) -> Vec<PathBuf> {
    for _ in 0..2 {
        let origin = Origin { boot: BootId::default(), ..origin() };
        let (mut sink, _) = TreeSink::open(root, origin, Duration::ZERO).unwrap();
        let records = (0..50).map(|at| Record { vlan: Some(at as u16 % 3), ..record(at) });
        sink.write(&Batch { number: 0, records: records.collect() });
        sink.finish(&Made::default());
    }
    parts(root)
}

fn told(root: &Path) -> (Compacted, Vec<String>) {
    let mut told = Vec::new();
    let done = compact_telling(root, &mut |error| told.push(error.to_string())).unwrap();
    (done, told)
}

#[test]
fn a_file_with_damaged_pages_is_left_and_named_and_no_byte_of_it_is_copied() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let files = two_files(folder.path());
    let bytes = fs::read(&files[0]).unwrap();
    let other = fs::read(&files[1]).unwrap();
    let tail = u32::from_le_bytes(*bytes[bytes.len() - 8..].first_chunk().unwrap()) as usize;
    let pages_end = bytes.len() - 8 - tail;
    // From the magic number on. Bytes after the pages have no checksum, but harm only this file.
    let (mut tried, mut untold) = (0, 0);
    for at in (4..pages_end).step_by(13).chain((pages_end..bytes.len()).step_by(31)) {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        fs::write(&files[0], &damaged).unwrap();
        fs::write(&files[1], &other).unwrap();
        let (done, told) = told(folder.path());
        if at < pages_end {
            assert!(told.len() < 2, "byte {at}: {told:?}");
            (tried, untold) = (tried + 1, untold + usize::from(told.is_empty()));
        }
        if let [told] = &told[..] {
            let named = format!("{}: ", files[0].display());
            assert!(told.starts_with(&named), "byte {at}: {told}");
            assert_eq!(fs::read(&files[0]).unwrap(), damaged, "byte {at}");
            assert_eq!(fs::read(&files[1]).unwrap(), other, "byte {at}");
            assert_eq!((done.files_left, done.records), (1, 50));
        }
    }
    // A few bits of zstd's codes are redundant: the unpacked data is the same, by its checksum.
    assert!(tried > 100 && untold * 20 < tried, "{untold} of {tried}");
    fs::write(&files[0], &bytes).unwrap();
    fs::write(&files[1], &other).unwrap();
    let (done, told) = told(folder.path());
    assert_eq!((done.files_after, done.records, told), (1, 100, vec![]));
}

#[test]
fn what_is_no_file_of_the_tree_is_waited_for_by_nobody() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let root = folder.path();
    let files = two_files(root);
    let hour = files[0].parent().unwrap();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    pipe(&hour.join("part-0.parquet"));
    pipe(&root.join("date=0"));
    fs::write(root.join("date=1"), "").unwrap();
    fs::create_dir(hour.join(".part-x.tmp")).unwrap();
    // With a list of names this file would be listed twice.
    fs::write(hour.join("part-1.parquet\npart-2.parquet"), "").unwrap();
    let target = root.join("target");
    fs::write(&target, "precious").unwrap();
    symlink(&target, hour.join(".compact.tmp")).unwrap();
    let (done, told) = told(root);
    assert_eq!((done.files_before, done.files_after, done.records), (3, 2, 100));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].ends_with("part-0.parquet: it is not a regular file"), "{told:?}");
    TreeSink::open(root, origin(), Duration::ZERO).map(drop).unwrap();
    // The journal is a file that gets written.
    let journal = root.join(".journal-s");
    fs::remove_file(&journal).unwrap();
    symlink(&target, &journal).unwrap();
    let refused = || TreeSink::open(root, origin(), Duration::ZERO).err().unwrap().to_string();
    assert!(refused().ends_with(".journal-s: it is a symbolic link"), "{}", refused());
    fs::remove_file(&journal).unwrap();
    pipe(&journal);
    assert!(refused().ends_with(".journal-s: it is not a regular file"), "{}", refused());
    assert_eq!(fs::read(&target).unwrap(), b"precious");
}

#[test]
fn files_that_cannot_be_made_one_are_there_and_counted() {
    let folder = TemporaryFolder::create("burstline-tree-").unwrap();
    let files = two_files(folder.path());
    fs::create_dir(files[0].with_file_name(".compact.tmp")).unwrap();
    let (done, told) = told(folder.path());
    assert_eq!((done.files_before, done.files_after, done.records), (2, 2, 100));
    assert!(told.len() == 1 && told[0].starts_with("compact "), "{told:?}");
    assert!(files.iter().all(|file| file.exists()));
}

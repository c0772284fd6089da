//! Compacts a tree: copies the row groups of an hour's files unchanged into one file.
//!
//! ```text
//! part, part, part ──► .compact.tmp, synced ──► .compact.list names the parts
//!                  ──► renamed over the first ──► the others removed ──► list removed
//! ```
//!
//! A column's bytes are copied unchanged. Each page is unpacked first (`sound`): a damaged file
//! would make the new one unreadable, and is left in place. A reader between the last two steps may
//! see records twice; (`sensor`, `boot_id`, `batch`) identifies them. A crash leaves the list, and
//! the next compaction continues from it.
//!
//! Invariant K1: at every moment each record is in at least one file whose name has no leading dot.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use burstline_sys::inode::{open_own, open_regular};
use burstline_sys::late::{self, Opening};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::file::writer::SerializedFileWriter;

use super::{columns, pages, part, sensor_folders, sound};
use crate::sink::{TreeError, is_full};

const HIDDEN: &str = ".compact.tmp";
const LIST: &str = ".compact.list";
/// The longest list that is read. One with an hour of one file per second takes 0.2 MB.
const LIST_BYTES_MAX: u64 = 64 << 20;

/// Results of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Folders processed.
    pub folders: u64,
    /// Files before.
    pub files_before: u64,
    /// Files after.
    pub files_after: u64,
    /// Files of these left unchanged: damaged, or with another schema version.
    pub files_left: u64,
    /// Records in them, the same before and after.
    pub records: u64,
}

/// Merges all files of each hour and sensor into one.
///
/// # Errors
/// The first file that does not belong to a tree, or cannot be read or written. It is left
/// unchanged, and all others are compacted.
pub fn compact(root: &Path) -> Result<Compacted, TreeError> {
    let mut first = None;
    let done = compact_telling(root, &mut |error| {
        first.get_or_insert(error);
    })?;
    first.map_or(Ok(done), Err)
}

/// Like [`compact`], and reports each file and folder that is left unchanged because of an error.
///
/// # Errors
/// The tree cannot be listed or locked.
pub fn compact_telling(
    root: &Path,
    tell: &mut dyn FnMut(TreeError),
) -> Result<Compacted, TreeError> {
    let folders = sensor_folders(root).map_err(|error| TreeError::io("list", root, error))?;
    let lock = root.join(".compact.lock");
    let failed = |error| TreeError::io("lock", &lock, error);
    let file = open_own(&lock).map_err(failed)?;
    // Waits for any other compaction.
    file.lock().map_err(failed)?;
    let mut done = Compacted::default();
    for folder in folders {
        let finished = finish_last(&folder);
        let finished = finished.map_err(|error| TreeError::io("finish", &folder, error));
        if let Err(error) = finished.and_then(|()| compact_folder(&folder, &mut done, tell)) {
            tell(error);
        }
    }
    Ok(done)
}

/// Removes the files that a killed compaction had already copied.
fn finish_last(folder: &Path) -> io::Result<()> {
    let list = folder.join(LIST);
    let mut text = String::new();
    match open_regular(&list) {
        Ok(file) => file.take(LIST_BYTES_MAX).read_to_string(&mut text)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    // If the hidden file still exists, it was not renamed.
    if !late::exists(&folder.join(HIDDEN)) {
        for name in text.lines().skip(1).filter(|name| is_part(name)) {
            remove_if_there(&folder.join(name))?;
        }
    }
    late::remove_file(&list)
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match late::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether a name can be a line of a list, and is not a path.
fn is_part(name: &str) -> bool {
    name.starts_with("part-") && name.ends_with(".parquet") && !name.contains(['/', '\n'])
}

/// Compacts a folder. Leaves a file that cannot be read, and reports why.
fn compact_folder(
    folder: &Path,
    done: &mut Compacted,
    tell: &mut dyn FnMut(TreeError),
) -> Result<(), TreeError> {
    let failed = |error| TreeError::io("compact", folder, error);
    let mut names = Vec::new();
    for name in late::names_in(folder).map_err(failed)? {
        names.extend(name.to_str().filter(|name| is_part(name)).map(str::to_owned));
    }
    names.sort();
    done.folders += 1;
    done.files_before += names.len() as u64;
    let mut ours = Vec::new();
    let is_alone = names.len() == 1;
    for name in names {
        let path = folder.join(&name);
        let looked = metadata(&path).and_then(|(file, metadata)| {
            let is_ours = is_of_our_schema(&metadata).map_err(wrong(path.clone()))?;
            // A single file needs no check, because it is not copied.
            if is_ours && !is_alone {
                let sound = sound::check(&file, &metadata);
                sound.map_err(|what| TreeError::Parquet { path, what })?;
            }
            Ok((is_ours, metadata.file_metadata().num_rows() as u64))
        });
        match looked {
            Ok((true, records)) => {
                ours.push((name, records));
                continue;
            }
            Ok((false, records)) => done.records += records,
            Err(error) => tell(error),
        }
        done.files_left += 1;
        done.files_after += 1;
    }
    done.records += ours.iter().map(|(_, records)| records).sum::<u64>();
    let names: Vec<_> = ours.into_iter().map(|(name, _)| name).collect();
    let made = if names.len() > 1 { make_one(folder, &names) } else { Ok(()) };
    done.files_after += if made.is_ok() { names.len().min(1) } else { names.len() } as u64;
    made
}

/// Merges these sound files into one.
fn make_one(folder: &Path, names: &[String]) -> Result<(), TreeError> {
    let failed = |error| TreeError::io("compact", folder, error);
    let hidden = folder.join(HIDDEN);
    // A leftover of a killed compaction, or a planted link, must not be written to.
    remove_if_there(&hidden).map_err(failed)?;
    // Who may read the first of them may read the new one.
    let mode = late::metadata(&folder.join(&names[0])).map_err(failed)?.mode() & 0o777;
    let file = Opening::write().create_new().mode(mode).open(&hidden).map_err(failed)?;
    copy_all(folder, names, file).inspect_err(|_| {
        // It is hidden, and the next compaction replaces it.
        let _ = late::remove_file(&hidden);
    })?;
    replace(folder, names).map_err(failed)
}

fn is_of_our_schema(metadata: &ParquetMetaData) -> Result<bool, ParquetError> {
    Ok(metadata.file_metadata().schema() == &*columns::schema()?)
}

/// Converts a Parquet error of this file.
fn wrong(path: PathBuf) -> impl Fn(ParquetError) -> TreeError {
    move |error| TreeError::Parquet { path: path.clone(), what: error.to_string() }
}

/// Copies the row groups of all files.
fn copy_all(folder: &Path, names: &[String], into: File) -> Result<(), TreeError> {
    let here = wrong(folder.join(HIDDEN));
    let schema = columns::schema().map_err(&here)?;
    let writer = SerializedFileWriter::new(into, schema, columns::properties());
    let mut writer = writer.map_err(&here)?;
    for name in names {
        let path = folder.join(name);
        let (file, metadata) = metadata(&path)?;
        copy(&metadata, &file, &mut writer).map_err(|error| match part::io_of(error) {
            error if is_full(&error) => TreeError::io("write", &folder.join(HIDDEN), error),
            error => TreeError::Parquet { path, what: error.to_string() },
        })?;
    }
    writer.finish().map_err(&here)?;
    let synced = writer.inner().sync_all();
    synced.map_err(|error| TreeError::io("sync", &folder.join(HIDDEN), error))
}

fn metadata(path: &Path) -> Result<(File, ParquetMetaData), TreeError> {
    let file = open_regular(path).map_err(|error| TreeError::io("open", path, error))?;
    let read = ParquetMetaDataReader::new().parse_and_finish(&file);
    Ok((file, read.map_err(wrong(path.to_owned()))?))
}

fn copy(
    metadata: &ParquetMetaData,
    file: &File,
    writer: &mut SerializedFileWriter<File>,
) -> Result<(), ParquetError> {
    for group in metadata.row_groups() {
        let rows = group.num_rows() as u64;
        let mut into = writer.next_row_group()?;
        for column in group.columns() {
            let bytes = column.compressed_size() as u64;
            into.append_column(file, pages::of_chunk(column.clone(), rows, bytes))?;
        }
        into.close()?;
    }
    Ok(())
}

/// Replaces all files by the hidden one.
fn replace(folder: &Path, names: &[String]) -> io::Result<()> {
    let list = folder.join(LIST);
    // The previous one was finished, so the list does not exist.
    let mut file = Opening::write().create_new().open(&list)?;
    file.write_all(names.join("\n").as_bytes())?;
    file.sync_all()?;
    part::show(&folder.join(HIDDEN), &folder.join(&names[0]))?;
    for name in &names[1..] {
        late::remove_file(&folder.join(name))?;
    }
    late::remove_file(&list)
}

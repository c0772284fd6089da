//! Reads the records of a folder, with a line for each file that cannot be read.

use std::io::Read;
use std::path::{Path, PathBuf};

use burstline_sys::inode::open_regular;
use burstline_sys::late;

use crate::record::Record;

/// Larger files are not records of ours, and would make the report too large for a phone.
const RECORD_BYTES_MAX: u64 = 64 << 20;

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The folder cannot be read.
    #[error("{}: {error}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: std::io::Error,
    },
    /// No file name in the folder ends with `.json`.
    #[error("{}: 0 records (*.json); burstline lab run NAME writes them", path.display())]
    Empty {
        /// The folder.
        path: PathBuf,
    },
    /// None of the files is a record.
    #[error("{}: none of {files} files is a record; {first}", path.display())]
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Number of files tried.
        files: usize,
        /// The error of the first file.
        first: String,
    },
}

/// The records of a folder.
#[derive(Clone, Debug)]
pub struct Collection {
    /// Records by document, then by file name; those without document last. At least one.
    pub entries: Vec<Entry>,
    /// Errors of unreadable files, a sentence each.
    pub problems: Vec<String>,
}

/// One record.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The file name.
    pub file: String,
    /// The record, with contenders renamed to their labels: see [`Record::labelled`].
    pub record: Record,
    /// The record's original text.
    pub text: String,
}

impl Collection {
    /// Reads every `*.json` of a folder, without subfolders.
    ///
    /// # Errors
    /// If the folder cannot be read or contains no record.
    pub fn read(folder: &Path) -> Result<Self, ReportError> {
        let path = folder.to_owned();
        let failed = |error| ReportError::Folder { path: folder.to_owned(), error };
        let mut files: Vec<PathBuf> = Vec::new();
        for name in late::names_in(folder).map_err(failed)? {
            let file = folder.join(name);
            if file.extension().is_some_and(|extension| extension == "json") {
                files.push(file);
            }
        }
        files.sort();
        let (mut entries, mut problems) = (Vec::new(), Vec::new());
        for file in &files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            match read(file) {
                Ok((record, text)) => entries.push(Entry { file: name, record, text }),
                Err(why) => problems.push(format!("{name} is no record: {why}")),
            }
        }
        match (entries.is_empty(), problems.first()) {
            (true, None) => return Err(ReportError::Empty { path }),
            (true, Some(first)) => {
                let (files, first) = (files.len(), first.clone());
                return Err(ReportError::Unreadable { path, files, first });
            }
            _ => {}
        }
        entries.sort_by_key(|entry| {
            let document = entry.record.document.clone();
            (document.is_none(), document)
        });
        Ok(Self { entries, problems })
    }
}

fn read(file: &Path) -> Result<(Record, String), String> {
    // A pipe of this name would be waited for.
    let file = open_regular(file).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    let limited = file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes);
    limited.map_err(|error| error.to_string())?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        return Err(format!("it has more than {RECORD_BYTES_MAX} bytes"));
    }
    let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
    Ok((Record::parse(&text)?.labelled(), text))
}

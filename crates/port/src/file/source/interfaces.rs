//! Registers the interfaces of a file, or of all files of a set, in the job's table.
//!
//! A job distinguishes 256 interfaces. Further interfaces of a file share the number of an earlier
//! one with the same link type. Their packets are delivered, and a note says under which name.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_wire::headers::LinkType;

use crate::{PortError, PortTable, TableEntry};

/// The interfaces that a file, or a set of files, has registered. Clones share them.
#[derive(Clone)]
pub struct Interfaces {
    table: PortTable,
    entered: Arc<Mutex<Vec<(TableEntry, u8)>>>,
    /// Whether the same name and link type mean the same interface, as in the files of a rotation.
    is_set: bool,
    /// Whether names are prefixed with the file's name.
    names_files: bool,
}

impl Interfaces {
    pub(super) fn of_file(table: &PortTable) -> Self {
        Self { table: table.clone(), entered: Arc::default(), is_set: false, names_files: false }
    }

    /// For files in which the same name and link type mean the same interface.
    pub fn of_set(table: &PortTable) -> Self {
        Self { is_set: true, ..Self::of_file(table) }
    }

    /// Prefixes each name with that of its file, `FILE:eth1`, if `names_files`.
    pub(super) fn named_after_files(self, names_files: bool) -> Self {
        Self { names_files, ..self }
    }

    /// Registers an interface. Returns its number, and a note if it shares one. An unnamed
    /// interface gets the name of its file.
    ///
    /// # Errors
    /// [`PortError::TooManyInterfaces`] if the table is full and no interface has this link type.
    pub fn enter(
        &self,
        name: &str,
        link: LinkType,
        path: &Path,
    ) -> Result<(u8, Option<String>), PortError> {
        let name = match self.names_files && !name.is_empty() {
            true => format!("{}:{name}", self::name("", path)),
            false => self::name(name, path),
        };
        let entry = TableEntry { name, link };
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        let same = entered.iter().find(|(known, _)| self.is_set && *known == entry);
        if let Some(&(_, port)) = same {
            return Ok((port, None));
        }
        if let Some(port) = self.table.add(&entry.name, link) {
            entered.push((entry, port));
            return Ok((port, None));
        }
        match entered.iter().rev().find(|(known, _)| known.link == link) {
            Some((known, port)) => {
                let (most, name, other) = (PortTable::MAX_ENTRIES, entry.name, &known.name);
                let note =
                    format!("more than {most} interfaces: packets of {name} are under {other}");
                Ok((*port, Some(note)))
            }
            None => Err(PortError::TooManyInterfaces {
                port: path.display().to_string(),
                number: PortTable::MAX_ENTRIES,
                most: PortTable::MAX_ENTRIES,
            }),
        }
    }
}

/// Returns the name of an interface, or that of its file if it has none.
pub(super) fn name(name: &str, path: &Path) -> String {
    match name {
        "" => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        name => name.to_owned(),
    }
}

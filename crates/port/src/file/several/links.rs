//! Writes a file for each link type: `--link-types split`.
//!
//! pcapng may have interfaces of several link types in one file, but libpcap refuses such files. So
//! packets of the first link type go into the requested file. Those of another type go into a
//! separate file, opened with their first packet: `x.pcapng`, `x-link113.pcapng`.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};

use burstline_log::Burst;
use burstline_sys::late;
use burstline_wire::headers::LinkType;

use super::super::open_one;
use super::super::place::folder_of;
use super::super::recording::{FileNaming, numbers_behind, rotated_as, with_suffix};
use super::Several;
use crate::{
    Address, InterfaceTotals, LostPackets, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortTable, Sink,
};

/// Returns the files of other link types that `--link-types split` wrote beside `path`, in the
/// order of their names.
///
/// # Errors
/// [`PortError::Io`]: the folder cannot be read.
pub fn link_siblings(path: &Path) -> Result<Vec<PathBuf>, PortError> {
    let folder = folder_of(path);
    let fail = |error| PortError::Io { action: "read", path: folder.to_owned(), error };
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let link_of = |name: &OsString| {
        let (_, behind) = name.to_str()?.rsplit_once("-link")?;
        behind.split(|one: char| !one.is_ascii_digit()).next()?.parse().ok()
    };
    let is_sibling =
        |name: &OsString| link_of(name).is_some_and(|link| with_link(&own, link).as_str() == name);
    let names = late::names_in(folder).map_err(fail)?.into_iter().filter(is_sibling);
    let mut found: Vec<_> = names.map(|name| path.with_file_name(name)).collect();
    found.sort_unstable();
    Ok(found)
}

/// As [`link_siblings`], of a rotation: the files of each link type, as
/// [`rotated_as`](crate::rotated_as) lists them.
///
/// # Errors
/// As for [`rotated_as`](crate::rotated_as).
pub fn rotated_link_siblings(
    path: &Path,
    naming: FileNaming,
) -> Result<Vec<Vec<PathBuf>>, PortError> {
    let text = path.to_string_lossy();
    let mut found = Vec::new();
    for link in numbers_behind("-link", path, naming)? {
        let files = rotated_as(Path::new(&with_link(&text, link)), naming)?;
        found.extend(Some(files).filter(|files| !files.is_empty()));
    }
    Ok(found)
}

/// Returns the name of the file of a link type.
fn with_link(name: &str, link: u16) -> String {
    with_suffix(name, &format!("-link{link}"))
}

/// Files by link type.
pub(in super::super) struct ByLink {
    info: PortInfo,
    address: Address,
    options: OpenOptions,
    files: Several,
    /// The link type of each file; empty before the first packet.
    links: Vec<LinkType>,
    /// By port of the job: the index of its file.
    known: [Option<usize>; PortTable::MAX_ENTRIES],
    totals: Vec<InterfaceTotals>,
    notes: Vec<String>,
}

impl ByLink {
    pub(in super::super) fn open(
        address: &Address,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let first = open_one(address, options)?;
        let info = PortInfo { name: address.to_string(), ..first.info().clone() };
        let mut options = options.clone();
        // The first file has the name that must be new: the others follow from it.
        options.output.creation.is_new = false;
        Ok(Self {
            info,
            address: address.clone(),
            options,
            files: Several::new(vec![first]),
            links: Vec::new(),
            known: [None; PortTable::MAX_ENTRIES],
            totals: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// Returns the index of the file for a port's packets, and opens the file if necessary. If that
    /// fails, the first file counts them as `link_mismatch`, and a note says why.
    fn file(&mut self, port: u8) -> usize {
        if let Some(number) = self.known[usize::from(port)] {
            return number;
        }
        let entry = self.options.table.entries_from(port.into()).into_iter().next();
        let link = entry.map_or(LinkType::ETHERNET, |entry| entry.link);
        let number = match self.links.iter().position(|known| *known == link) {
            Some(number) => number,
            None => self.begin(link),
        };
        self.known[usize::from(port)] = Some(number);
        number
    }

    /// Starts the file of a link type.
    fn begin(&mut self, link: LinkType) -> usize {
        if !self.links.is_empty() {
            if !is_file(&self.address) {
                // There is no name for another one.
                let what = match self.address.is_standard() {
                    true => "standard output takes one",
                    false => "what is no regular file takes one",
                };
                self.notes.push(format!("no file for link type {}: {what}", link.0));
                return 0;
            }
            let target = with_link(self.address.target(), link.0);
            let address = self.address.of_parts(&target, self.address.parameters().to_vec());
            match open_one(&address, &self.options) {
                Ok(file) => self.files.add(file),
                Err(error) => {
                    self.notes.push(format!("no file for link type {}: {error}", link.0));
                    return 0;
                }
            }
        }
        self.links.push(link);
        self.links.len() - 1
    }

    /// Passes the totals on, each to the file of its port. A port without packets has no file yet:
    /// at the end its totals go into the first one.
    fn pass_totals(&mut self, is_over: bool) {
        for number in 0..self.files.len() {
            let file = |port: u8| self.known[usize::from(port)].or(is_over.then_some(0));
            let own = self.totals.iter().filter(|totals| file(totals.port) == Some(number));
            let own: Vec<InterfaceTotals> = own.copied().collect();
            self.files.sink(number).set_totals(&own);
        }
    }
}

impl Port for ByLink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.pass_totals(true);
        self.files.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.files.account();
        self.notes.iter().for_each(|note| account.note(|| note.clone()));
        account
    }
}

impl Sink for ByLink {
    /// As for one file, per run of packets of one link type.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let (mut rest, mut taken) = (*burst, 0);
        while let Some(first) = rest.packets().next() {
            let number = self.file(first.port());
            let of_file = |port: u8| self.known[usize::from(port)] == Some(number);
            let run = rest.packets().take_while(|packet| of_file(packet.port())).count();
            let (here, behind) = rest.split_at(run);
            match self.files.transmit(number, &here) {
                Ok(count) => taken += count,
                Err(error) => {
                    // The rest of the burst is lost too.
                    let _ = self.files.transmit(number, &behind);
                    return Err(error);
                }
            }
            rest = behind;
        }
        Ok(taken)
    }

    fn lost(&self) -> LostPackets {
        self.files.lost()
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.files.flush()
    }

    fn flush_when_due(&mut self) -> Result<bool, PortError> {
        self.files.flush_when_due()
    }

    fn tell_gap(&mut self, port: u8, packets: u64) {
        let number = self.known[usize::from(port)].unwrap_or(0);
        self.files.sink(number).tell_gap(port, packets);
    }

    fn tell_overrun(&mut self, port: u8, packets: u64) {
        let number = self.known[usize::from(port)].unwrap_or(0);
        self.files.sink(number).tell_overrun(port, packets);
    }

    fn look_at_clock(&mut self) -> Result<(), PortError> {
        self.files.look_at_clock()
    }

    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        self.totals = totals.to_vec();
        self.pass_totals(false);
    }
}
/// Whether an output is a regular file, or will be one.
fn is_file(address: &Address) -> bool {
    let is_other = |found: Metadata| !found.is_file();
    !address.is_standard() && !fs::metadata(address.target()).is_ok_and(is_other)
}

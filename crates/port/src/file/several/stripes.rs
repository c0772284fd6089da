//! Stripes an output over several folders, one per disk: `-w '/disk{0..3}/x.pcapng'`.
//!
//! ```text
//!            .-- turn --> /disk0/x.pcapng   segment 1 | segment 2 | ...
//!  bursts ---|            /disk1/x.pcapng   segment 1 | ...          each written by its own queue
//!            '            /disk2/x.pcapng
//! ```
//!
//! Each file is a recording on its own, with its own numbers, and gets a segment's worth of packets
//! at a time. A rotation continues in each folder. As `set:` the files are one source again, in
//! order of time. A loss is in the closing counts of one file only, the next one that is closed. So
//! the counts of all files add up.

use std::fs;
use std::io;
use std::path::Path;

use burstline_log::Burst;
use burstline_sys::inode::FileId;
use burstline_sys::late;

use super::super::recording::Made;
use super::super::sink::{ClosedFiles, FileSink};
use super::Several;
use crate::{
    Address, InterfaceTotals, LostPackets, OpenOptions, OutputOptions, Port, PortAccount,
    PortError, PortInfo, Resumed, Sink,
};

/// The maximum number of files per output.
const MOST: usize = 64;

/// Approximate overhead of a packet in a file.
const AROUND_BYTES: u64 = 34;

/// Files that take turns.
pub(in super::super) struct Stripes {
    info: PortInfo,
    files: Several,
    /// The index of the current file.
    turn: usize,
    /// Bytes written in this turn, and the limit of a turn.
    bytes: u64,
    turn_bytes: u64,
}

impl Stripes {
    /// Without an entry in `resumed` a file continues what the options say. If one cannot be
    /// opened, those that were made before it are removed.
    pub(in super::super) fn open(
        address: &Address,
        targets: &[String],
        resumed: &[Option<Resumed>],
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        let (mut sinks, mut turn_bytes) = (Vec::<Box<dyn Sink>>::new(), 0);
        let (closed, mut made) = (ClosedFiles::default(), Vec::<Made>::new());
        for (number, target) in targets.iter().enumerate() {
            let address = address.of_parts(target, address.parameters().to_vec());
            let resumed = resumed.get(number).unwrap_or(&options.output.resumed).clone();
            let output = OutputOptions { resumed, ..options.output.clone() };
            let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
            let is_new = late::symlink_metadata(Path::new(target)).is_err_and(is_missing);
            let opened = FileSink::open(&address, &OpenOptions { output, ..options.clone() });
            let mut sink = opened.inspect_err(|_| remove(&made))?;
            made.extend(sink.current().filter(|_| is_new).cloned());
            sink.share(&closed);
            turn_bytes = sink.segment_bytes();
            sinks.push(Box::new(sink));
        }
        let info = PortInfo { name: address.to_string(), ..sinks[0].info().clone() };
        Ok(Self { info, files: Several::new(sinks), turn: 0, bytes: 0, turn_bytes })
    }
}

/// Removes files without packets that are still at their paths. They are open and locked, so no
/// other recorder has begun to write them.
#[cold]
fn remove(made: &[Made]) {
    for Made { path, id, .. } in made {
        let is_it = |found: fs::Metadata| found.len() == 0 && FileId::of(&found) == *id;
        if late::symlink_metadata(path).is_ok_and(is_it) {
            // The error to report is that of the file which cannot be opened.
            let _ = late::remove_file(path);
        }
    }
}

impl Port for Stripes {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.files.finish()
    }

    fn account(&self) -> PortAccount {
        self.files.account()
    }
}

impl Sink for Stripes {
    /// As for one file, plus a check of each packet's length.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        if self.bytes >= self.turn_bytes {
            (self.turn, self.bytes) = ((self.turn + 1) % self.files.len(), 0);
        }
        let bytes: u64 = burst.packets().map(|packet| packet.length() as u64).sum();
        self.bytes += bytes + AROUND_BYTES * burst.len() as u64;
        self.files.transmit(self.turn, burst)
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
        self.files.sink(self.turn).tell_gap(port, packets);
    }

    fn tell_overrun(&mut self, port: u8, packets: u64) {
        self.files.sink(self.turn).tell_overrun(port, packets);
    }

    fn look_at_clock(&mut self) -> Result<(), PortError> {
        self.files.look_at_clock()
    }

    /// The file that is closed last has what is left of the received packets.
    fn set_totals(&mut self, totals: &[InterfaceTotals]) {
        let others = totals.iter().map(|of| InterfaceTotals { received: None, ..*of });
        let others: Vec<InterfaceTotals> = others.collect();
        for number in 0..self.files.len() {
            let is_last = number == self.files.last();
            self.files.sink(number).set_totals(if is_last { totals } else { &others[..] });
        }
    }
}

/// Expands braces in a path, as in a shell: `{0..3}` and `{a,b}`. A path without braces, or one
/// that exists literally, is returned unchanged.
///
/// # Errors
/// A message for the user: more than 64 paths, or one of them twice.
pub fn striped_paths(path: &str) -> Result<Vec<String>, String> {
    if late::symlink_metadata(Path::new(path)).is_ok() {
        return Ok(vec![path.to_owned()]);
    }
    let mut paths = Vec::new();
    expand(String::new(), path, &mut paths);
    if paths.len() > MOST {
        return Err(format!("{path}: at most {MOST} files can be written in turn"));
    }
    match (1..paths.len()).find(|&at| paths[..at].contains(&paths[at])) {
        Some(at) => Err(format!("{path}: {} occurs twice", paths[at])),
        None => Ok(paths),
    }
}

/// Appends all expansions of `rest` with the prefix `before`; stops one above the limit.
fn expand(before: String, rest: &str, paths: &mut Vec<String>) {
    let braces = rest.match_indices('{').find_map(|(open, _)| {
        let close = open + rest[open..].find('}')?;
        Some((open, close, words(&rest[open + 1..close])?))
    });
    let Some((open, close, words)) = braces else {
        paths.push(before + rest);
        return;
    };
    for word in words {
        if paths.len() > MOST {
            return;
        }
        expand(format!("{before}{}{word}", &rest[..open]), &rest[close + 1..], paths);
    }
}

/// Returns the alternatives between braces; `None` if the braces are literal.
fn words(text: &str) -> Option<Vec<String>> {
    if let Some((from, to)) = text.split_once("..") {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = |text: &str| digits(text).then(|| text.parse::<u32>().ok()).flatten();
        let (first, last) = (number(from)?, number(to)?);
        let width = if from.starts_with('0') { from.len() } else { 1 };
        let (least, most) = (first.min(last), first.max(last));
        let all = (least..=most.min(least.saturating_add(MOST as u32)))
            .map(|number| format!("{number:0width$}"));
        return Some(if first <= last { all.collect() } else { all.rev().collect() });
    }
    text.contains(',').then(|| text.split(',').map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_as_in_a_shell() {
        for (path, wanted) in [
            ("/a/x.pcapng", &["/a/x.pcapng"][..]),
            ("/d{0..2}/x", &["/d0/x", "/d1/x", "/d2/x"]),
            ("/d{2..1}/x", &["/d2/x", "/d1/x"]),
            ("d{08..10}", &["d08", "d09", "d10"]),
            ("{a,b}/{1..2}", &["a/1", "a/2", "b/1", "b/2"]),
            ("x{}y{z}{1..}", &["x{}y{z}{1..}"]),
            ("{a}{1..2}", &["{a}1", "{a}2"]),
        ] {
            assert_eq!(striped_paths(path).unwrap(), wanted, "{path}");
        }
        let many = striped_paths("/d{0..4000000000}/x").unwrap_err();
        assert_eq!(many, "/d{0..4000000000}/x: at most 64 files can be written in turn");
        assert!(striped_paths("{1..9}{1..9}").is_err());
        assert_eq!(striped_paths("{a,a}").unwrap_err(), "{a,a}: a occurs twice");
    }
}

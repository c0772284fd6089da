//! The journal, which tells the next start what a killed program had produced and written.
//!
//! `TREE/.journal-SENSOR` has a few lines of `name=value`. The program that writes the tree locks
//! this file. It rewrites the file every 100 ms and with each file of the tree, and marks it as
//! ended at exit. The next program reads this file: records made but not in a file were lost by the
//! crash, up to the last update.
//!
//! Invariants:
//! - J1: one program at a time has the lock, so only one writes as a sensor.
//! - J2: a file is named as pending before it is renamed, and counted as written afterwards. So a
//!   reader of the journal checks whether the pending file exists, and counts it once.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use burstline_sys::inode::{make_own_folder, open_own};
use burstline_sys::locked::LockedFile;

use super::names::{BootId, SensorName};
use crate::sink::{LostRecords, Made, TreeError};

/// The longest journal that is read.
const BYTES_MAX: u64 = 1 << 16;

/// Records that the last start of the program did not write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NotWritten {
    /// ID of that start.
    pub boot_id: String,
    /// Records that had ended and are in no file.
    pub records: u64,
    /// Packets seen that are not in any file, and are not counted as packets without a flow.
    pub packets: u64,
}

/// The journal of this start, for a tree or a spool.
#[derive(Debug)]
pub struct Journal {
    file: LockedFile,
    boot: BootId,
    made: Made,
    records: u64,
    packets: u64,
    lost: LostRecords,
    pending: Option<Pending>,
}

#[derive(Clone, Debug)]
struct Pending {
    /// A file, or another key that shows whether it was written.
    what: String,
    records: u64,
    packets: u64,
}

impl Journal {
    /// Opens the journal of a sensor, and returns what the last start did not write, if it was
    /// killed. `is_there` returns whether the last announced part was written.
    ///
    /// # Errors
    /// The folder cannot be created or written; another program writes as this sensor.
    pub fn open(
        root: &Path,
        sensor: &SensorName,
        boot: &BootId,
        is_there: impl FnOnce(&str) -> bool,
    ) -> Result<(Self, Option<NotWritten>), TreeError> {
        make_own_folder(root).map_err(|error| TreeError::io("create", root, error))?;
        let path = root.join(format!(".journal-{}", sensor.as_str()));
        let failed = |error| TreeError::io("open", &path, error);
        let mut file = LockedFile::from(open_own(&path).map_err(failed)?);
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                return Err(TreeError::Taken { path, sensor: sensor.as_str().to_owned() });
            }
            Err(fs::TryLockError::Error(error)) => return Err(failed(error)),
        }
        let mut text = String::new();
        let read = file.by_ref().take(BYTES_MAX).read_to_string(&mut text);
        // A journal that is not text was not written by us: nothing is known.
        let last = read.is_ok().then(|| not_written(&text, is_there)).flatten();
        let mut journal = Self {
            file,
            boot: boot.clone(),
            made: Made::default(),
            records: 0,
            packets: 0,
            lost: LostRecords::default(),
            pending: None,
        };
        journal.write("running").map_err(|error| TreeError::io("write", &path, error))?;
        Ok((journal, last))
    }

    /// Records how much was made, and how much of it a sink has lost by name.
    pub fn tell(&mut self, made: &Made, lost: &LostRecords) {
        (self.made, self.lost) = (*made, *lost);
        // A full disk is reported where records are written.
        let _ = self.write("running");
    }

    /// Records that a file is about to be renamed, or a message to be written.
    pub fn announce(&mut self, what: &str, records: u64, packets: u64) {
        self.pending = Some(Pending { what: what.to_owned(), records, packets });
        let _ = self.write("running");
    }

    /// Records whether that succeeded.
    pub fn settle(&mut self, is_shown: bool) {
        if let Some(pending) = self.pending.take().filter(|_| is_shown) {
            self.records += pending.records;
            self.packets += pending.packets;
        }
        let _ = self.write("running");
    }

    /// Marks this start as ended: its report names everything that is missing.
    pub fn end(&mut self) {
        let _ = self.write("ended");
    }

    fn write(&mut self, state: &str) -> io::Result<()> {
        let made = &self.made;
        let mut text = format!(
            "burstline-flows=1\nstate={state}\nboot_id={}\npackets={}\npackets_without_flow={}\n\
             records={}\nrecords_dropped={}\npackets_dropped={}\nrecords_written={}\n\
             packets_written={}\nrecords_lost={}\npackets_lost={}\n",
            self.boot.as_str(),
            made.packets,
            made.packets_without_flow,
            made.records,
            made.records_dropped,
            made.packets_dropped,
            self.records,
            self.packets,
            self.lost.records,
            self.lost.packets,
        );
        if let Some(Pending { what, records, packets }) = &self.pending {
            text +=
                &format!("pending={what}\npending_records={records}\npending_packets={packets}\n");
        }
        // Padded, so that a shorter text overwrites a longer one in one write.
        let text = format!("{text:\n<1024}");
        self.file.write_all_at(text.as_bytes(), 0)
    }
}

/// Returns what the start of this journal did not write; `None` if it ended or the file is empty.
fn not_written(text: &str, is_there: impl FnOnce(&str) -> bool) -> Option<NotWritten> {
    let value = |name: &str| {
        text.lines().find_map(|line| line.split_once('=').filter(|(key, _)| *key == name))
    };
    let text_of = |name: &str| value(name).map(|(_, value)| value);
    let count = |name: &str| text_of(name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    if text_of("burstline-flows") != Some("1") || text_of("state") != Some("running") {
        return None;
    }
    let (mut records, mut packets) = (count("records_written"), count("packets_written"));
    if text_of("pending").is_some_and(is_there) {
        records += count("pending_records");
        packets += count("pending_packets");
    }
    // Records dropped or lost by name are not in a file either, and their report was never printed.
    let packets_told = packets + count("packets_without_flow");
    Some(NotWritten {
        boot_id: text_of("boot_id").unwrap_or_default().to_owned(),
        records: count("records").saturating_sub(records),
        packets: count("packets").saturating_sub(packets_told),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_no_file_is_not_written_whoever_lost_it() {
        let counts = "packets=100\npackets_without_flow=10\nrecords=40\nrecords_dropped=5\n\
                      packets_dropped=9\nrecords_written=30\npackets_written=60\n";
        let text = |state| format!("burstline-flows=1\nstate={state}\nboot_id=x\n{counts}");
        let is_there = |path: &str| Path::new(path).exists();
        let not_written = |text: &str| super::not_written(text, is_there);
        let left = not_written(&text("running")).unwrap();
        assert_eq!((left.records, left.packets, &left.boot_id[..]), (10, 30, "x"));
        assert_eq!(not_written(&text("ended")), None);
        let is_shown = format!("{}pending=/\npending_records=4\n", text("running"));
        assert_eq!(not_written(&is_shown).unwrap().records, 6, "it is there");
        let is_hidden = is_shown.replace("=/\n", "=/is/not/there\n");
        assert_eq!(not_written(&is_hidden).unwrap().records, 10);
    }
}

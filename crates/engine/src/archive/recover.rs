//! Recovers the sound packets of damaged files into a new one.

use std::path::Path;

use burstline_log::{Flags, Meta, Scratch};
use burstline_port::{
    CaptureReader, InterfaceTotals, Interfaces, Loss, Losses, OpenOptions, Sink, TableEntry,
};
use burstline_wire::files::Direction;

use super::scan::{Scanned, Seen, scan};
use crate::EngineError;

/// The outcome of a recovery.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// The faults of each file.
    pub files: Vec<Scanned>,
    /// Packets that the files had, as far as they tell.
    pub offered: u64,
    /// Packets in the output.
    pub written: u64,
    /// Packets not in the output, by cause.
    pub lost: Losses,
    /// Notes about the output.
    pub notes: Vec<String>,
}

impl Recovered {
    /// Returns the unexplained remainder of the ledger; 0 unless this program has a bug.
    pub fn unaccounted(&self) -> i64 {
        self.offered as i64 - self.written as i64 - self.lost.total() as i64
    }
}

/// An interface of a file, and its number in the output. Those past the last number share it.
struct Known {
    entry: TableEntry,
    port: u8,
}

/// The output and its interfaces.
struct Output {
    sink: Box<dyn Sink>,
    scratch: Scratch,
    interfaces: Interfaces,
    /// The answers of `interfaces` so far.
    known: Vec<Known>,
    notes: Vec<String>,
    totals: Vec<InterfaceTotals>,
    taken: u64,
}

impl Output {
    /// Returns the number of an interface, identified in all files by its name and link type.
    fn port(&mut self, seen: &Seen<'_>, path: &str) -> Result<u8, EngineError> {
        let name = if seen.interface.name.is_empty() { path } else { &seen.interface.name };
        let link = seen.record.link;
        let is_it = |known: &&Known| known.entry.name == name && known.entry.link == link;
        if let Some(known) = self.known.iter().find(is_it) {
            return Ok(known.port);
        }
        let (port, note) = self.interfaces.enter(name, link, Path::new(path))?;
        self.notes.extend(note);
        self.known.push(Known { entry: TableEntry { name: name.to_owned(), link }, port });
        if self.totals.len() == usize::from(port) {
            self.totals.push(InterfaceTotals { port, received: Some(0), ..Default::default() });
        }
        Ok(port)
    }

    fn write(&mut self, seen: &Seen<'_>, path: &str) -> Result<(), EngineError> {
        let port = self.port(seen, path)?;
        let mut meta = Meta::new(seen.record.time_ns, seen.record.original_length, port);
        let drops_before = seen.options.drops_before.unwrap_or(0);
        meta.drops_before = drops_before.saturating_add(seen.missing_before);
        if seen.options.direction() == Some(Direction::Outbound) {
            meta.flags = meta.flags.union(Flags::OUTGOING);
        }
        let totals = &mut self.totals[usize::from(port)];
        totals.received = totals.received.map(|packets| packets + 1 + seen.missing_before);
        totals.lost += seen.missing_before;
        self.scratch.clear();
        self.scratch.push(0, seen.bytes.len() as u32, &meta);
        self.taken += self.sink.transmit(&self.scratch.burst(seen.bytes, self.taken))?;
        Ok(())
    }
}

/// Writes the sound packets of all files, one file after the other, into a sink. Open the sink
/// after all readers, so that it cannot be one of the input files.
///
/// # Errors
/// Returns [`EngineError::Port`] if a file cannot be read, or the sink cannot be written.
pub fn recover(
    readers: Vec<CaptureReader>,
    options: &OpenOptions,
    sink: Box<dyn Sink>,
    watch: &mut (dyn FnMut(usize, u64) -> bool + Send),
) -> Result<Recovered, EngineError> {
    let mut output = Output {
        sink,
        scratch: Scratch::new(),
        interfaces: Interfaces::of_set(&options.table),
        known: Vec::new(),
        notes: Vec::new(),
        totals: Vec::new(),
        taken: 0,
    };
    let mut recovered = Recovered::default();
    let mut failure = None;
    for (number, reader) in readers.into_iter().enumerate() {
        let path = reader.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let mut watch = |bytes| watch(number, bytes);
        let scanned = scan(reader, &mut watch, |seen| output.write(seen, &path));
        match scanned {
            Ok(scanned) => {
                recovered.offered += scanned.offered();
                recovered.lost.add(Loss::Corrupt, scanned.lost.corrupt);
                recovered.lost.add(Loss::MissingSegments, scanned.lost.missing);
                let is_stopped = scanned.is_stopped;
                recovered.files.push(scanned);
                if is_stopped {
                    break;
                }
            }
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    output.sink.set_totals(&output.totals);
    let finished = output.sink.finish();
    if let Some(error) = failure {
        return Err(error);
    }
    finished?;
    let account = output.sink.account();
    // Packets that the sink accepted and then lost are among its losses.
    recovered.lost.merge(&account.lost);
    recovered.written = account.offered - account.lost.total();
    recovered.notes = account.notes;
    recovered.notes.extend(output.notes);
    Ok(recovered)
}

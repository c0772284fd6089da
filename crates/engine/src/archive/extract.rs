//! Passes a selection of files, in order of time, to a sink, or only counts it.

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{
    Capture, InterfaceTotals, PortAccount, PortError, PortState, PortTable, Sink, Source,
};

use crate::EngineError;

/// The outcome of an extraction.
#[derive(Clone, Debug, Default)]
pub struct Extracted {
    /// Packets found. The sink may have lost some of them: [`delivered`](Self::delivered).
    pub packets: u64,
    /// Captured bytes of the [`delivered`](Self::delivered) packets.
    pub bytes: u64,
    /// Earliest and latest time of these packets, in ns since 1970.
    pub times_ns: Option<(u64, u64)>,
    /// The account of the source: packets of the files, unwanted packets, losses.
    pub source: PortAccount,
    /// The account of the sink.
    pub sink: PortAccount,
    /// Whether it was stopped before the end.
    pub is_stopped: bool,
}

/// The outcome of an extraction that may have failed.
#[derive(Debug)]
pub struct Attempt {
    /// Packets found before the failure, if any. The sink has them, as far as it accepted them.
    pub extracted: Extracted,
    /// The error that ended it: a file cannot be read, or the sink cannot be written.
    pub failure: Option<EngineError>,
}

impl Extracted {
    /// Returns the packets that were found and, if there is an output, are in it.
    pub fn delivered(&self) -> u64 {
        self.packets.saturating_sub(self.sink.lost.total())
    }

    /// Returns the unexplained remainder of the ledger; 0 unless this program has a bug.
    pub fn unaccounted(&self) -> i64 {
        let explained = self.packets + self.source.lost.total() + self.source.in_flight;
        self.source.offered as i64 - explained as i64
    }
}

/// Returns the time of the first packet of the earliest file, in ns since 1970, which relative
/// times start from. `None` if there is no packet. A file that was removed since it was found does
/// not count.
///
/// # Errors
/// Returns [`EngineError::Port`] if a file cannot be read.
pub fn first_time_ns(captures: &[Capture]) -> Result<Option<u64>, EngineError> {
    let mut earliest: Option<u64> = None;
    for capture in captures {
        let first_ns = match capture.first_time_ns() {
            Err(PortError::Io { error, .. }) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read?,
        };
        earliest = earliest.into_iter().chain(first_ns).min();
    }
    Ok(earliest)
}

/// As [`try_extract`], but returns either everything or an error.
///
/// # Errors
/// Returns [`EngineError::Port`] if a file cannot be read, or the sink cannot be written.
pub fn extract(
    source: Box<dyn Source>,
    sink: Option<Box<dyn Sink>>,
    table: &PortTable,
    stop: &AtomicBool,
) -> Result<Extracted, EngineError> {
    let Attempt { extracted, failure } = try_extract(source, sink, table, stop);
    failure.map_or(Ok(extracted), Err)
}

/// Passes all packets of a source to a sink, if there is one. It ends when the source ends, either
/// of them fails or `stop` is set; then it finishes the sink.
pub fn try_extract(
    mut source: Box<dyn Source>,
    mut sink: Option<Box<dyn Sink>>,
    table: &PortTable,
    stop: &AtomicBool,
) -> Attempt {
    let mut extracted = Extracted::default();
    let mut received = vec![0_u64; PortTable::MAX_ENTRIES];
    let passed = pass(&mut *source, &mut sink, stop, &mut extracted, &mut received);
    let mut failure = passed.err();
    if let Some(sink) = &mut sink {
        let totals = (0..=u8::MAX).zip(&received).take(table.len());
        let totals = totals.map(|(port, &packets)| InterfaceTotals {
            port,
            received: Some(packets),
            ..InterfaceTotals::default()
        });
        sink.set_totals(&totals.filter(|totals| totals.received > Some(0)).collect::<Vec<_>>());
        if let Err(error) = sink.finish() {
            failure.get_or_insert(error.into());
        }
        extracted.sink = sink.account();
        let lost: u64 = sink.lost().rows().iter().map(|row| row.tally.bytes).sum();
        extracted.bytes = extracted.bytes.saturating_sub(lost);
    }
    extracted.source = source.account();
    Attempt { extracted, failure }
}

/// Passes packets to the sink until the source ends. Counts them, and by port in `received`.
fn pass(
    source: &mut dyn Source,
    sink: &mut Option<Box<dyn Sink>>,
    stop: &AtomicBool,
    extracted: &mut Extracted,
    received: &mut [u64],
) -> Result<(), EngineError> {
    let mut scratch = Scratch::new();
    loop {
        // Relaxed: the flag publishes no memory.
        if stop.load(Relaxed) {
            extracted.is_stopped = true;
            return Ok(());
        }
        let lent = source.lend(&mut scratch, SCRATCH_PACKETS as u64)?;
        for packet in lent.burst.packets() {
            let time_ns = packet.time_ns();
            let (earliest, latest) = extracted.times_ns.unwrap_or((time_ns, time_ns));
            extracted.times_ns = Some((earliest.min(time_ns), latest.max(time_ns)));
            extracted.bytes += packet.length() as u64;
            received[usize::from(packet.port())] += 1;
        }
        extracted.packets += lent.burst.len() as u64;
        if let Some(sink) = sink {
            sink.transmit(&lent.burst)?;
        }
        if lent.state == PortState::Ended {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use burstline_port::catalogued;
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn a_file_that_a_ring_has_removed_has_no_first_time() {
        let folder = TemporaryFolder::create("burstline-extract-").unwrap();
        let paths = ["a.pcap", "b.pcap"].map(|name| folder.file(name));
        for (path, second) in paths.iter().zip(5..) {
            let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1, second, 0, 0, 0];
            fs::write(path, words.map(u32::to_le_bytes).concat()).unwrap();
            // The catalogue knows no time of a file that may still change.
            let later = SystemTime::now() + Duration::from_secs(3600);
            File::options().append(true).open(path).unwrap().set_modified(later).unwrap();
        }
        let target = folder.path().to_str().unwrap();
        let captures = catalogued(target, &mut |_, _| true).unwrap().captures;
        assert_eq!(captures.len(), 2);
        fs::remove_file(&paths[0]).unwrap();
        assert_eq!(first_time_ns(&captures).unwrap(), Some(6_000_000_000));
    }
}

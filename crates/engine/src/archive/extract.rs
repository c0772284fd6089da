//! A selection of files, in order of time, into a sink, or only counted.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{SCRATCH_PACKETS, Scratch};
use burstline_port::{Capture, InterfaceTotals, PortAccount, PortState, PortTable, Sink, Source};

use crate::EngineError;

/// The outcome.
#[derive(Clone, Debug, Default)]
pub struct Extracted {
    /// Packets found, and their captured bytes.
    pub packets: u64,
    /// See `packets`.
    pub bytes: u64,
    /// Earliest and latest of their times, in ns since 1970.
    pub times_ns: Option<(u64, u64)>,
    /// The account of the source: packets of the files, those that are not wanted, losses.
    pub source: PortAccount,
    /// The account of the sink.
    pub sink: PortAccount,
    /// Whether it was ended before the end.
    pub is_stopped: bool,
}

/// What came of a try.
#[derive(Debug)]
pub struct Attempt {
    /// What was found before the failure, if there was one. It is in the sink, as far as that goes.
    pub extracted: Extracted,
    /// What ended it: a file cannot be read, or the sink cannot be written.
    pub failure: Option<EngineError>,
}

impl Extracted {
    /// What the ledger does not explain; 0, or the program is wrong.
    pub fn unaccounted(&self) -> i64 {
        let explained = self.packets + self.source.lost.total() + self.source.in_flight;
        self.source.offered as i64 - explained as i64
    }
}

/// The time of the first packet of the earliest file, in ns since 1970: what relative times count
/// from. `None`: there is no packet.
///
/// # Errors
/// [`EngineError::Port`]: a file cannot be read.
pub fn first_time_ns(captures: &[Capture]) -> Result<Option<u64>, EngineError> {
    let mut earliest: Option<u64> = None;
    for capture in captures {
        earliest = earliest.into_iter().chain(capture.first_time_ns()?).min();
    }
    Ok(earliest)
}

/// As [`try_extract`]: all or an error.
///
/// # Errors
/// [`EngineError::Port`]: a file cannot be read, or the sink cannot be written.
pub fn extract(
    source: Box<dyn Source>,
    sink: Option<Box<dyn Sink>>,
    table: &PortTable,
    stop: &AtomicBool,
) -> Result<Extracted, EngineError> {
    let Attempt { extracted, failure } = try_extract(source, sink, table, stop);
    failure.map_or(Ok(extracted), Err)
}

/// Gives all packets of a source to a sink, if there is one, until the source ends, one of both
/// fails or `stop` is set. Then ends the sink.
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
    }
    extracted.source = source.account();
    Attempt { extracted, failure }
}

/// Gives packets to the sink until there are no more. Counts them, and by port in `received`.
fn pass(
    source: &mut dyn Source,
    sink: &mut Option<Box<dyn Sink>>,
    stop: &AtomicBool,
    extracted: &mut Extracted,
    received: &mut [u64],
) -> Result<(), EngineError> {
    let mut scratch = Scratch::new();
    loop {
        // It carries no memory.
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

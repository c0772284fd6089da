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

/// Gives all packets of a source to a sink, if there is one, until the source ends or `stop` is
/// set.
///
/// # Errors
/// [`EngineError::Port`]: a file cannot be read, or the sink cannot be written.
pub fn extract(
    mut source: Box<dyn Source>,
    mut sink: Option<Box<dyn Sink>>,
    table: &PortTable,
    stop: &AtomicBool,
) -> Result<Extracted, EngineError> {
    let (mut extracted, mut scratch) = (Extracted::default(), Scratch::new());
    let mut received = vec![0_u64; PortTable::MAX_ENTRIES];
    loop {
        // It carries no memory.
        if stop.load(Relaxed) {
            extracted.is_stopped = true;
            break;
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
        if let Some(sink) = &mut sink {
            sink.transmit(&lent.burst)?;
        }
        if lent.state == PortState::Ended {
            break;
        }
    }
    if let Some(sink) = &mut sink {
        let totals = (0..=u8::MAX).zip(&received).take(table.len());
        let totals = totals.map(|(port, &packets)| InterfaceTotals {
            port,
            received: Some(packets),
            ..InterfaceTotals::default()
        });
        sink.set_totals(&totals.filter(|totals| totals.received > Some(0)).collect::<Vec<_>>());
        sink.finish()?;
        extracted.sink = sink.account();
    }
    extracted.source = source.account();
    Ok(extracted)
}

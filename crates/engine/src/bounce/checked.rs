//! One direction of a bounce whose packets wait for verdicts.

use std::os::fd::BorrowedFd;
use std::thread;
use std::time::Duration;

use burstline_log::Burst;
use burstline_port::{
    Address, Carried, Crossing, OpenOptions, Port, PortAccount, PortError, PortInfo, Received,
    Role, Sink, Treatment,
};
use burstline_sys::readiness;
use burstline_wire::hash::HashKind;

use super::carry::{Carry, Way};
use crate::EngineError;
use crate::inline::{
    Answers, Checkpoint, Entrance, Inline, InlineOptions, InlineWay, LOOK_EVERY_NS, Onward,
    checkpoints,
};

/// As [`open_bounce`](super::open_bounce), with verdicts. Packets are copied into a log, even
/// between ports that could pass them on without a copy.
///
/// # Errors
/// Returns the errors of the ports, and of the publisher.
pub fn open_inline(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
    inline: &InlineOptions,
) -> Result<(Vec<Box<dyn Crossing>>, Inline), EngineError> {
    let options = &OpenOptions { hash: HashKind::FiveTuple, ..options.clone() };
    let ways: &[[&Address; 2]] = &[ends, [ends[1], ends[0]]];
    let ways = &ways[..if is_both { 2 } else { 1 }];
    let (mut carries, mut sources) = (Vec::new(), Vec::new());
    for [from, to] in ways {
        let resolved = |address: &Address, role| address.resolved(role).map_err(PortError::from);
        let (from, to) = (resolved(from, Role::Source)?, resolved(to, Role::Sink)?);
        carries.push(Carry::open(&from, &to, treatment, options)?);
        sources.push(from);
    }
    // The crossings take the resources they need; answers use the rest.
    let way = |(carry, from): (&Carry, &Address)| {
        let clock_kind = carry.info().timestamps.code();
        let answers = Answers::open(from, is_both, options)?;
        Ok::<_, EngineError>(InlineWay { clock_kind, answers })
    };
    let inline_ways = carries.iter().zip(&sources).map(way).collect::<Result<_, _>>()?;
    let (checkpoints, inline) = checkpoints(inline_ways, &options.table, inline)?;
    let crossings = carries.into_iter().zip(checkpoints).map(|(carry, checkpoint)| {
        Box::new(Checked { carry, checkpoint, is_over: false }) as Box<dyn Crossing>
    });
    Ok((crossings.collect(), inline))
}

/// A crossing whose packets wait for verdicts.
struct Checked {
    carry: Carry,
    checkpoint: Checkpoint,
    /// The source has ended.
    is_over: bool,
}

/// Passes packets on to the sink after their verdicts.
struct ToSink<'a> {
    way: &'a mut Way,
    sink: &'a mut dyn Sink,
}

impl Onward for ToSink<'_> {
    fn pass(&mut self, burst: &Burst<'_>) -> Result<(), PortError> {
        self.way.pass(burst, self.sink)
    }

    fn flush(&mut self) -> Result<(), PortError> {
        self.sink.flush()
    }
}

impl Port for Checked {
    fn info(&self) -> &PortInfo {
        self.carry.info()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.carry.finish()
    }

    fn account(&self) -> PortAccount {
        let mut account = self.carry.account();
        self.checkpoint.add_to(&mut account);
        account
    }

    fn wait(&self, timeout_ns: u64) -> Option<bool> {
        if self.checkpoint.waiting() == 0 {
            return self.carry.wait(timeout_ns);
        }
        let timeout_ns = timeout_ns.min(LOOK_EVERY_NS);
        let source = self.carry.readiness().filter(|_| !self.is_over);
        let is_ready = source.and_then(|source| readiness::wait_each(&[source], timeout_ns).ok());
        if is_ready.is_none() {
            thread::sleep(Duration::from_nanos(timeout_ns));
        }
        // Not a wake-up for packets: the next turn looks at verdicts as well.
        Some(false)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        // While packets wait, the source's descriptor alone is not enough.
        if self.checkpoint.waiting() == 0 { self.carry.readiness() } else { None }
    }
}

impl Crossing for Checked {
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        let Self { carry: Carry { source, sink, scratch, way, .. }, checkpoint, is_over } = self;
        let entrance = Entrance { source: &mut **source, scratch, is_over };
        checkpoint.pass(entrance, budget, &mut ToSink { way, sink: &mut **sink })
    }

    fn close(&mut self) -> Result<(), PortError> {
        let Carry { sink, way, .. } = &mut self.carry;
        let outcome = self.checkpoint.close(&mut ToSink { way, sink: &mut **sink });
        outcome.and(self.carry.close())
    }

    fn carried(&self) -> Carried {
        self.carry.carried()
    }

    fn treatment(&self) -> Treatment {
        self.carry.treatment()
    }
}

//! The sinks of a sender, and the count of packets given to each.

use burstline_log::{Burst, Scratch};
use burstline_port::{Losses, PortTable, Routes, Sink};

use crate::EngineError;
use crate::runtime::{Span, Tally, tally};

/// A sink, and the count of what it was given.
pub(super) struct SinkBook {
    pub(super) sink: Box<dyn Sink>,
    /// Packets given to it.
    pub(super) made: Tally,
    is_flushed: bool,
}

/// All sinks of a sender.
pub(super) struct SinkBooks {
    pub(super) all: Vec<SinkBook>,
    /// The part of a burst that goes to one sink, while it is sent.
    part: Scratch,
    routes: Routes,
    /// The sink of each port number, cached after its first use.
    known: Box<[Option<usize>; PortTable::MAX_ENTRIES]>,
}

impl SinkBooks {
    pub(super) fn new(sinks: Vec<Box<dyn Sink>>, routes: &Routes) -> Self {
        let lane = |sink| SinkBook { sink, made: Tally::default(), is_flushed: true };
        let known = Box::new([None; PortTable::MAX_ENTRIES]);
        let all = sinks.into_iter().map(lane).collect();
        Self { all, part: Scratch::new(), routes: routes.clone(), known }
    }

    /// Gives each sink its part of a burst, in order, and continues after a sink that fails. So
    /// every lent packet is in a sink's account. Returns how many packets were taken.
    pub(super) fn send(&mut self, burst: &Burst<'_>, span: &mut Span) -> Result<u64, EngineError> {
        if let [lane] = &mut self.all[..] {
            return lane.send(burst, span);
        }
        for packet in burst.packets() {
            let known = &mut self.known[usize::from(packet.port())];
            known.get_or_insert_with(|| self.routes.sink_of(packet.port()));
        }
        let (mut taken, mut failed) = (0, None);
        for (number, lane) in self.all.iter_mut().enumerate() {
            let is_of = |port: u8| self.known[usize::from(port)] == Some(number);
            let of_lane = self.part.select(burst, lane.made.packets, |packet| {
                is_of(packet.port()).then(|| (u32::MAX, packet.meta()))
            });
            if of_lane.is_empty() {
                continue;
            }
            match lane.send(&of_lane, span) {
                Ok(sent) => taken += sent,
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(taken), Err)
    }

    /// Flushes every sink.
    pub(super) fn flush(&mut self) -> Result<(), EngineError> {
        for lane in &mut self.all {
            if !std::mem::replace(&mut lane.is_flushed, true) {
                lane.sink.flush()?;
            }
        }
        Ok(())
    }

    /// Finishes all sinks, even if one fails.
    pub(super) fn finish(&mut self) -> Result<(), EngineError> {
        let ends = self.all.iter_mut().map(|lane| lane.sink.finish());
        let mut errors = ends.collect::<Vec<_>>().into_iter().filter_map(Result::err);
        errors.next().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Returns the packets that all sinks took and have not lost.
    pub(super) fn taken(&self) -> Tally {
        sum(self.all.iter().map(SinkBook::taken))
    }

    /// Returns the packets given to all sinks.
    pub(super) fn made(&self) -> Tally {
        sum(self.all.iter().map(|lane| lane.made))
    }

    /// Returns the losses of all sinks.
    pub(super) fn lost(&self) -> Losses {
        let mut lost = Losses::default();
        self.all.iter().for_each(|lane| lost.merge(&lane.sink.account().lost));
        lost
    }
}

impl SinkBook {
    /// Gives a burst to the sink. Returns how many packets it took.
    fn send(&mut self, burst: &Burst<'_>, span: &mut Span) -> Result<u64, EngineError> {
        self.made.add(&tally(burst, span));
        self.is_flushed = false;
        Ok(self.sink.transmit(burst)?)
    }

    /// Returns the packets that the sink took and has not lost.
    pub(super) fn taken(&self) -> Tally {
        self.made.without(&self.sink.lost().total())
    }
}

fn sum(tallies: impl Iterator<Item = Tally>) -> Tally {
    let mut sum = Tally::default();
    tallies.for_each(|tally| sum.add(&tally));
    sum
}

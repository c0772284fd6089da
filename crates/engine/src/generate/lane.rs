//! The sinks of a sender, and what each has been given.

use burstline_log::{Burst, Scratch};
use burstline_port::{Losses, PortTable, Routes, Sink};

use crate::EngineError;
use crate::runtime::logs::tail::Tail;
use crate::runtime::{Span, Tally, tally};

/// A sink, and the book of what it was given.
pub(super) struct Lane {
    pub(super) sink: Box<dyn Sink>,
    /// Packets given to it, and of them those that it took and has not lost since.
    pub(super) made: Tally,
    pub(super) taken: Tally,
    lost: Losses,
    tail: Tail,
    is_flushed: bool,
}

/// All of them.
pub(super) struct Lanes {
    pub(super) all: Vec<Lane>,
    /// A lane's part of a burst, while it is sent.
    part: Scratch,
    routes: Routes,
    /// The lane of each port number, once it was asked for.
    known: Box<[Option<usize>; PortTable::MAX_ENTRIES]>,
}

impl Lanes {
    pub(super) fn new(sinks: Vec<Box<dyn Sink>>, routes: &Routes) -> Self {
        let lane = |sink| Lane {
            sink,
            made: Tally::default(),
            taken: Tally::default(),
            lost: Losses::default(),
            tail: Tail::new(),
            is_flushed: true,
        };
        let known = Box::new([None; PortTable::MAX_ENTRIES]);
        let all = sinks.into_iter().map(lane).collect();
        Self { all, part: Scratch::new(), routes: routes.clone(), known }
    }

    /// Gives each sink its part of a burst, in order, also those behind one that fails: every
    /// packet that was lent is in a sink's account. Returns how many packets were taken.
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

    /// Has every sink send what it holds back.
    pub(super) fn flush(&mut self) -> Result<(), EngineError> {
        for lane in &mut self.all {
            if !std::mem::replace(&mut lane.is_flushed, true) {
                lane.sink.flush()?;
            }
        }
        Ok(())
    }

    /// Ends all sinks, also behind one that fails.
    pub(super) fn finish(&mut self) -> Result<(), EngineError> {
        let ends = self.all.iter_mut().map(|lane| lane.sink.finish());
        let mut errors = ends.collect::<Vec<_>>().into_iter().filter_map(Result::err);
        errors.next().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Takes over what the sinks say they have lost since the last time.
    pub(super) fn settle(&mut self) {
        self.all.iter_mut().for_each(Lane::settle);
    }

    /// What all sinks took and have not lost.
    pub(super) fn taken(&self) -> Tally {
        sum(self.all.iter().map(|lane| &lane.taken))
    }

    /// What all sinks were given.
    pub(super) fn made(&self) -> Tally {
        sum(self.all.iter().map(|lane| &lane.made))
    }

    /// What they have lost, as of the last `settle`.
    pub(super) fn lost(&self) -> Losses {
        let mut lost = Losses::default();
        self.all.iter().for_each(|lane| lost.merge(&lane.lost));
        lost
    }
}

impl Lane {
    /// Gives a burst to the sink. Returns how many packets it took.
    fn send(&mut self, burst: &Burst<'_>, span: &mut Span) -> Result<u64, EngineError> {
        let sum = tally(burst, span);
        self.made.add(&sum);
        self.taken.add(&sum);
        for packet in burst.packets() {
            self.tail.push(packet.port(), packet.length(), packet.original_length());
        }
        self.is_flushed = false;
        Ok(self.sink.transmit(burst)?)
    }

    fn settle(&mut self) {
        let lost = self.sink.account().lost;
        let new = lost.total().saturating_sub(self.lost.total());
        for _ in 0..new {
            if let Some((_, one)) = self.tail.take_back() {
                self.taken.remove(&one);
            }
        }
        self.lost = lost;
    }
}

fn sum<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Tally {
    let mut sum = Tally::default();
    tallies.for_each(|tally| sum.add(tally));
    sum
}

//! The cable of a simulated card: frames from one port, and to another.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burstline_log::{Meta, Scratch};
use burstline_nicsim::{Arrived, Carousel, Wire, WireState};

use super::settings::Plug;
use crate::{OpenOptions, Port, PortAccount, PortError, PortState, open_sink, open_source};

/// How long a port that brings nothing is left alone while frames are gathered.
const PAUSE: Duration = Duration::from_millis(1);

/// What came of the frames at the other end of the cable.
#[derive(Default)]
pub(super) struct FarEnd {
    /// Frames that were sent there.
    frames: AtomicU64,
    /// Of them, those that the port there lost.
    lost: AtomicU64,
    /// Frames that the port they come from lost, before the card.
    lost_before: AtomicU64,
    /// The first thing that went wrong there.
    problem: Mutex<Option<String>>,
}

/// Both directions.
pub(super) struct Cable {
    near: Near,
    to: Option<Box<dyn Port>>,
    /// Frames for `to`, until there is a burst of them.
    outgoing: Vec<u8>,
    outgoing_scratch: Scratch,
    far: Arc<FarEnd>,
}

/// Where frames come from.
enum Near {
    Nowhere,
    Port { port: Box<dyn Port>, scratch: Scratch },
    Loop(Carousel),
}

impl Cable {
    /// A cable that brings frames, and takes what is sent.
    pub(super) fn open(
        plug: &Plug,
        options: &OpenOptions,
    ) -> Result<(Self, Arc<FarEnd>), PortError> {
        let port = open_source(&plug.source, &inner(options))?;
        let (mut cable, far) = Self::sending(plug, options)?;
        cable.near = match plug.looped {
            None => Near::Port { port, scratch: Scratch::new() },
            Some(frames) => Near::Loop(fill(port, frames, (plug, options), &far)?),
        };
        Ok((cable, far))
    }

    /// A cable that brings nothing.
    pub(super) fn sending(
        plug: &Plug,
        options: &OpenOptions,
    ) -> Result<(Self, Arc<FarEnd>), PortError> {
        let to = plug.to.as_ref().map(|to| open_sink(to, &inner(options))).transpose()?;
        let far = Arc::new(FarEnd::default());
        let (outgoing, outgoing_scratch) = (Vec::new(), Scratch::new());
        let shared = Arc::clone(&far);
        Ok((Self { near: Near::Nowhere, to, outgoing, outgoing_scratch, far }, shared))
    }

    fn pass_on(&mut self) {
        let Some(to) = &mut self.to else { return };
        if self.outgoing_scratch.is_empty() {
            return;
        }
        let first = self.far.frames.load(Relaxed) - self.outgoing_scratch.len() as u64;
        let burst = self.outgoing_scratch.burst(&self.outgoing, first);
        if let Err(error) = to.transmit(&burst) {
            self.far.complain(&error);
        }
        self.outgoing.clear();
        self.outgoing_scratch.clear();
    }
}

impl FarEnd {
    /// Tells what went wrong there, and what was lost.
    pub(super) fn enter_into(&self, account: &mut PortAccount) {
        let (before, lost) = (self.lost_before.load(Relaxed), self.lost.load(Relaxed));
        if before > 0 {
            account.note(|| format!("{before} frames were lost before they came to the card"));
        }
        if lost > 0 {
            account.note(|| format!("of the frames sent, {lost} were lost at the far end"));
        }
        let problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(problem) = &*problem {
            account.is_damaged = true;
            account.note(|| format!("at the far end: {problem}"));
        }
    }

    fn complain(&self, error: impl ToString) {
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.get_or_insert_with(|| error.to_string());
    }

    /// What became of the port that frames come from.
    fn hear(&self, port: &dyn Port) {
        let account = port.account();
        self.lost_before.store(account.lost.total(), Relaxed); // a count
        if account.is_damaged {
            let name = &port.info().name;
            self.complain(match account.notes.first() {
                Some(note) => format!("{name}: {note}"),
                None => format!("{name} is damaged"),
            });
        }
    }
}

/// The inner ports have interfaces of their own: those of the job are the card's.
fn inner(options: &OpenOptions) -> OpenOptions {
    OpenOptions {
        files: options.files.clone(),
        stop: options.stop.clone(),
        ..OpenOptions::default()
    }
}

/// Takes so many frames of a port, to go round and round; fewer if it ends, or the job does.
fn fill(
    mut port: Box<dyn Port>,
    frames: u64,
    (plug, options): (&Plug, &OpenOptions),
    far: &FarEnd,
) -> Result<Carousel, PortError> {
    let (mut list, mut scratch, mut bytes) = (Vec::new(), Scratch::new(), 0);
    let is_stopped = || options.stop.as_ref().is_some_and(|stop| stop.load(Relaxed));
    while (list.len() as u64) < frames && !is_stopped() {
        let lent = port.lend(&mut scratch, frames - list.len() as u64)?;
        for packet in lent.burst.packets() {
            bytes += (packet.length() as u64).next_multiple_of(16);
            list.push(packet.bytes().to_vec());
        }
        if bytes > u64::from(u32::MAX) {
            let reason = format!("{} frames have {bytes} bytes, and 4 GiB go round", list.len());
            return Err(plug.source.bad_value("loop", &frames.to_string(), reason).into());
        }
        match lent.state {
            PortState::Ended => break,
            PortState::Busy => {}
            PortState::Idle | PortState::Blocked => std::thread::sleep(PAUSE),
        }
    }
    far.hear(&*port);
    Ok(Carousel::new(list.iter().map(|frame| &frame[..])))
}

impl Wire for Cable {
    fn arrive(&mut self, budget: u64) -> Arrived<'_> {
        let ended = |frames| Arrived { frames, state: WireState::Ended };
        match &mut self.near {
            Near::Nowhere => ended(self.outgoing_scratch.burst(&[], 0)),
            Near::Loop(frames) => frames.arrive(budget),
            Near::Port { port, scratch } => match port.lend(scratch, budget) {
                Ok(lent) => {
                    let state = match lent.state {
                        PortState::Busy => WireState::Busy,
                        PortState::Ended => WireState::Ended,
                        PortState::Idle | PortState::Blocked => WireState::Idle,
                    };
                    Arrived { frames: lent.burst, state }
                }
                Err(error) => {
                    self.far.complain(&error);
                    ended(self.outgoing_scratch.burst(&[], 0))
                }
            },
        }
    }

    fn can_wait(&self) -> bool {
        match &self.near {
            Near::Port { port, .. } => port.info().capabilities.can_wait,
            Near::Nowhere | Near::Loop(_) => true,
        }
    }

    fn close(&mut self) {
        if let Near::Port { port, .. } = &self.near {
            self.far.hear(&**port);
        }
    }

    fn depart(&mut self, frame: &[u8]) {
        self.far.frames.fetch_add(1, Relaxed); // a count
        if self.to.is_none() {
            return;
        }
        if self.outgoing_scratch.is_full() || self.outgoing.len() > 1 << 20 {
            self.pass_on();
        }
        let meta = Meta::new(burstline_sys::clock::realtime_ns(), frame.len() as u32, 0);
        self.outgoing_scratch.push(self.outgoing.len() as u32, frame.len() as u32, &meta);
        self.outgoing.extend_from_slice(frame);
    }

    fn flush(&mut self) {
        self.pass_on();
        if let Some(to) = &mut self.to
            && let Err(error) = to.flush()
        {
            self.far.complain(&error);
        }
    }

    fn stop(&mut self) {
        self.pass_on();
        if let Some(to) = &mut self.to {
            if let Err(error) = to.finish() {
                self.far.complain(&error);
            }
            self.far.lost.store(to.account().lost.total(), Relaxed); // a count
        }
    }
}

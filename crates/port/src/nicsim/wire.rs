//! The cable of a simulated card: frames from one port, and to another.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use burstline_log::{Meta, Scratch};
use burstline_nicsim::{Arrived, Carousel, Wire, WireState};

use super::settings::Plug;
use crate::{OpenOptions, Port, PortError, PortState, open_sink, open_source};

/// What came of the frames that a card has sent.
#[derive(Default)]
pub(super) struct FarEnd {
    /// Frames that arrived there.
    pub(super) frames: AtomicU64,
    /// Of them, those that the port there lost.
    pub(super) lost: AtomicU64,
    /// The first thing that went wrong there.
    pub(super) problem: Mutex<Option<String>>,
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
    pub(super) fn open(plug: &Plug, options: &OpenOptions) -> Result<Self, PortError> {
        let port = open_source(&plug.source, &inner(options))?;
        let near = match plug.looped {
            None => Near::Port { port, scratch: Scratch::new() },
            Some(frames) => Near::Loop(fill(port, frames)?),
        };
        let (mut cable, _) = Self::sending(plug, options)?;
        cable.near = near;
        Ok(cable)
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
    fn complain(&self, error: &PortError) {
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.get_or_insert_with(|| error.to_string());
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

/// Takes so many frames of a port, to go round and round.
fn fill(mut port: Box<dyn Port>, frames: u64) -> Result<Carousel, PortError> {
    let (mut list, mut scratch) = (Vec::new(), Scratch::new());
    while (list.len() as u64) < frames {
        let lent = port.lend(&mut scratch, frames - list.len() as u64)?;
        list.extend(lent.burst.packets().map(|packet| packet.bytes().to_vec()));
        if lent.state == PortState::Ended {
            break;
        }
    }
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

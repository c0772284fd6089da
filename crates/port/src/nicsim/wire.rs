//! The wire of a simulated card: it carries frames from another port.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use burstline_log::Scratch;
use burstline_nicsim::{Arrived, Carousel, Wire, WireState};

use super::settings::Plug;
use crate::{OpenOptions, PortAccount, PortError, PortState, Source, open_source};

/// How long to wait for an idle port while frames are collected.
const PAUSE: Duration = Duration::from_millis(1);

/// The state of the other end of the cable.
#[derive(Default)]
pub(super) struct FarEnd {
    /// Frames lost by the source port, before the card.
    lost_before: AtomicU64,
    /// The first problem there.
    problem: Mutex<Option<String>>,
}

/// The source of a card's frames.
pub(super) struct Cable {
    near: Near,
    /// An empty burst, for a port that has failed.
    nothing: Scratch,
    far: Arc<FarEnd>,
}

/// The origin of frames.
enum Near {
    Port { port: Box<dyn Source>, scratch: Scratch },
    Loop(Carousel),
}

impl Cable {
    /// Opens the source port of the card.
    pub(super) fn open(
        plug: &Plug,
        options: &OpenOptions,
    ) -> Result<(Self, Arc<FarEnd>), PortError> {
        let port = open_source(&plug.source, &inner(options))?;
        let far = Arc::new(FarEnd::default());
        let near = match plug.looped {
            None => Near::Port { port, scratch: Scratch::new() },
            Some(frames) => Near::Loop(fill(port, frames, plug, options, &far)?),
        };
        Ok((Self { near, nothing: Scratch::new(), far: Arc::clone(&far) }, far))
    }
}

impl FarEnd {
    /// Reports problems and losses of the source port.
    pub(super) fn enter_into(&self, account: &mut PortAccount) {
        let before = self.lost_before.load(Relaxed);
        if before > 0 {
            account.note(|| format!("{before} frames were lost before they reached the card"));
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

    /// Records the state of the source port.
    fn hear(&self, port: &dyn Source) {
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

/// Returns options for the inner port. Its interfaces are separate: the job's are the card's.
fn inner(options: &OpenOptions) -> OpenOptions {
    OpenOptions {
        files: options.files.clone(),
        stop: options.stop.clone(),
        ..OpenOptions::default()
    }
}

/// Takes this many frames from a port, to repeat them; fewer if the port or the job ends.
fn fill(
    mut port: Box<dyn Source>,
    frames: u64,
    plug: &Plug,
    options: &OpenOptions,
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
            let reason =
                format!("{} frames have {bytes} bytes: at most 4 GiB can be repeated", list.len());
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
        match &mut self.near {
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
                    Arrived { frames: self.nothing.burst(&[], 0), state: WireState::Ended }
                }
            },
        }
    }

    fn can_wait(&self) -> bool {
        match &self.near {
            Near::Port { port, .. } => port.info().capabilities.can_wait,
            Near::Loop(_) => true,
        }
    }

    fn close(&mut self) {
        if let Near::Port { port, .. } = &self.near {
            self.far.hear(&**port);
        }
    }

    /// A receiving card sends nothing.
    fn depart(&mut self, _frame: &[u8]) {}
}

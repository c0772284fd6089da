//! The injector: numbered frames that arrive on an interface as if off the wire.
//!
//! [`burstline_xdp::inject`] makes the frames and explains how; this module adds amounts and rates.
//!
//! # Invariants
//! - J1. `offered` counts each frame given to the receiving program or the stack.
//! - J2. Numbers are consecutive on each interface, over all calls, beginning with the first.

mod pace;

use std::time::Duration;

use burstline_sys::clock::monotonic_ns;
use burstline_xdp::bpf::{LiveRun, Program};
pub use burstline_xdp::inject::{Flows, INJECTED_BYTES_MAX, InjectError as InjectorError, Target};
use burstline_xdp::inject::{Generator, Numbers, attached, interface_index};

use crate::Frames;
use pace::Pace;

/// Length of the shortest frame without FCS, in bytes: Ethernet's.
pub const INJECTED_BYTES_MIN: usize = 60;

/// Frames per call: enough to make its own cost negligible, few enough to check the time.
const CALL_FRAMES: u64 = 4096;

/// Frames per call if they are dealt over several interfaces: fewer than the smallest ring has room
/// for.
const DEALT_FRAMES: u64 = 256;

/// Frames that the kernel handles at a time, like a driver in one poll.
const BATCH: u32 = 64;

/// What to inject, and where.
#[derive(Clone, Debug)]
pub struct InjectorOptions {
    /// An interface of the calling thread's host.
    pub interface: String,
    /// The receiver of the frames.
    pub receiver: Target,
    /// The frame, of [`INJECTED_BYTES_MIN`] to [`INJECTED_BYTES_MAX`] bytes.
    pub frame: Vec<u8>,
    /// Offset of the frame's number: 8 bytes, big-endian. `None` for identical frames. Then an
    /// attached program is run directly, without a generator.
    pub number_at: Option<usize>,
    /// The first number.
    pub first: u64,
    /// Set if numbered frames belong to several flows.
    pub flows: Option<Flows>,
}

impl InjectorOptions {
    /// Injects `frames` from their first number on, without an end, into the program attached to
    /// `interface`. Frames differ only in their number: they all have the first one's pattern.
    pub fn numbered(interface: &str, frames: &Frames) -> Self {
        Self {
            interface: interface.to_owned(),
            receiver: Target::Program,
            frame: frames.frame(frames.first),
            number_at: Some(frames.number_at()),
            first: frames.first,
            flows: None,
        }
    }

    /// The same without numbers: all frames equal the first one.
    pub fn identical(interface: &str, frames: &Frames) -> Self {
        Self { number_at: None, ..Self::numbered(interface, frames) }
    }

    /// The same for the network stack.
    pub fn to_stack(self) -> Self {
        Self { receiver: Target::Stack, ..self }
    }
}

/// The amount to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// This many frames, exactly.
    Frames(u64),
    /// For this long.
    Time(Duration),
}

/// The result of an injection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Frames given to the receiver.
    pub offered: u64,
    /// Time from the first call to the end of the last one.
    pub elapsed: Duration,
}

impl Injected {
    /// Frames per second.
    pub fn rate_pps(&self) -> f64 {
        self.offered as f64 / self.elapsed.as_secs_f64()
    }
}

/// The program that runs for each frame.
enum Runner {
    /// The attached program itself; `offered` is the sum of the requested frames.
    Attached {
        program: Program,
        offered: u64,
    },
    Generator(Generator),
}

/// A source of frames for one interface, or for several in turn.
pub struct Injector {
    lanes: Vec<Lane>,
    /// The next lane.
    next: usize,
    frame: Vec<u8>,
}

/// The injector of one interface.
struct Lane {
    runner: Runner,
    interface_index: u32,
}

impl Injector {
    /// Makes an injector for an interface of the calling thread's host. Use it only on that host:
    /// interface indices are local to the host.
    ///
    /// # Errors
    /// See [`InjectorError`]. Needs root in the first user namespace.
    pub fn new(options: &InjectorOptions) -> Result<Self, InjectorError> {
        Self::dealing(options, std::slice::from_ref(&options.interface))
    }

    /// Like [`new`](Self::new), with frames dealt over these interfaces instead of the options'
    /// one: a few hundred to each in turn. There must be at least one interface.
    ///
    /// # Errors
    /// The same.
    ///
    /// # Panics
    /// If there is no interface.
    pub fn dealing(
        options: &InjectorOptions,
        interfaces: &[String],
    ) -> Result<Self, InjectorError> {
        assert!(!interfaces.is_empty(), "frames that come in nowhere");
        check(options)?;
        let lanes = interfaces.iter().map(|name| Lane::new(options, name));
        let lanes = lanes.collect::<Result<_, _>>()?;
        Ok(Self { lanes, next: 0, frame: options.frame.clone() })
    }

    /// Injects an amount, evenly at `rate_pps` frames a second, at least 1, or at full speed.
    /// Catches up after a stall.
    ///
    /// Cost: all of this core, unless the rate leaves time to sleep.
    ///
    /// # Errors
    /// [`InjectorError::Bpf`] if the interface is gone;
    /// [`InjectorError::NotTaken`].
    pub fn inject(
        &mut self,
        amount: Amount,
        rate_pps: Option<u64>,
    ) -> Result<Injected, InjectorError> {
        let before = self.offered()?;
        let pace = Pace::start(rate_pps);
        let mut done = 0;
        loop {
            let left = match amount {
                Amount::Frames(frames) => frames.saturating_sub(done),
                Amount::Time(time) if pace.elapsed() < time => u64::MAX,
                Amount::Time(_) => 0,
            };
            let most = if self.lanes.len() > 1 { DEALT_FRAMES } else { CALL_FRAMES };
            let frames = left.min(pace.frames_at_once()).min(most);
            if frames == 0 {
                break;
            }
            pace.wait_for(done);
            let lane = &mut self.lanes[self.next];
            lane.call(&self.frame, frames as u32)?;
            self.next = (self.next + 1) % self.lanes.len();
            done = self.offered()? - before;
        }
        Ok(Injected { offered: done, elapsed: pace.elapsed() })
    }

    /// Frames given to the receiver since the injector was made.
    fn offered(&self) -> Result<u64, InjectorError> {
        self.lanes.iter().map(Lane::offered).sum()
    }
}

impl Lane {
    fn new(options: &InjectorOptions, name: &str) -> Result<Self, InjectorError> {
        let interface_index = interface_index(name)?;
        let numbers = Numbers { at: options.number_at, first: options.first, flows: options.flows };
        let runner = match options.receiver {
            Target::Stack => Runner::Generator(Generator::numbering(None, numbers)?),
            Target::Program => {
                let target = attached(interface_index)?;
                let target = target.ok_or_else(|| InjectorError::NoProgram(name.to_owned()))?;
                match options.number_at {
                    None => Runner::Attached { program: Program::from_id(target)?, offered: 0 },
                    Some(_) => Runner::Generator(Generator::numbering(Some(target), numbers)?),
                }
            }
        };
        Ok(Self { runner, interface_index })
    }

    /// Like [`Injector::offered`], for this interface.
    fn offered(&self) -> Result<u64, InjectorError> {
        match &self.runner {
            Runner::Attached { offered, .. } => Ok(*offered),
            Runner::Generator(generator) => match generator.not_taken() {
                0 => Ok(generator.generated()),
                frames => Err(InjectorError::NotTaken { frames }),
            },
        }
    }

    fn call(&mut self, frame: &[u8], repeat: u32) -> Result<(), InjectorError> {
        let interface_index = self.interface_index;
        match &mut self.runner {
            Runner::Attached { program, offered } => {
                let run = LiveRun { interface_index, repeat, batch: BATCH.min(repeat) };
                program.run_live(frame, &run)?;
                *offered += u64::from(repeat);
            }
            Runner::Generator(generator) => generator.run(frame, interface_index, repeat)?,
        }
        Ok(())
    }
}

fn check(options: &InjectorOptions) -> Result<(), InjectorError> {
    let (bytes, number_at) = (options.frame.len(), options.number_at);
    let flows = options.flows.map_or([0; 2], |flows| [flows.at, flows.complement_at]);
    let has_room = number_at.is_none_or(|at| at.saturating_add(8) <= bytes)
        && flows.iter().all(|at| at.saturating_add(2) <= bytes);
    let is_fine = has_room && (INJECTED_BYTES_MIN..=INJECTED_BYTES_MAX).contains(&bytes);
    let least = INJECTED_BYTES_MIN;
    if is_fine { Ok(()) } else { Err(InjectorError::Frame { bytes, least, number_at }) }
}

/// Returns [`monotonic_ns`] as a duration.
fn now() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

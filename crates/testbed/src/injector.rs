//! The injector: frames that come in by an interface as if off the wire, millions a second.
//!
//! ```text
//!  this thread          the kernel, on this thread's core
//!  inject ---------->   frame ---> generator ------------> the program that is attached
//!  (a call for          (a page    writes the next number  to the interface, or the
//!   4096 frames)         each)     into it, counts         network stack
//!                                  |
//!                     word 0: next number    word 1: frames that the program did not get
//!                     read by this thread without a call
//! ```
//!
//! Everything up to the receiver's ring or socket happens on the calling thread's core, so a
//! receiver that is to be measured belongs on another one.
//!
//! The generator is parked: attached to the loopback of a namespace of its own, where nothing ever
//! comes. The kernel has it in its dispatcher then; otherwise each call would wait 25 ms for that.
//!
//! Who owns what: an injector holds the program that it found attached, even when that is taken
//! off meanwhile; for a program that comes later, make a new injector.
//!
//! # Invariants
//! - J1. `offered` comes from the generator's counter: one for each frame that the receiving
//!   program, or the stack, was given.
//! - J2. Numbers are consecutive, over all calls, beginning with the first.
//!
//! The device's own counters do not move: the frames begin behind them.
//!
//! Source: net/bpf/test_run.c of Linux 6.18.

mod generator;
mod pace;

use std::time::Duration;

use burstline_sys::bpf::{BpfError, LiveRun, Program, attached_program};
use burstline_sys::clock::monotonic_ns;
use burstline_sys::namespace;

use crate::Frames;
use generator::Generator;
use pace::Pace;

/// Bytes of the longest frame without FCS: a page of 4096 without what the kernel needs of it,
/// which is 688 in Linux 6.18, and some room for others.
pub const INJECTED_BYTES_MAX: usize = 3000;

/// Bytes of the shortest frame without FCS: Ethernet's.
pub const INJECTED_BYTES_MIN: usize = 60;

/// Frames of one call: enough for its own cost to vanish, little enough to look at the time.
const CALL_FRAMES: u64 = 4096;

/// Frames that the kernel handles at a time, as a driver would in one poll.
const BATCH: u32 = 64;

/// Who is given the frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receiver {
    /// The XDP program that is attached to the interface.
    Program,
    /// The network stack, as if the interface had no XDP program: packet sockets see them.
    Stack,
}

/// What to inject, and where.
#[derive(Clone, Debug)]
pub struct InjectorOptions {
    /// An interface of the calling thread's host.
    pub interface: String,
    /// Who is given them.
    pub receiver: Receiver,
    /// The bytes, of [`INJECTED_BYTES_MIN`] to [`INJECTED_BYTES_MAX`].
    pub frame: Vec<u8>,
    /// Where in the frame its number is written: 8 bytes, big-endian. `None`: all are identical,
    /// and an attached program is run as it is, without a generator.
    pub number_at: Option<usize>,
    /// The first number.
    pub first: u64,
}

impl InjectorOptions {
    /// `frames`, from its first number on and without its end, for the program that is attached to
    /// `interface`. Frames differ only in their number: the pattern behind it is the first one's.
    pub fn numbered(interface: &str, frames: &Frames) -> Self {
        Self {
            interface: interface.to_owned(),
            receiver: Receiver::Program,
            frame: frames.frame(frames.first),
            number_at: Some(frames.number_at()),
            first: frames.first,
        }
    }

    /// The same without numbers: all frames are the first one.
    pub fn identical(interface: &str, frames: &Frames) -> Self {
        Self { number_at: None, ..Self::numbered(interface, frames) }
    }

    /// The same for the network stack.
    pub fn to_stack(self) -> Self {
        Self { receiver: Receiver::Stack, ..self }
    }
}

/// How much to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Amount {
    /// So many frames, exactly.
    Frames(u64),
    /// For so long.
    Time(Duration),
}

/// What was injected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Injected {
    /// Frames that the receiver was given.
    pub offered: u64,
    /// From the first call to the end of the last one.
    pub elapsed: Duration,
}

impl Injected {
    /// Frames a second.
    pub fn rate_pps(&self) -> f64 {
        self.offered as f64 / self.elapsed.as_secs_f64()
    }
}

/// Why nothing could be injected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InjectorError {
    /// There is no such interface on this host.
    #[error("no interface '{0}' on this host; see: ip link")]
    NoSuchInterface(String),
    /// The interface has no XDP program.
    #[error("interface '{0}' has no XDP program: start its receiver first, or inject to the stack")]
    NoProgram(String),
    /// The attached program cannot be called from ours.
    #[error("XDP program {program_id} takes no tail call from a program of any of our kinds")]
    Incompatible {
        /// Its number.
        program_id: u32,
    },
    /// The frame is too short or too long, or has no room for the number.
    #[error(
        "a frame of {bytes} bytes, its number at {number_at:?}: frames have {INJECTED_BYTES_MIN} \
         to {INJECTED_BYTES_MAX} bytes, and a number takes 8 of them"
    )]
    Frame {
        /// Bytes of the frame.
        bytes: usize,
        /// Where its number was to be.
        number_at: Option<usize>,
    },
    /// The program was not there any more.
    #[error("{frames} frames found no program to go to: make a new injector")]
    NotTaken {
        /// How many.
        frames: u64,
    },
    /// The generator could not be parked.
    #[error("parking the generator: {0}")]
    Parking(std::io::Error),
    /// The kernel said no.
    #[error(transparent)]
    Bpf(#[from] BpfError),
}

/// What is run for each frame.
enum Runner {
    /// The attached program itself; how many frames it was given is what the calls asked for.
    Attached {
        program: Program,
        offered: u64,
    },
    Generator(Generator),
}

/// A source of frames that come in by one interface.
pub struct Injector {
    runner: Runner,
    frame: Vec<u8>,
    interface_index: u32,
}

impl Injector {
    /// Makes an injector for an interface of the calling thread's host, on which it must also be
    /// used: interfaces have numbers, which are the host's own.
    ///
    /// # Errors
    /// [`InjectorError`], each variant as it says. Needs root in the first user namespace.
    pub fn new(options: &InjectorOptions) -> Result<Self, InjectorError> {
        check(options)?;
        let name = &options.interface;
        let index = namespace::interface_index(name).map_err(InjectorError::Parking)?;
        let interface_index =
            index.ok_or_else(|| InjectorError::NoSuchInterface(name.to_owned()))?;
        let attached = || {
            let attached = attached_program(interface_index)?;
            let attached = attached.ok_or_else(|| InjectorError::NoProgram(name.to_owned()))?;
            Ok::<_, InjectorError>(Program::from_id(attached.program_id)?)
        };
        let runner = match (options.receiver, options.number_at) {
            (Receiver::Program, None) => Runner::Attached { program: attached()?, offered: 0 },
            (Receiver::Program, number_at) => {
                Runner::Generator(Generator::to_program(&attached()?, number_at, options.first)?)
            }
            (Receiver::Stack, number_at) => {
                Runner::Generator(Generator::to_stack(number_at, options.first)?)
            }
        };
        Ok(Self { runner, frame: options.frame.clone(), interface_index })
    }

    /// Injects an amount, evenly at `rate_pps` frames a second, at least 1, or as fast as it goes.
    /// What a stall has held up is caught up with.
    ///
    /// Cost: this core, all of it, unless the rate leaves time to sleep.
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
            let frames = left.min(pace.frames_at_once());
            if frames == 0 {
                break;
            }
            pace.wait_for(done);
            self.call(frames as u32)?;
            done = self.offered()? - before;
        }
        Ok(Injected { offered: done, elapsed: pace.elapsed() })
    }

    /// Frames that the receiver was given since this was made.
    fn offered(&self) -> Result<u64, InjectorError> {
        match &self.runner {
            Runner::Attached { offered, .. } => Ok(*offered),
            Runner::Generator(generator) => match generator.not_taken() {
                0 => Ok(generator.generated()),
                frames => Err(InjectorError::NotTaken { frames }),
            },
        }
    }

    fn call(&mut self, repeat: u32) -> Result<(), InjectorError> {
        let interface_index = self.interface_index;
        let run = LiveRun { interface_index, repeat, batch: BATCH.min(repeat) };
        match &mut self.runner {
            Runner::Attached { program, offered } => {
                program.run_live(&self.frame, &run)?;
                *offered += u64::from(repeat);
            }
            Runner::Generator(generator) => match generator.program().run_live(&self.frame, &run) {
                // A signal: the counter knows how far it got.
                Err(BpfError::System { source, .. })
                    if source.kind() == std::io::ErrorKind::Interrupted => {}
                other => other?,
            },
        }
        Ok(())
    }
}

fn check(options: &InjectorOptions) -> Result<(), InjectorError> {
    let (bytes, number_at) = (options.frame.len(), options.number_at);
    let has_room = number_at.is_none_or(|at| at.saturating_add(8) <= bytes);
    let is_fine = has_room && (INJECTED_BYTES_MIN..=INJECTED_BYTES_MAX).contains(&bytes);
    if is_fine { Ok(()) } else { Err(InjectorError::Frame { bytes, number_at }) }
}

/// As [`monotonic_ns`], as a span.
fn now() -> Duration {
    Duration::from_nanos(monotonic_ns())
}

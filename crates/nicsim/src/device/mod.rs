//! The device: the work of one thread, step by step.
//!
//! ```text
//!   wire --> MAC --> RSS --> FIFO of the queue --> DMA --> memory       receive
//!   wire <-- MAC <------------------ DMA <--- ring or log <-- memory    transmit
//! ```
//!
//! A frame that finds the FIFO empty and a descriptor free goes straight through; all others wait
//! in the FIFO. [`Device::step`] does a batch of everything. A test can call it, and so does the
//! thread that [`crate::Card`] starts.
//!
//! Invariants:
//! - V1: for each queue, arrived = delivered + overflowed + reset + link down + too long + in the
//!   FIFO. It holds whenever counts are shown, even by a device that has died.
//! - V2: frames of a queue are delivered in the order in which they arrived.
//! - V3: if the wire can wait and the line has no rate, the device takes a frame only if the FIFO
//!   has room for it: nothing overflows.

mod intake;
pub(crate) mod logs;
pub(crate) mod queue;
pub(crate) mod rings;
pub(crate) mod send;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, PoisonError};

use burstline_sys::clock;

use crate::line::Line;
use crate::meter::{BusAccount, Meter};
use crate::rss::Spreader;
use crate::wire::{Wire, WireState};
use crate::{Settings, pcie};
use intake::Arrivals;
use queue::ReceiveQueue;
use send::Sender;

/// Frames per step in each direction.
const BATCH: u64 = 256;

/// Steps after which the bus account is shown even if the device is busy.
const SHOWN_EVERY: u32 = 1024;

/// Flags and counters shared between the device and other threads.
#[derive(Default)]
pub(crate) struct Control {
    /// Take no more frames from the wire.
    pub(crate) is_stopped: AtomicBool,
    /// End the thread.
    pub(crate) is_over: AtomicBool,
    /// The thread has panicked.
    pub(crate) is_dead: AtomicBool,
    pub(crate) doorbells: AtomicU64,
    pub(crate) head_reads: AtomicU64,
    bus: Mutex<BusAccount>,
}

impl Control {
    pub(crate) fn count_head_read(&self) {
        self.head_reads.fetch_add(1, Relaxed); // a counter
    }

    /// Counts a driver's write to a tail register.
    #[inline]
    pub(crate) fn ring_doorbell(&self) {
        self.doorbells.fetch_add(1, Relaxed); // a counter
    }

    pub(crate) fn bus(&self, bus: &pcie::Bus) -> BusAccount {
        let mut account = *self.bus.lock().unwrap_or_else(PoisonError::into_inner);
        // Counters, which publish no memory.
        let (doorbells, reads) = (self.doorbells.load(Relaxed), self.head_reads.load(Relaxed));
        account.add(pcie::Kind::Doorbell, bus.write(4).times(doorbells));
        let (asked, came) = bus.read(4);
        account.add(pcie::Kind::HeadRequest, asked.times(reads));
        account.add(pcie::Kind::HeadCompletion, came.times(reads));
        account
    }
}

/// A simulated card.
pub struct Device {
    wire: Box<dyn Wire>,
    queues: Vec<ReceiveQueue>,
    sender: Option<Sender>,
    spreader: Spreader,
    is_hashing: bool,
    line: Line,
    longest: usize,
    restart_after: u64,
    link_down: Range<u64>,
    /// Frames that have arrived, over all queues.
    arrived: u64,
    is_ended: bool,
    /// Whether the wire has been closed.
    is_closed: bool,
    meter: Meter,
    control: Arc<Control>,
    is_unshown: bool,
    steps: u32,
}

impl Device {
    pub(crate) fn new(
        settings: &Settings,
        wire: Box<dyn Wire>,
        queues: Vec<ReceiveQueue>,
        sender: Option<Sender>,
        control: Arc<Control>,
    ) -> Self {
        Self {
            wire,
            spreader: Spreader::new(queues.len().max(1)),
            queues,
            sender,
            is_hashing: settings.hashes(),
            line: Line::new(settings.line_bits_per_s),
            longest: settings.longest,
            restart_after: settings.restart_after.unwrap_or(u64::MAX),
            link_down: settings.link_down.clone(),
            arrived: 0,
            is_ended: false,
            is_closed: false,
            meter: Meter::new(settings.bus),
            control,
            is_unshown: true,
            steps: 0,
        }
    }

    /// Does a batch of all pending work. Returns whether there was any.
    pub fn step(&mut self) -> bool {
        let mut is_busy = self.drain();
        is_busy |= self.receive();
        is_busy |= self
            .sender
            .as_mut()
            .is_some_and(|sender| sender.step(&mut *self.wire, &mut self.meter));
        self.is_unshown |= is_busy;
        self.steps = self.steps.wrapping_add(1);
        if self.is_unshown {
            let is_over = self.is_ended || self.control.is_stopped.load(Acquire);
            if is_over && !self.is_closed {
                self.is_closed = true;
                self.wire.close();
            }
            for queue in &mut self.queues {
                queue.counts.is_over = u64::from(is_over && queue.is_empty());
                queue.publish(&mut self.meter);
            }
        }
        if self.is_unshown && (!is_busy || self.steps.is_multiple_of(SHOWN_EVERY)) {
            self.show_bus();
            self.is_unshown = is_busy;
        }
        is_busy
    }

    /// Steps until the card is dropped.
    pub(crate) fn run(&mut self) {
        let (mut idle, mut was_stopped) = (0_u32, false);
        while !self.control.is_over.load(Relaxed) {
            let is_stopped = self.control.is_stopped.load(Acquire);
            if is_stopped && !was_stopped {
                (was_stopped, self.is_unshown) = (true, true);
            }
            if self.step() {
                idle = 0;
            } else {
                idle = idle.saturating_add(1);
                pause(idle);
            }
        }
    }

    /// Reports the end after a panic: its packets are lost by name.
    pub(crate) fn give_up(&mut self) {
        for queue in &mut self.queues {
            queue.give_up(&mut self.meter);
        }
        self.show_bus();
    }

    /// Publishes the bus account so far.
    pub(crate) fn show_bus(&mut self) {
        self.meter.settle();
        *self.control.bus.lock().unwrap_or_else(PoisonError::into_inner) = self.meter.account;
    }

    fn drain(&mut self) -> bool {
        let mut is_busy = false;
        for queue in &mut self.queues {
            queue.look();
            is_busy |= queue.drain(&mut self.meter);
        }
        is_busy
    }

    /// Returns how many frames to take from the wire now.
    fn budget(&mut self) -> u64 {
        if self.is_ended || self.queues.is_empty() || self.control.is_stopped.load(Acquire) {
            return 0;
        }
        if self.line.is_timed() || !self.wire.can_wait() {
            let now_ns = if self.line.is_timed() { clock::monotonic_ns() } else { 0 };
            return self.line.due(now_ns, BATCH);
        }
        let room = |queue: &ReceiveQueue| match queue.is_restarting() {
            true => 0,
            false => queue.room(self.longest),
        };
        self.queues.iter().map(room).min().unwrap_or(0).min(BATCH)
    }

    fn receive(&mut self) -> bool {
        let budget = self.budget();
        if budget == 0 {
            return false;
        }
        let Self { wire, queues, spreader, meter, .. } = self;
        let arrived = wire.arrive(budget);
        let (frames, number) = (arrived.frames.len() as u64, self.arrived);
        let has_faults = self.link_down.start < number + frames && number < self.link_down.end;
        let link_down = if has_faults { self.link_down.clone() } else { 0..0 };
        let has_metadata = queues.iter().any(ReceiveQueue::has_metadata);
        let mut intake = Arrivals {
            is_hashing: self.is_hashing,
            has_metadata,
            longest: self.longest,
            queues,
            spreader,
            meter,
            link_down,
            number,
        };
        let bytes = intake.take(&arrived.frames);
        self.line.advance(frames, bytes);
        self.is_unshown |= arrived.state == WireState::Ended && !self.is_ended;
        self.is_ended |= arrived.state == WireState::Ended;
        self.arrived += frames;
        if self.arrived >= self.restart_after {
            self.restart_after = u64::MAX;
            self.queues.iter_mut().for_each(ReceiveQueue::restart);
        }
        frames > 0
    }
}

/// Spins for a while, then yields the core.
fn pause(idle: u32) {
    if idle < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
}

/// Sets a flag for the device's thread, and publishes all earlier writes.
pub(crate) fn raise(flag: &AtomicBool) {
    flag.store(true, Release);
}

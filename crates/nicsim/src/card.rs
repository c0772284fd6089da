//! A complete card: memory, device, drivers, and the device's thread.
//!
//! ```text
//!   Room::create      memory or logs             (of both cards, if one sends the other's packets)
//!   Assembly::new     device + drivers, which a test can step without a thread
//!   Assembly::start   starts the device's thread: a Card, which ends it when dropped
//! ```

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::thread::{self, JoinHandle};

use burstline_log::{
    AttachError, CreateError, Log, LogConfig, MAX_SEGMENT_BYTES, MAX_WINDOW, MIN_SEGMENT_BYTES,
    MIN_SEGMENTS, Policy, Reader, ReaderConfig, Start, Writer,
};
use burstline_sys::memory::MemoryError;
use burstline_sys::privileges;

use crate::device::logs::Logs;
use crate::device::queue::{ReceiveQueue, Way as DeviceWay};
use crate::device::rings::Rings;
use crate::device::send::{Pointers, Sender};
use crate::device::{Control, Device, raise};
use crate::driver::{
    Area, BUFFERS, Contiguous, LogTransmitter, OwnBuffers, Receiver, Scattered, SharedRing,
    Transmitter, Way,
};
use crate::memory::HostMemory;
use crate::meter::BusAccount;
use crate::pcie::Bus;
use crate::ring::Ring;
use crate::trace::Trace;
use crate::wire::Wire;
use crate::{Mode, Settings};

/// Most readers of a queue's log: the driver, a device that sends it, and an observer.
const READERS: usize = 3;

/// Rates of a line in bit/s. The slowest Ethernet still empties its rings within seconds at the end
/// of a job.
const LINES: std::ops::RangeInclusive<f64> = 1e7..=1e12;

/// Segments of a queue's log, up to 16 GiB of 256 KiB each.
const SEGMENTS: std::ops::RangeInclusive<usize> = MIN_SEGMENTS..=1 << 16;

/// Why a card cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CardError {
    /// Not enough memory, or none of this kind.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// A queue's log could not be made.
    #[error(transparent)]
    Log(#[from] CreateError),
    /// A queue's log could not be read.
    #[error(transparent)]
    Attach(#[from] AttachError),
    /// The device's thread could not be started.
    #[error("starting the thread of a simulated card: {0}")]
    Thread(#[source] io::Error),
    /// An invalid setting.
    #[error("{what} of {value}: {allowed}")]
    Setting {
        /// Name of the setting.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The allowed values.
        allowed: &'static str,
    },
}

impl Settings {
    /// Fails on the first invalid setting.
    ///
    /// # Errors
    /// [`CardError::Setting`], with the numbers.
    pub fn check(&self) -> Result<(), CardError> {
        let powers = |least: u64, most: u64| {
            move |value: u64| value.is_power_of_two() && (least..=most).contains(&value)
        };
        let ring = powers(1, 32_768)(self.ring.into());
        let buffer = powers(256, 16_384)(self.buffer.into());
        let line = self.line_bits_per_s.unwrap_or(1e9);
        let windows = 1..=MAX_WINDOW;
        let (least, most) = (MIN_SEGMENT_BYTES as u64, MAX_SEGMENT_BYTES as u64);
        let segment = powers(least, most)(self.segment as u64);
        let segments = self.log_bytes / self.segment.max(1);
        let rows = [
            ("queues", self.queues as u64, (1..=16).contains(&self.queues), "1 to 16"),
            ("ring", self.ring.into(), ring, "a power of two from 1 to 32768"),
            ("spare", self.spare().into(), self.spare() <= 1 << 20, "up to 1048576"),
            ("window", self.window as u64, windows.contains(&self.window), "1 to 8"),
            ("buffer", self.buffer.into(), buffer, "a power of two from 256 to 16384"),
            ("segment", self.segment as u64, segment, "a power of two from 4096 to 2097152"),
            (
                "log",
                self.log_bytes as u64,
                SEGMENTS.contains(&segments),
                "room for 3 to 65536 segments",
            ),
            ("mtu", self.longest as u64, (60..=16_128).contains(&self.longest), "60 to 16128"),
            ("rate", line as u64, LINES.contains(&line), "10 Mbit/s to 1 Tbit/s"),
            (
                "fifo",
                self.fifo as u64,
                (self.longest + 16..=1 << 30).contains(&(self.fifo / self.queues.max(1))),
                "room for one longest frame in each queue, up to 1 GiB",
            ),
        ];
        let wrong = rows.into_iter().find(|&(_, _, is_right, _)| !is_right);
        wrong.map_or(Ok(()), |(what, value, _, allowed)| {
            Err(CardError::Setting { what, value, allowed })
        })
    }
}

/// The memory for a card's packets, laid out according to its settings.
pub struct Room {
    settings: Settings,
    memory: Option<Arc<HostMemory>>,
    logs: Vec<LogEnds>,
    own_send: Option<u32>,
    receives: bool,
}

/// A log of a card, with both its ends.
struct LogEnds {
    log: Log,
    writer: Writer,
    reader: Reader,
}

impl Room {
    /// Allocates memory according to `settings`. With `copies_to_send`, also for copies of packets
    /// to send; without `receives`, only for those.
    ///
    /// # Errors
    /// See [`CardError`].
    pub fn create(
        settings: &Settings,
        receives: bool,
        copies_to_send: bool,
    ) -> Result<Self, CardError> {
        settings.check()?;
        let queues = if receives { settings.queues } else { 0 };
        let mut room = Self {
            settings: settings.clone(),
            memory: None,
            logs: Vec::new(),
            own_send: None,
            receives,
        };
        if settings.mode == Mode::Contiguous {
            let count = queues + usize::from(copies_to_send);
            let logs = (0..count).map(|number| log(settings, number));
            room.logs = logs.collect::<Result<_, _>>()?;
            return Ok(room);
        }
        let receiving = area_bytes(settings) * queues as u64;
        let sending = u64::from(settings.ring) * u64::from(settings.buffer);
        let bytes = receiving + if copies_to_send { sending } else { 0 };
        let most = u64::from(u32::MAX);
        if bytes > most {
            let allowed = "all buffers of all queues, spare ones included, in 4 GiB";
            return Err(CardError::Setting { what: "buffers", value: bytes, allowed });
        }
        let memory = HostMemory::create(&settings.name, (bytes as usize).max(1))?;
        room.memory = Some(Arc::new(memory));
        room.own_send = copies_to_send.then_some(receiving as u32);
        Ok(room)
    }

    /// Returns the scattered buffers.
    pub fn memory(&self) -> Option<&Arc<HostMemory>> {
        self.memory.as_ref()
    }

    /// Attaches a reader to queue 0's log, for another card that sends it.
    ///
    /// # Errors
    /// The log has no free seat.
    pub fn reader(&self) -> Option<Result<Reader, AttachError>> {
        self.logs.first().map(|ends| ends.log.attach(every_packet(1)))
    }
}

/// Returns the bytes of memory for a queue's buffers.
fn area_bytes(settings: &Settings) -> u64 {
    Scattered::area_bytes(settings.ring, settings.spare(), settings.buffer)
}

fn log(settings: &Settings, number: usize) -> Result<LogEnds, CardError> {
    let config = LogConfig {
        name: format!("{}-{number}", settings.name),
        bytes: settings.log_bytes,
        segment_bytes: settings.segment,
        max_readers: READERS,
        ..LogConfig::default()
    };
    let (log, writer) = Log::create(config)?;
    let reader = log.attach(every_packet(settings.window))?;
    Ok(LogEnds { log, writer, reader })
}

/// Configures a reader that must not miss a packet: the device waits, and its FIFO overflows.
fn every_packet(window: usize) -> ReaderConfig {
    let (policy, start) = (Policy::Lossless, Start::Segment);
    ReaderConfig { policy, start, window }
}

/// The packets that a card sends.
pub enum Sending {
    /// Nothing.
    Nothing,
    /// Packets that are copied into its own room.
    Copies,
    /// Packets in another card's buffers.
    Lying(Arc<HostMemory>),
    /// Packets of another card's log.
    Log(Box<Reader>),
}

/// The driver's end of sending.
pub enum Transmit {
    /// No sending.
    Nothing,
    /// Through descriptors.
    Ring(Transmitter),
    /// Through a log.
    Log(Box<LogTransmitter>),
}

/// A device and its drivers, without a thread.
pub struct Assembly {
    /// The device.
    pub device: Device,
    /// One driver per receive queue.
    pub receivers: Vec<Receiver>,
    /// The driver of the transmit queue.
    pub transmit: Transmit,
    control: Arc<Control>,
    bus: Bus,
    name: String,
}

impl Assembly {
    /// Assembles a card with the settings of its room. Its packets have the interface `port`, on
    /// all queues.
    pub fn new(
        room: Room,
        wire: Box<dyn Wire>,
        sending: Sending,
        port: u8,
        trace: Option<&Trace>,
    ) -> Self {
        let control = Arc::new(Control::default());
        let Room { settings, memory, mut logs, own_send, receives } = room;
        let copies = match sending {
            Sending::Copies => logs.pop(),
            _ => None,
        };
        let part = Parts { settings: &settings, control: &control, trace };
        let (transmit, sender) = part.sending(sending, memory.as_ref(), own_send, copies);
        let (mut queues, mut receivers) = (Vec::new(), Vec::new());
        if let Some(memory) = memory.filter(|_| receives) {
            for number in 0..settings.queues {
                let (queue, receiver) = part.rings(&memory, number, port);
                queues.push(queue);
                receivers.push(receiver);
            }
        }
        for (number, log) in logs.into_iter().enumerate() {
            let (queue, receiver) = part.log(log, number, port);
            queues.push(queue);
            receivers.push(receiver);
        }
        let device = Device::new(&settings, wire, queues, sender, Arc::clone(&control));
        let (bus, name) = (settings.bus, settings.name);
        Self { device, receivers, transmit, control, bus, name }
    }

    /// Starts the device's thread, which drops its capabilities: it parses packets, and its wire is
    /// untrusted.
    ///
    /// # Errors
    /// [`CardError::Thread`].
    pub fn start(self) -> Result<(Card, Vec<Receiver>, Transmit), CardError> {
        let Self { mut device, receivers, transmit, control, bus, name } = self;
        let builder = thread::Builder::new().name(name);
        let seen = Arc::clone(&control);
        let live = move || {
            let run = || privileges::give_up().map(|()| device.run());
            // State left by a panic is not used again: only counts are read.
            if !matches!(catch_unwind(AssertUnwindSafe(run)), Ok(Ok(()))) {
                let _ = catch_unwind(AssertUnwindSafe(|| device.give_up()));
                raise(&seen.is_dead);
            }
        };
        let thread = builder.spawn(live).map_err(CardError::Thread)?;
        Ok((Card { control, bus, thread: Some(thread) }, receivers, transmit))
    }

    /// Returns the bus account of a device that is stepped.
    pub fn bus_account(&mut self) -> BusAccount {
        self.device.show_bus();
        self.control.bus(&self.bus)
    }
}

struct Parts<'a> {
    settings: &'a Settings,
    control: &'a Arc<Control>,
    trace: Option<&'a Trace>,
}

impl Parts<'_> {
    fn fifo(&self) -> usize {
        self.settings.fifo / self.settings.queues
    }

    fn rings(&self, memory: &Arc<HostMemory>, number: usize, port: u8) -> (ReceiveQueue, Receiver) {
        let Settings { mode, ring, buffer, longest, .. } = *self.settings;
        let trace = self.trace.filter(|_| number == 0).cloned();
        let start = (area_bytes(self.settings) * number as u64) as u32;
        let ring = Arc::new(Ring::new(ring));
        let rings = Rings::new(mode, Arc::clone(&ring), Arc::clone(memory), buffer);
        let way = DeviceWay::Rings(Box::new(rings));
        let (queue, shown) = ReceiveQueue::new(way, self.fifo(), longest, trace.clone());
        let control = Arc::clone(self.control);
        let shared = SharedRing { ring, memory: Arc::clone(memory) };
        let area = Area { start, buffer_bytes: buffer, spare: self.settings.spare() };
        let driver = Scattered::new(mode, shared, area, Arc::clone(&control), trace);
        (queue, Receiver::new(Way::Scattered(Box::new(driver)), shown, control, port))
    }

    fn log(&self, ends: LogEnds, number: usize, port: u8) -> (ReceiveQueue, Receiver) {
        let Settings { segment, longest, .. } = *self.settings;
        let LogEnds { log, writer, reader } = ends;
        let trace = self.trace.filter(|_| number == 0).cloned();
        let memory = Arc::new(HostMemory::of_log(log));
        let ring = Arc::new(Ring::new(BUFFERS));
        let logs = Logs::new(Arc::clone(&ring), memory, segment);
        let way = DeviceWay::Logs(Box::new(logs));
        let (queue, shown) = ReceiveQueue::new(way, self.fifo(), longest, trace.clone());
        let control = Arc::clone(self.control);
        let driver = Contiguous::new(ring, writer, reader, Arc::clone(&control), port, trace);
        (queue, Receiver::new(Way::Contiguous(Box::new(driver)), shown, control, port))
    }

    fn sending(
        &self,
        sending: Sending,
        memory: Option<&Arc<HostMemory>>,
        own_send: Option<u32>,
        copies: Option<LogEnds>,
    ) -> (Transmit, Option<Sender>) {
        let Settings { ring, buffer, .. } = *self.settings;
        match (sending, copies, memory) {
            (Sending::Nothing, ..) => (Transmit::Nothing, None),
            (Sending::Log(reader), ..) => self.send_log(reader, None),
            (Sending::Copies, Some(LogEnds { writer, reader, .. }), _) => {
                self.send_log(Box::new(reader), Some(writer))
            }
            (Sending::Copies, None, Some(memory)) => {
                let own = own_send.map(|start| OwnBuffers { start, bytes: buffer });
                self.send_ring(ring, memory, own)
            }
            (Sending::Copies, None, None) => (Transmit::Nothing, None),
            (Sending::Lying(memory), ..) => self.send_ring(ring, &memory, None),
        }
    }

    fn send_ring(
        &self,
        ring: u32,
        memory: &Arc<HostMemory>,
        own: Option<OwnBuffers>,
    ) -> (Transmit, Option<Sender>) {
        let Settings { mode, line_bits_per_s: line, .. } = *self.settings;
        let (ring, trace) = (Arc::new(Ring::new(ring)), self.trace.cloned());
        let sender = Sender::ring(Arc::clone(&ring), Arc::clone(memory), line, trace.clone());
        let shared = SharedRing { ring, memory: Arc::clone(memory) };
        let driver = Transmitter::new(mode, shared, own, Arc::clone(self.control), trace);
        (Transmit::Ring(driver), Some(sender))
    }

    fn send_log(&self, reader: Box<Reader>, writer: Option<Writer>) -> (Transmit, Option<Sender>) {
        let (pointers, trace) = (Arc::new(Pointers::default()), self.trace.cloned());
        let line = self.settings.line_bits_per_s;
        let sender = Sender::log(reader, Arc::clone(&pointers), line, trace.clone());
        let control = Arc::clone(self.control);
        let driver = LogTransmitter::new(writer, pointers, control, trace);
        (Transmit::Log(Box::new(driver)), Some(sender))
    }
}

/// A running card.
pub struct Card {
    control: Arc<Control>,
    bus: Bus,
    thread: Option<JoinHandle<()>>,
}

impl Card {
    /// Returns the bus account: exact once the device is idle.
    pub fn bus_account(&self) -> BusAccount {
        self.control.bus(&self.bus)
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Returns whether the device has died: its thread has panicked, if that does not abort the
    /// program. Its packets are lost by name, and no more are received or sent.
    pub fn is_dead(&self) -> bool {
        self.control.is_dead.load(Acquire)
    }
}

impl Drop for Card {
    fn drop(&mut self) {
        self.control.is_over.store(true, Relaxed); // the join orders everything
        if let Some(thread) = self.thread.take() {
            // The thread catches its panics.
            let _ = thread.join();
        }
    }
}

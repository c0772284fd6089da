//! The rings of a device, a pair for each queue, and the operations of packet threads on them.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Bells, Berth};

/// Size of a packet's offload header: a `virtio_net_hdr` without the number of buffers. Source:
/// Virtual I/O Device (VIRTIO) Version 1.1, section 5.1.6.
pub const OFFLOAD_BYTES: usize = 10;

/// The length of the longest packet, in bytes; a tap device has the same limit.
pub const LONGEST: usize = 65_536 + 18;

/// The most events that are kept: as many as the account of a port reports.
const EVENTS_MAX: usize = 1000;

/// The result of taking a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A packet was copied to the room.
    Packet {
        /// Its length.
        bytes: usize,
        /// Whether its checksum must be filled in.
        is_partial: bool,
        /// Whether it must be segmented.
        is_merged: bool,
    },
    /// The packet was invalid and was given back.
    Refused(Refusal),
    /// There is no packet.
    Nothing,
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is empty.
    Short,
    /// It is longer than [`LONGEST`].
    Long,
    /// Its descriptors make no sense.
    Malformed,
}

/// The result of sending a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the peer's memory.
    Done,
    /// The peer has too few free buffers.
    NoRoom,
    /// No buffer of the peer is long enough, and the peer cannot use several; or it does not accept
    /// packets that need offloads.
    Unfit,
}

/// A ring that the peer fills.
pub trait FromPeer: Send {
    /// Takes the next packet into `room`, which has [`LONGEST`] bytes.
    fn take(&mut self, room: &mut [u8]) -> Taken;

    /// Gives taken packets back. Returns their number, according to the index that the peer sees.
    fn publish(&mut self) -> u16;

    /// Returns the slots that wait to be taken, and the slots of the ring, as statistics.
    fn fill(&mut self) -> (u16, u16);

    /// Asks the peer to ring when it sends. Returns whether a packet is already there.
    fn arm(&mut self) -> bool;

    /// Asks the peer not to ring.
    fn disarm(&mut self);
}

/// A ring that this side fills.
pub trait ToPeer: Send {
    /// Copies a packet to the peer; `offload` is zeros if the packet needs no offload.
    fn put(&mut self, packet: &[u8], offload: &[u8; OFFLOAD_BYTES]) -> Put;

    /// Publishes the packets put so far.
    fn publish(&mut self);

    /// Returns whether the peer currently accepts packets.
    fn is_live(&self) -> bool;
}

/// The two rings of a queue.
#[derive(Debug)]
pub struct Lane<F, T> {
    /// The packets from the peer.
    pub from: Berth<F>,
    /// The packets to the peer.
    pub to: Berth<T>,
}

/// State shared by the control thread and the packet threads of a device.
#[derive(Debug)]
pub struct Lanes<F, T> {
    lanes: Vec<Lane<F, T>>,
    bells: Bells,
    diary: Arc<Diary>,
}

impl<F, T> Lanes<F, T> {
    /// Creates this number of queues, without rings.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(queues: u16) -> io::Result<Self> {
        let lane = |_| Lane { from: Berth::default(), to: Berth::default() };
        let (bells, diary) = (Bells::new()?, Arc::default());
        Ok(Self { lanes: (0..queues).map(lane).collect(), bells, diary })
    }

    /// Returns the number of queues.
    pub fn queues(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the berths of a queue.
    #[inline]
    pub fn lane(&self, queue: usize) -> &Lane<F, T> {
        &self.lanes[queue]
    }

    /// Rung if the peer has sent on an armed ring, or if rings change.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Returns the record of events.
    pub fn diary(&self) -> &Arc<Diary> {
        &self.diary
    }
}

/// A record of events of a device's peers.
#[derive(Debug, Default)]
pub struct Diary {
    events: Mutex<Vec<String>>,
    peers: AtomicU64,
    left: AtomicU64,
}

impl Diary {
    pub(crate) fn come(&self) {
        self.peers.fetch_add(1, Relaxed); // statistics, like the next one
    }

    pub(crate) fn leave(&self) {
        self.left.fetch_add(1, Relaxed);
    }

    /// Returns the number of peers so far.
    pub fn peers(&self) -> u64 {
        self.peers.load(Relaxed)
    }

    /// Returns whether a peer is connected.
    pub fn has_peer(&self) -> bool {
        self.peers.load(Relaxed) > self.left.load(Relaxed)
    }

    /// Records an event.
    pub fn tell(&self, event: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    /// Returns the events so far, the oldest first.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

//! The rings of a device, a pair for each queue, and what packet threads do with them.

use std::io;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Bells, Berth};

/// Bytes of what a device still has to do to a packet: a `virtio_net_hdr` without the number of
/// buffers. Source: Virtual I/O Device (VIRTIO) Version 1.1, section 5.1.6.
pub const OFFLOAD_BYTES: usize = 10;

/// Bytes of the longest packet: what a tap device has at most, too.
pub const LONGEST: usize = 65_536 + 18;

/// The most events that are kept for people.
const EVENTS_MAX: usize = 100;

/// The outcome of looking for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// A packet of this length is in the room.
    Packet {
        /// Its length.
        bytes: usize,
        /// Its checksum must be filled in.
        is_partial: bool,
        /// It must be cut into segments.
        is_merged: bool,
    },
    /// It was given back, because of what was wrong with it.
    Refused(Refusal),
    /// There is none.
    Nothing,
}

/// What is wrong with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Nothing is in it.
    Short,
    /// It is longer than [`LONGEST`].
    Long,
    /// Its descriptors make no sense.
    Malformed,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is in the peer's memory.
    Done,
    /// The peer has too few buffers now.
    NoRoom,
    /// No buffer of the peer is long enough, and it cannot use several; or it does not take
    /// packets that are unfinished.
    Unfit,
}

/// A ring that the peer fills.
pub trait FromPeer: Send {
    /// Takes the next packet into `room`, which has [`LONGEST`] bytes.
    fn take(&mut self, room: &mut [u8]) -> Taken;

    /// Gives back what was taken. Returns how many that were, by the index that the peer sees.
    fn publish(&mut self) -> u16;

    /// Slots that wait to be taken, and slots that the ring has: a figure.
    fn fill(&mut self) -> (u16, u16);

    /// Asks the peer to ring when it sends. Returns whether something is there already.
    fn arm(&mut self) -> bool;

    /// Asks it not to ring.
    fn disarm(&mut self);
}

/// A ring that we fill.
pub trait ToPeer: Send {
    /// Copies a packet to the peer; `offload` is zeros if the packet needs nothing.
    fn put(&mut self, packet: &[u8], offload: &[u8; OFFLOAD_BYTES]) -> Put;

    /// Shows the peer what was put.
    fn publish(&mut self);

    /// Whether the peer takes packets now.
    fn is_live(&self) -> bool;
}

/// The two rings of a queue.
#[derive(Debug)]
pub struct Lane<F, T> {
    /// What the peer sends.
    pub from: Berth<F>,
    /// What it gets.
    pub to: Berth<T>,
}

/// What the control thread and the packet threads of a device share.
#[derive(Debug)]
pub struct Lanes<F, T> {
    lanes: Vec<Lane<F, T>>,
    bells: Bells,
    diary: Arc<Diary>,
}

impl<F, T> Lanes<F, T> {
    /// As many queues, without rings.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn new(queues: u16) -> io::Result<Self> {
        let lane = |_| Lane { from: Berth::default(), to: Berth::default() };
        let (bells, diary) = (Bells::new()?, Arc::default());
        Ok(Self { lanes: (0..queues).map(lane).collect(), bells, diary })
    }

    /// How many queues there are.
    pub fn queues(&self) -> usize {
        self.lanes.len()
    }

    /// The berths of a queue.
    #[inline]
    pub fn lane(&self, queue: usize) -> &Lane<F, T> {
        &self.lanes[queue]
    }

    /// Rung when the peer has sent something by a ring that was armed, or when rings change.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// What has happened.
    pub fn diary(&self) -> &Arc<Diary> {
        &self.diary
    }
}

/// What has happened to the peers of a device.
#[derive(Debug, Default)]
pub struct Diary {
    events: Mutex<Vec<String>>,
    peers: AtomicU64,
    left: AtomicU64,
}

impl Diary {
    pub(crate) fn come(&self) {
        self.peers.fetch_add(1, Relaxed); // a figure for people, as the next
    }

    pub(crate) fn leave(&self) {
        self.left.fetch_add(1, Relaxed);
    }

    /// Peers that have come so far.
    pub fn peers(&self) -> u64 {
        self.peers.load(Relaxed)
    }

    /// Whether one is there.
    pub fn has_peer(&self) -> bool {
        self.peers.load(Relaxed) > self.left.load(Relaxed)
    }

    /// Notes an event.
    pub fn tell(&self, event: String) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.len() < EVENTS_MAX {
            events.push(event);
        }
    }

    /// What has happened so far, the oldest first.
    pub fn events(&self) -> Vec<String> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

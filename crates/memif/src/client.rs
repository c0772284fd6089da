//! The client's side of a connection: owns the memory, and announces the layout.
//!
//! ```text
//!   | ring S2M 0 | .. | ring M2S 0 | .. | buffers of S2M 0 | .. | buffers of M2S 0 | .. |
//! ```

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use burstline_peer::{Bell, FromPeer as _, PeerMemory};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};

use crate::device::{Answer, Device, Session};
use crate::lane::{Buffers, FromPeer, ToPeer};
use crate::message::{Fault, Message, VERSION};
use crate::ring::{Desc, Ring, Role, ring_bytes};

/// Bytes of a buffer. Source: the guide's default, `bsize`.
const BUFFER_BYTES: usize = 2048;
const PAGE_BYTES: usize = 4096;
/// Alignment of rings, so that their indices share a cache line with nothing else.
const RING_ALIGNMENT: usize = 128;

/// The state of one connection.
pub(crate) struct ClientSession {
    device: Arc<Device>,
    /// Messages still to be sent, each after an acknowledgement.
    to_say: VecDeque<(Message, Option<OwnedFd>)>,
    lanes: Vec<(FromPeer, ToPeer)>,
    waited_for: Vec<Bell>,
    agreed: String,
    is_connected: bool,
}

impl ClientSession {
    pub(crate) fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            to_say: VecDeque::new(),
            lanes: Vec::new(),
            waited_for: Vec::new(),
            agreed: String::new(),
            is_connected: false,
        }
    }

    /// Creates memory and rings within the server's limits, and queues their announcements.
    fn build(&mut self, queues: u16, log2_slots: u8) -> Result<(), Fault> {
        let slots = 1u16 << log2_slots;
        let ring = ring_bytes(slots).next_multiple_of(RING_ALIGNMENT);
        let rings = 2 * usize::from(queues);
        let buffers = (rings * ring).next_multiple_of(PAGE_BYTES);
        let of_ring = usize::from(slots) * BUFFER_BYTES;
        let bytes = (buffers + rings * of_ring) as u64;
        let failed = |error: io::Error| Fault::Io { what: "make shared memory", error };
        let file = memory(bytes).map_err(failed)?;
        let memory = Arc::new(PeerMemory::map(file.as_fd(), bytes)?);
        let options = &self.device.options;
        self.to_say.push_back((Message::Init { version: VERSION, id: options.id, mode: 0 }, None));
        self.to_say.push_back((Message::AddRegion { index: 0, bytes }, Some(file)));
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for number in 0..rings {
            let (is_to_server, index) = (number < rings / 2, (number % usize::from(queues)) as u16);
            let offset = number * ring;
            let window = memory.window(offset, ring_bytes(slots), 8);
            let place = Fault::RingPlace { index, region: 0, offset: offset as u32, log2_slots };
            let mut one = Ring::new(window.ok_or(place)?, slots, Role::Client);
            let at = buffers + number * of_ring;
            prepare(&one, at);
            let bell = Bell::new().map_err(failed)?;
            let file = bell.as_fd().try_clone_to_owned().map_err(failed)?;
            let own = Buffers::Own { memory: Arc::clone(&memory), at, bytes: BUFFER_BYTES as u32 };
            match is_to_server {
                true => {
                    one.bell = Some(bell);
                    to.push(ToPeer::new(one, own));
                }
                false => {
                    self.device.lanes().bells().add(&bell).map_err(failed)?;
                    self.waited_for.push(bell);
                    from.push(FromPeer::new(one, own));
                }
            }
            let offset = offset as u32;
            let message = Message::AddRing { is_to_server, index, region: 0, offset, log2_slots };
            self.to_say.push_back((message, Some(file)));
        }
        self.to_say.push_back((Message::Connect, None));
        self.lanes = from.into_iter().zip(to).collect();
        self.agreed = format!("{rings} rings of {slots} slots, {} KiB of memory", bytes >> 10);
        Ok(())
    }

    fn next(&mut self, message: &Message) -> Result<Answer, Fault> {
        let (message, file) = self.to_say.pop_front().ok_or(Fault::Order(message.name()))?;
        Ok(Answer { message: Some(message), file })
    }
}

impl Session for ClientSession {
    fn greeting(&self) -> Option<Message> {
        None
    }

    fn handle(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Answer, Fault> {
        if !files.is_empty() {
            let (message, descriptors) = (message.name(), files.len());
            return Err(Fault::Descriptors { message, descriptors, expected: 0 });
        }
        let options = &self.device.options;
        match &message {
            Message::Hello { versions: [low, high], ring_max, log2_slots_max, .. }
                if self.agreed.is_empty() =>
            {
                if !(*low..=*high).contains(&VERSION) {
                    return Err(Fault::Version(*high));
                }
                let most = ring_max[0].min(ring_max[1]).saturating_add(1);
                let (queues, slots) =
                    (options.queues.min(most), options.log2_slots.min(*log2_slots_max));
                self.build(queues, slots)?;
                self.next(&message)
            }
            Message::Acknowledge => self.next(&message),
            Message::Connected if self.to_say.is_empty() && !self.is_connected => {
                self.is_connected = true;
                for (queue, (mut from, to)) in self.lanes.drain(..).enumerate() {
                    // All buffers of the ring are the server's to fill. Not earlier: DPDK's server
                    // sets all indices to 0 when it connects.
                    from.publish();
                    let lane = self.device.lanes().lane(queue);
                    lane.from.change(|berth| *berth = Some(Box::new(from)));
                    lane.to.change(|berth| *berth = Some(Box::new(to)));
                }
                self.device.lanes().bells().raise();
                Ok(Answer::default())
            }
            Message::Disconnect { reason } => Err(Fault::Left(reason.clone())),
            _ => Err(Fault::Order(message.name())),
        }
    }

    fn agreed(&self) -> Option<String> {
        self.is_connected.then(|| self.agreed.clone())
    }
}

impl Drop for ClientSession {
    fn drop(&mut self) {
        self.device.clear(&self.waited_for);
    }
}

/// Creates memory that nobody can truncate.
fn memory(bytes: u64) -> io::Result<OwnedFd> {
    let file = memfd_create("memif", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, bytes)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// Prepares a ring whose slots have their buffers.
fn prepare(ring: &Ring, buffers: usize) {
    ring.format();
    for slot in 0..ring.slots() {
        let offset = (buffers + usize::from(slot) * BUFFER_BYTES) as u32;
        ring.set_desc(slot, Desc { flags: 0, region: 0, bytes: BUFFER_BYTES as u32, offset });
    }
}

//! The server's side of a connection: the client announces memory and rings.
//!
//! ```text
//!   -> hello  <- init -> ack  <- region -> ack ..  <- ring -> ack ..  <- connect -> connected
//! ```

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use burstline_peer::{Bell, PeerMemory};

use crate::LOG2_SLOTS_MAX;
use crate::device::{Answer, Device, Session};
use crate::lane::{Buffers, FromPeer, ToPeer};
use crate::message::{Fault, Message, VERSION};
use crate::ring::{COOKIE, Ring, Role, ring_bytes};

const REGIONS_MAX: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The client has not chosen an interface yet.
    Greeted,
    /// The client announces regions and rings.
    Building,
    Connected,
}

/// The state of one connection.
#[derive(Debug)]
pub struct ServerSession {
    device: Arc<Device>,
    stage: Stage,
    regions: Vec<Arc<PeerMemory>>,
    /// Rings to the server and to the client, with their bells.
    to_server: Vec<(Ring, Bell)>,
    to_client: Vec<(Ring, Bell)>,
    /// Bells that packet threads wait for.
    waited_for: Vec<Bell>,
    agreed: String,
}

impl ServerSession {
    /// Creates the session of a new connection.
    pub fn new(device: Arc<Device>) -> Self {
        Self {
            device,
            stage: Stage::Greeted,
            regions: Vec::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
            waited_for: Vec::new(),
            agreed: String::new(),
        }
    }

    /// Handles a message. Returns the answer.
    ///
    /// # Errors
    /// [`Fault`], if the connection has to end (M3).
    pub fn hear(&mut self, message: Message, files: Vec<OwnedFd>) -> Result<Answer, Fault> {
        self.handle(message, files)
    }

    fn add_region(&mut self, index: u16, bytes: u64, file: OwnedFd) -> Result<(), Fault> {
        let (index, expected) = (usize::from(index), self.regions.len());
        if index != expected || expected >= REGIONS_MAX {
            return Err(Fault::Index { what: "region", index, expected });
        }
        self.regions.push(Arc::new(PeerMemory::map(file.as_fd(), bytes)?));
        Ok(())
    }

    fn add_ring(&mut self, message: &Message, file: OwnedFd) -> Result<(), Fault> {
        let &Message::AddRing { is_to_server, index, region, offset, log2_slots } = message else {
            return Err(Fault::Order(message.name()));
        };
        let rings = if is_to_server { &mut self.to_server } else { &mut self.to_client };
        let (at, expected) = (usize::from(index), rings.len());
        if at != expected || expected >= self.device.lanes().queues() {
            return Err(Fault::Index { what: "ring", index: at, expected });
        }
        let window = self.regions.get(usize::from(region)).filter(|_| log2_slots <= LOG2_SLOTS_MAX);
        let slots = 1u16 << log2_slots.min(LOG2_SLOTS_MAX);
        let window = window.and_then(|region| region.window(offset as usize, ring_bytes(slots), 8));
        let window = window.ok_or(Fault::RingPlace { index, region, offset, log2_slots })?;
        let ring = Ring::new(window, slots, Role::Server);
        if ring.cookie() != COOKIE {
            let cookie = ring.cookie();
            return Err(Fault::Cookie { index: at, cookie, expected: COOKIE });
        }
        let bell = Bell::adopt(file);
        let bell = bell.map_err(|error| Fault::Io { what: "a ring's bell", error })?;
        rings.push((ring, bell));
        Ok(())
    }

    /// Puts the rings into their berths.
    fn connect(&mut self) -> Result<(), Fault> {
        let (count, regions) = (self.to_server.len() + self.to_client.len(), self.regions.len());
        let slots = self.to_server.first().map_or(0, |(ring, _)| ring.slots());
        self.agreed = format!("{count} rings of {slots} slots, {regions} regions of memory");
        let regions = Arc::new(std::mem::take(&mut self.regions));
        let lanes = self.device.lanes();
        for (queue, (ring, bell)) in self.to_server.drain(..).enumerate() {
            ring.set_polling(true);
            let added = lanes.bells().add(&bell);
            added.map_err(|error| Fault::Io { what: "wait for a ring's bell", error })?;
            self.waited_for.push(bell);
            let buffers = Buffers::Described(Arc::clone(&regions));
            let ring = FromPeer::new(ring, buffers);
            lanes.lane(queue).from.change(|berth| *berth = Some(Box::new(ring)));
        }
        for (queue, (mut ring, bell)) in self.to_client.drain(..).enumerate() {
            ring.bell = Some(bell);
            let buffers = Buffers::Described(Arc::clone(&regions));
            let ring = ToPeer::new(ring, buffers);
            lanes.lane(queue).to.change(|berth| *berth = Some(Box::new(ring)));
        }
        lanes.bells().raise();
        self.stage = Stage::Connected;
        Ok(())
    }
}

impl Session for ServerSession {
    fn greeting(&self) -> Option<Message> {
        let rings = self.device.lanes().queues() as u16 - 1;
        Some(Message::Hello {
            versions: [VERSION; 2],
            region_max: REGIONS_MAX as u16 - 1,
            ring_max: [rings; 2],
            log2_slots_max: LOG2_SLOTS_MAX,
        })
    }

    fn handle(&mut self, message: Message, mut files: Vec<OwnedFd>) -> Result<Answer, Fault> {
        let is_building = self.stage == Stage::Building;
        let brings = matches!(message, Message::AddRegion { .. } | Message::AddRing { .. });
        let (expected, descriptors) = (usize::from(brings), files.len());
        if descriptors != expected {
            return Err(Fault::Descriptors { message: message.name(), descriptors, expected });
        }
        match (&message, files.pop()) {
            (Message::Init { version, id, mode }, _) if self.stage == Stage::Greeted => {
                let ours = self.device.options.id;
                match (*version, *id, *mode) {
                    (version, ..) if version != VERSION => return Err(Fault::Version(version)),
                    (_, wanted, _) if wanted != ours => return Err(Fault::Id { wanted, ours }),
                    (_, _, mode) if mode != 0 => return Err(Fault::Mode(mode)),
                    _ => self.stage = Stage::Building,
                }
            }
            (Message::AddRegion { index, bytes }, Some(file)) if is_building => {
                self.add_region(*index, *bytes, file)?;
            }
            (Message::AddRing { .. }, Some(file)) if is_building => {
                self.add_ring(&message, file)?;
            }
            (Message::Connect, _) if is_building => {
                self.connect()?;
                return Ok(Message::Connected.into());
            }
            (Message::Disconnect { reason }, _) => return Err(Fault::Left(reason.clone())),
            _ => return Err(Fault::Order(message.name())),
        }
        Ok(Message::Acknowledge.into())
    }

    fn agreed(&self) -> Option<String> {
        (self.stage == Stage::Connected).then(|| self.agreed.clone())
    }
}

impl Drop for ServerSession {
    fn drop(&mut self) {
        self.device.clear(&self.waited_for);
    }
}

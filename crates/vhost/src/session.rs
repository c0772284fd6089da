//! The state of a front-end's connection, and the handling of its messages.
//!
//! ```text
//!   features --> memory --> ring: size, addresses, base, bell --> kick: the ring is in its berth
//!                                                             <-- GET_VRING_BASE: taken out
//! ```
//!
//! A session is one connection. It changes rings only through their berths, so a packet thread sees
//! a ring either before or after a change.
//!
//! Source: vhost-user protocol, QEMU's docs/interop/vhost-user.rst.

use std::mem::take;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_peer::Bell;

use crate::device::Device;
use crate::features::{self, PROTOCOL, PROTOCOL_FEATURES, PROTOCOL_REPLY_ACK};
use crate::from_guest::FromGuest;
use crate::memory::{GuestMemory, REGION_BYTES, SLOTS_MAX, TABLE_MAX};
use crate::message::{Fault, Header, Message, u32_at, u64_at};
use crate::split::{Split, Tables, table_bytes};
use crate::to_guest::ToGuest;
use crate::vring::Vring;

/// Requests. Source: `VhostUserRequest`.
mod request {
    pub(super) const GET_FEATURES: u32 = 1;
    pub(super) const SET_FEATURES: u32 = 2;
    pub(super) const SET_OWNER: u32 = 3;
    pub(super) const RESET_OWNER: u32 = 4;
    pub(super) const SET_MEM_TABLE: u32 = 5;
    pub(super) const SET_VRING_NUM: u32 = 8;
    pub(super) const SET_VRING_ADDR: u32 = 9;
    pub(super) const SET_VRING_BASE: u32 = 10;
    pub(super) const GET_VRING_BASE: u32 = 11;
    pub(super) const SET_VRING_KICK: u32 = 12;
    pub(super) const SET_VRING_CALL: u32 = 13;
    pub(super) const SET_VRING_ERR: u32 = 14;
    pub(super) const GET_PROTOCOL_FEATURES: u32 = 15;
    pub(super) const SET_PROTOCOL_FEATURES: u32 = 16;
    pub(super) const GET_QUEUE_NUM: u32 = 17;
    pub(super) const SET_VRING_ENABLE: u32 = 18;
    pub(super) const GET_MAX_MEM_SLOTS: u32 = 36;
    pub(super) const ADD_MEM_REG: u32 = 37;
    pub(super) const REM_MEM_REG: u32 = 38;
}
use request::*;

/// The largest ring. Source: section 2.6 of Virtual I/O Device (VIRTIO) Version 1.1.
const RING_SIZE_MAX: u32 = 32_768;
/// In the number of a ring that has no bell.
const NO_DESCRIPTOR: u64 = 1 << 8;

/// The state of one connection.
#[derive(Debug)]
pub struct Session {
    device: Arc<Device>,
    features: u64,
    protocol: u64,
    memory: Arc<GuestMemory>,
    rings: Vec<Ring>,
}

/// The configuration of a ring.
#[derive(Debug, Default)]
struct Ring {
    size: u16,
    /// Addresses in the front-end: descriptors, used, available.
    places: Option<[u64; 3]>,
    base: u16,
    kick: Option<Bell>,
    /// The guest's bell; moves to the ring when that starts.
    call: Option<Bell>,
    is_enabled: bool,
    is_running: bool,
}

impl Session {
    /// Creates the session of a new connection.
    pub fn new(device: Arc<Device>) -> Self {
        let rings = (0..2 * device.lanes().queues()).map(|_| Ring::default()).collect();
        Self { device, features: 0, protocol: 0, memory: Arc::default(), rings }
    }

    /// Handles a message. Returns the reply, if one is due.
    ///
    /// # Errors
    /// [`Fault`], if the connection has to end (V4).
    pub fn handle(&mut self, message: Message) -> Result<Option<Vec<u8>>, Fault> {
        let Message { header, body, files } = message;
        let brings_files = [
            SET_MEM_TABLE,
            SET_VRING_KICK,
            SET_VRING_CALL,
            SET_VRING_ERR,
            ADD_MEM_REG,
            REM_MEM_REG,
        ];
        if !brings_files.contains(&header.request) {
            expect_files(&header, &files, 0)?;
        }
        let answer = match self.answer(&header, &body)? {
            Some(answer) => Some(answer),
            None => {
                self.carry_out(&header, &body, files)?;
                None
            }
        };
        let wants_reply = self.protocol & PROTOCOL_REPLY_ACK != 0 && header.needs_reply();
        Ok(match answer {
            Some(body) => Some(header.reply(&body)),
            None if wants_reply => Some(header.reply(&0u64.to_le_bytes())),
            None => None,
        })
    }

    /// Returns the answer to a query; `None` if the request is not a query.
    fn answer(&mut self, header: &Header, body: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        let number = match header.request {
            GET_FEATURES => self.device.features(),
            GET_PROTOCOL_FEATURES => PROTOCOL,
            GET_QUEUE_NUM => self.device.lanes().queues() as u64,
            GET_MAX_MEM_SLOTS => SLOTS_MAX as u64,
            GET_VRING_BASE => return self.stop_ring(header, body).map(Some),
            _ => return Ok(None),
        };
        Ok(Some(number.to_le_bytes().to_vec()))
    }

    fn carry_out(
        &mut self,
        header: &Header,
        body: &[u8],
        files: Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        let number = || header.exactly(body, 8).map(|body| u64_at(body, 0));
        match header.request {
            SET_FEATURES => self.set_features(number()?)?,
            SET_PROTOCOL_FEATURES => match number()? {
                wanted if wanted & !PROTOCOL == 0 => self.protocol = wanted,
                wanted => return Err(Fault::Features(wanted)),
            },
            SET_OWNER => {
                header.exactly(body, 0)?;
            }
            RESET_OWNER => self.stop(),
            SET_MEM_TABLE => self.set_memory(header, body, files)?,
            ADD_MEM_REG | REM_MEM_REG => self.change_region(header, body, files)?,
            SET_VRING_NUM => {
                let (index, size) = self.indexed(header, body)?;
                let is_size = size.is_power_of_two() && size <= RING_SIZE_MAX;
                let ring = &mut self.rings[index];
                if !is_size || ring.is_running {
                    return Err(Fault::RingSize { index: index as u32, size });
                }
                ring.size = size as u16;
            }
            SET_VRING_BASE => {
                let (index, base) = self.indexed(header, body)?;
                let wrong = Fault::Base { index: index as u32, base };
                self.rings[index].base = u16::try_from(base).map_err(|_| wrong)?;
            }
            SET_VRING_ENABLE => {
                let (index, is_enabled) = self.indexed(header, body)?;
                self.enable(index, is_enabled != 0);
            }
            SET_VRING_ADDR => self.set_places(header, body)?,
            SET_VRING_KICK => {
                let (index, bell) = self.bell(header, number()?, files)?;
                self.start(index, bell)?;
            }
            SET_VRING_CALL => {
                let (index, bell) = self.bell(header, number()?, files)?;
                self.set_call(index, bell);
            }
            // We never use this bell.
            SET_VRING_ERR => drop(self.bell(header, number()?, files)?),
            other => return Err(Fault::Unknown(other)),
        }
        Ok(())
    }

    /// Adds or removes a single region.
    fn change_region(
        &mut self,
        header: &Header,
        body: &[u8],
        mut files: Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        let region = &header.exactly(body, 8 + REGION_BYTES)?[8..];
        let memory = match header.request {
            // Some front-ends send the descriptor again.
            REM_MEM_REG => self.memory.without(region)?,
            _ => {
                expect_files(header, &files, 1)?;
                if self.memory.len() >= SLOTS_MAX {
                    return Err(Fault::Regions(self.memory.len() + 1));
                }
                self.memory.with(region, files.remove(0))?
            }
        };
        self.change_memory(memory);
        Ok(())
    }

    fn set_features(&mut self, wanted: u64) -> Result<(), Fault> {
        let before = self.features;
        if wanted & !self.device.features() != 0 {
            return Err(Fault::Features(wanted & !self.device.features()));
        }
        if wanted != before && self.rings.iter().any(|ring| ring.is_running) {
            return Err(Fault::Changed { before, now: wanted });
        }
        self.features = wanted;
        Ok(())
    }

    fn set_memory(
        &mut self,
        header: &Header,
        body: &[u8],
        files: Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        let wrong_size =
            |expected| Fault::Size { request: header.request, bytes: body.len(), expected };
        let count = if body.len() < 8 { return Err(wrong_size(8)) } else { u32_at(body, 0) };
        if !(1..=TABLE_MAX as u32).contains(&count) {
            return Err(Fault::Regions(count as usize));
        }
        let bytes = 8 + REGION_BYTES * count as usize;
        if body.len() < bytes {
            return Err(wrong_size(bytes));
        }
        expect_files(header, &files, count as usize)?;
        let mut memory = GuestMemory::default();
        for (region, file) in body[8..bytes].chunks(REGION_BYTES).zip(files) {
            memory = memory.with(region, file)?;
        }
        self.change_memory(memory);
        Ok(())
    }

    /// Moves running rings to the new memory; a ring that is not in it is stopped.
    fn change_memory(&mut self, memory: GuestMemory) {
        self.memory = Arc::new(memory);
        for index in 0..self.rings.len() {
            if self.rings[index].is_running {
                let tables = self.tables(index);
                if tables.is_err() {
                    self.rings[index].is_running = false;
                }
                let memory = Arc::clone(&self.memory);
                self.device.change(index, |ring| {
                    let Ok(tables) = tables else { return false };
                    ring.split.moved(tables);
                    (ring.memory, ring.near) = (memory, 0);
                    true
                });
            }
        }
    }

    /// Decodes a ring's number and another number.
    fn indexed(&self, header: &Header, body: &[u8]) -> Result<(usize, u32), Fault> {
        let body = header.exactly(body, 8)?;
        Ok((self.index(u32_at(body, 0))?, u32_at(body, 4)))
    }

    fn index(&self, index: u32) -> Result<usize, Fault> {
        let rings = self.rings.len();
        match (index as usize) < rings {
            true => Ok(index as usize),
            false => Err(Fault::Ring { index, rings }),
        }
    }

    /// Decodes a ring's number and its bell.
    fn bell(
        &self,
        header: &Header,
        number: u64,
        mut files: Vec<OwnedFd>,
    ) -> Result<(usize, Option<Bell>), Fault> {
        let index = self.index((number & 0xff) as u32)?;
        let expected = if number & NO_DESCRIPTOR != 0 { 0 } else { 1 };
        expect_files(header, &files, expected)?;
        let bell = files.pop().map(Bell::adopt).transpose();
        let what = "a ring's bell";
        Ok((index, bell.map_err(|error| Fault::Io { what, error })?))
    }

    fn set_places(&mut self, header: &Header, body: &[u8]) -> Result<(), Fault> {
        let body = header.exactly(body, 40)?;
        let index = self.index(u32_at(body, 0))?;
        // Descriptors, used, available; the last word is for a log that is not offered.
        let places = [8, 16, 24].map(|at| u64_at(body, at));
        let ring = &mut self.rings[index];
        let is_new = ring.places.replace(places) != Some(places);
        if ring.is_running && is_new {
            let tables = self.tables(index)?;
            self.device.change(index, |ring| {
                ring.split.moved(tables);
                true
            });
        }
        Ok(())
    }

    /// Finds the tables of a ring in the memory.
    fn tables(&self, index: usize) -> Result<Tables, Fault> {
        let ring = &self.rings[index];
        let (Some([descs, used, available]), true) = (ring.places, ring.size > 0) else {
            return Err(Fault::NotReady(index));
        };
        let bytes = table_bytes(ring.size, self.has_event_index());
        let window = |part, at, bytes, align| {
            let window = self.memory.window(at, bytes, align);
            window.ok_or(Fault::RingPlace { index, part, at })
        };
        Ok(Tables {
            descs: window("table of descriptors", descs, bytes[0], 16)?,
            available: window("available ring", available, bytes[1], 2)?,
            used: window("used ring", used, bytes[2], 4)?,
        })
    }

    fn has_event_index(&self) -> bool {
        self.features & features::RING_EVENT_IDX != 0
    }

    fn start(&mut self, index: usize, kick: Option<Bell>) -> Result<(), Fault> {
        let tables = self.tables(index)?;
        if let Some(kick) = &kick
            && Role::of(index) == Role::FromGuest
        {
            let added = self.device.lanes().bells().add(kick);
            added.map_err(|error| Fault::Io { what: "wait for a ring's bell", error })?;
        }
        let has_event_index = self.has_event_index();
        let ring = &mut self.rings[index];
        if let Some(before) = std::mem::replace(&mut ring.kick, kick) {
            self.device.lanes().bells().remove(&before);
        }
        if ring.is_running {
            return Ok(());
        }
        ring.is_running = true;
        // Without protocol features, no message enables a ring.
        ring.is_enabled |= self.features & PROTOCOL_FEATURES == 0;
        let split = Split::new(tables, ring.size, ring.base, has_event_index);
        let mut vring = Vring::new(split, Arc::clone(&self.memory), self.features);
        (vring.is_enabled, vring.call) = (ring.is_enabled, take(&mut ring.call));
        self.device.put(index, vring);
        Ok(())
    }

    fn set_call(&mut self, index: usize, call: Option<Bell>) {
        let ring = &mut self.rings[index];
        if !ring.is_running {
            ring.call = call;
            return;
        }
        self.device.change(index, |ring| {
            // There was no bell to ring for earlier packets.
            call.iter().for_each(Bell::ring);
            ring.call = call;
            true
        });
    }

    fn enable(&mut self, index: usize, is_enabled: bool) {
        self.rings[index].is_enabled = is_enabled;
        self.device.change(index, |ring| {
            ring.is_enabled = is_enabled;
            true
        });
    }

    /// Stops a ring, and returns the index at which another device would continue.
    fn stop_ring(&mut self, header: &Header, body: &[u8]) -> Result<Vec<u8>, Fault> {
        let (index, _) = self.indexed(header, body)?;
        if let Some(base) = self.take_out(index) {
            self.rings[index].base = base;
        }
        let answer = [index as u32, u32::from(self.rings[index].base)];
        Ok(answer.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    fn take_out(&mut self, index: usize) -> Option<u16> {
        let ring = &mut self.rings[index];
        ring.is_running = false;
        if let Some(kick) = ring.kick.take() {
            self.device.lanes().bells().remove(&kick);
        }
        let mut base = None;
        self.device.change(index, |ring| {
            base = Some(ring.split.base());
            false
        });
        base
    }

    /// Stops all rings.
    pub fn stop(&mut self) {
        for index in 0..self.rings.len() {
            self.take_out(index);
            self.rings[index] = Ring::default();
        }
    }

    /// Returns the agreed parameters, for people.
    pub(crate) fn agreed(&self) -> String {
        let sizes: Vec<_> = self.rings.iter().filter(|ring| ring.is_running).collect();
        let size = sizes.first().map_or(0, |ring| ring.size);
        let (rings, memory) = (sizes.len(), self.memory.len());
        let features = self.features;
        format!("{rings} rings of {size}, {memory} regions of memory, features {features:#x}")
    }

    /// Returns whether rings run, and all of them in pairs.
    pub(crate) fn is_running(&self) -> bool {
        let mut pairs = self.rings.chunks(2);
        let count = |pair: &[Ring]| pair.iter().filter(|ring| ring.is_running).count();
        self.rings.iter().any(|ring| ring.is_running) && pairs.all(|pair| count(pair) != 1)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.stop();
    }
}

fn expect_files(header: &Header, files: &[OwnedFd], expected: usize) -> Result<(), Fault> {
    let (request, descriptors) = (header.request, files.len());
    match descriptors == expected {
        true => Ok(()),
        false => Err(Fault::Descriptors { request, descriptors, expected }),
    }
}

/// The direction of a ring's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    ToGuest,
    FromGuest,
}

impl Role {
    fn of(index: usize) -> Self {
        if index.is_multiple_of(2) { Self::ToGuest } else { Self::FromGuest }
    }
}

impl Device {
    fn put(&self, index: usize, ring: Vring) {
        let lane = self.lanes().lane(index / 2);
        match Role::of(index) {
            Role::ToGuest => lane.to.change(|berth| *berth = Some(Box::new(ToGuest(ring)))),
            Role::FromGuest => {
                lane.from.change(|berth| *berth = Some(Box::new(FromGuest(ring))));
            }
        }
        self.lanes().bells().raise();
    }

    /// Changes a ring, if there is one; removes it if `change` returns false.
    fn change(&self, index: usize, change: impl FnOnce(&mut Vring) -> bool) {
        let lane = self.lanes().lane(index / 2);
        match Role::of(index) {
            Role::ToGuest => lane.to.change(|berth| {
                berth.take_if(|ring| !change(&mut ring.0));
            }),
            Role::FromGuest => lane.from.change(|berth| {
                berth.take_if(|ring| !change(&mut ring.0));
            }),
        }
        self.lanes().bells().raise();
    }
}

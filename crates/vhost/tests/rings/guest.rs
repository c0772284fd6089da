//! The driver's side of a ring, in this process, with functions to damage it.
#![allow(dead_code)] // each test file uses a part

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use burstline_peer::{OFFLOAD_BYTES, PeerMemory, Put, ToPeer};
use burstline_vhost::{Device, DeviceOptions, Fault, Header, Message, Session};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

/// The size of the guest's memory.
pub(crate) const MEMORY: u64 = 1 << 20;
/// Its address in the guest, and in the front-end.
pub(crate) const GUEST: u64 = 0x10_0000;
pub(crate) const FRONT: u64 = 0x7f00_0000_0000;
pub(crate) const SIZE: u16 = 64;
/// Features: version 1, protocol features, mergeable buffers, indirect descriptors.
pub(crate) const FEATURES: u64 = 1 << 32 | 1 << 30 | 1 << 28 | 1 << 15;

const DESCS: [usize; 2] = [0, 0x2000];
const AVAILABLE: [usize; 2] = [0x1000, 0x3000];
const USED: [usize; 2] = [0x1800, 0x3800];
/// The offset of the buffers in the guest's memory.
pub(crate) const BUFFERS_AT: usize = 0x1_0000;
/// The address of the first buffer in the guest.
pub(crate) const BUFFER_ADDRESS: u64 = GUEST + BUFFERS_AT as u64;

pub(crate) fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

/// A descriptor as the guest writes it: a buffer, VIRTQ_DESC_F_ flags, and the next descriptor.
/// Source: Virtual I/O Device 1.2, 2.7.5.
#[derive(Clone, Copy)]
pub(crate) struct Desc {
    address: u64,
    bytes: u32,
    flags: u16,
    next: u16,
}

impl Desc {
    /// Returns a single descriptor that the device reads.
    pub(crate) fn of(address: u64, bytes: u32) -> Self {
        Self { address, bytes, flags: 0, next: 0 }
    }

    pub(crate) fn marked(self, flags: u16, next: u16) -> Self {
        Self { flags, next, ..self }
    }
}

/// A guest with one pair of rings: 0 receives, 1 transmits.
pub(crate) struct Guest {
    pub(crate) device: Arc<Device>,
    pub(crate) session: Session,
    pub(crate) memory: Arc<PeerMemory>,
    pub(crate) file: OwnedFd,
    /// The guest's indices of available chains.
    pub(crate) next: [u16; 2],
}

pub(crate) fn message(request: u32, body: Vec<u8>, files: Vec<OwnedFd>) -> Message {
    let header = Header { request, flags: 1, bytes: body.len() as u32 };
    Message { header, body, files }
}

pub(crate) fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

pub(crate) fn device() -> Arc<Device> {
    let options = DeviceOptions { pairs: 1, is_client: false, passes_offloads: false };
    Arc::new(Device::new(options).unwrap())
}

pub(crate) fn file() -> OwnedFd {
    let file = memfd_create("guest", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MEMORY).unwrap();
    file
}

impl Guest {
    /// Starts a guest with running rings.
    pub(crate) fn start() -> Self {
        Self::with(FEATURES)
    }

    pub(crate) fn with(features: u64) -> Self {
        let (device, file) = (device(), file());
        let memory = Arc::new(PeerMemory::map(file.as_fd(), MEMORY).unwrap());
        let session = Session::new(Arc::clone(&device));
        let mut guest = Self { device, session, memory, file, next: [0, 0] };
        guest.say(3, vec![], vec![]).unwrap();
        guest.say(2, longs(&[features]), vec![]).unwrap();
        guest.set_memory().unwrap();
        for ring in 0..2 {
            guest.start_ring(ring, 0).unwrap();
            guest.say(18, words(&[ring as u32, 1]), vec![]).unwrap();
        }
        guest
    }

    pub(crate) fn say(
        &mut self,
        request: u32,
        body: Vec<u8>,
        files: Vec<OwnedFd>,
    ) -> Result<Option<Vec<u8>>, Fault> {
        self.session.handle(message(request, body, files))
    }

    pub(crate) fn set_memory(&mut self) -> Result<Option<Vec<u8>>, Fault> {
        let body = [words(&[1, 0]), longs(&[GUEST, MEMORY, FRONT, 0])].concat();
        let file = self.file.try_clone().unwrap();
        self.say(5, body, vec![file])
    }

    pub(crate) fn start_ring(&mut self, ring: usize, base: u16) -> Result<(), Fault> {
        let number = ring as u32;
        self.say(8, words(&[number, SIZE.into()]), vec![])?;
        self.say(10, words(&[number, base.into()]), vec![])?;
        let places = [DESCS[ring], USED[ring], AVAILABLE[ring]].map(|at| FRONT + at as u64);
        let body = [words(&[number, 0]), longs(&places), longs(&[0])].concat();
        self.say(9, body, vec![])?;
        self.say(13, longs(&[number.into()]), vec![event()])?;
        self.say(12, longs(&[number.into()]), vec![event()])?;
        Ok(())
    }

    pub(crate) fn write(&self, at: usize, bytes: &[u8]) {
        assert!(self.memory.write(at, bytes));
    }

    pub(crate) fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut bytes = [0; N];
        assert!(self.memory.read(at, &mut bytes));
        bytes
    }

    pub(crate) fn desc(&self, ring: usize, index: u16, desc: Desc) {
        let Desc { address, bytes, flags, next } = desc;
        let mut all = longs(&[address]);
        all.extend(words(&[bytes]));
        all.extend(flags.to_le_bytes());
        all.extend(next.to_le_bytes());
        self.write(DESCS[ring] + 16 * usize::from(index), &all);
    }

    /// Makes a chain available.
    pub(crate) fn offer(&mut self, ring: usize, head: u16) {
        let slot = usize::from(self.next[ring] % SIZE);
        self.write(AVAILABLE[ring] + 4 + 2 * slot, &head.to_le_bytes());
        self.next[ring] = self.next[ring].wrapping_add(1);
        self.set_index(ring, self.next[ring]);
    }

    pub(crate) fn set_index(&self, ring: usize, index: u16) {
        self.write(AVAILABLE[ring] + 2, &index.to_le_bytes());
    }

    pub(crate) fn used_index(&self, ring: usize) -> u16 {
        u16::from_le_bytes(self.read(USED[ring] + 2))
    }

    /// Returns a used element: head and bytes.
    pub(crate) fn used(&self, ring: usize, index: u16) -> (u32, u32) {
        let at = USED[ring] + 4 + 8 * usize::from(index % SIZE);
        let [a, b]: [[u8; 4]; 2] = [self.read(at), self.read(at + 4)];
        (u32::from_le_bytes(a), u32::from_le_bytes(b))
    }

    /// Returns what becomes of a packet to the guest.
    pub(crate) fn put(&self, packet: &[u8]) -> Put {
        let berth = &self.device.lanes().lane(0).to;
        let mut ring = berth.take().unwrap();
        let put = ring.put(packet, &[0; OFFLOAD_BYTES]);
        ring.publish();
        berth.give_back(ring);
        put
    }

    /// Sends a packet in one descriptor, with its header in front.
    pub(crate) fn send(&mut self, index: u16, packet: &[u8]) {
        let at = BUFFERS_AT + 0x1000 * usize::from(index);
        self.write(at, &[0; 12]);
        self.write(at + 12, packet);
        self.desc(1, index, Desc::of(GUEST + at as u64, 12 + packet.len() as u32));
        self.offer(1, index);
    }
}

//! A guest that says anything, and writes anything into its memory, while its rings run.
//!
//! An input is a row of steps:
//! - a message as it should be with numbers of the input's
//! - a message of any bytes
//! - words for the memory
//! - packets taken and given
//! - a file that is cut
//! - a new connection
//!
//! The device lives through all of it. Checked: what was taken is what the used index says; a
//! packet has a length that packets have; at the end no descriptor is left open.
#![no_main]

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use burstline_fuzz::{Input, event, file, pipe};
use burstline_peer::{FromPeer, LONGEST, OFFLOAD_BYTES, PeerMemory, Put, Taken, ToPeer};
use burstline_vhost::{Device, DeviceOptions, Header, Message, Session};
use libfuzzer_sys::fuzz_target;

const MEMORY: u64 = 1 << 16;
/// Where it begins in the guest, and in the front-end.
const GUEST: u64 = 0x10_0000;
const FRONT: u64 = 0x7f00_0000_0000;
const SIZE: u32 = 16;
/// Of both rings: descriptors, used, available.
const PLACES: [[u64; 3]; 2] = [[0, 0x800, 0x400], [0x1000, 0x1800, 0x1400]];
const STEPS: usize = 200;

struct Guest {
    device: Arc<Device>,
    session: Session,
    memory: Arc<PeerMemory>,
    file: OwnedFd,
    room: Vec<u8>,
}

/// What has every kind of step that keeps something open for the process: the bells' own file.
const WARM_UP: &[u8] = include_bytes!("../corpus/vhost_guest/taken");

fuzz_target!(|data: &[u8]| {
    static BEFORE: LazyLock<usize> = LazyLock::new(|| {
        live(Input(WARM_UP));
        descriptors()
    });
    let before = *BEFORE;
    live(Input(data));
    assert_eq!(descriptors(), before, "a descriptor is left open");
});

fn live(mut input: Input<'_>) {
    let mut peer = Guest::start(input.byte() & 1 != 0);
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        peer.step(&mut input);
    }
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

fn longs(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn pair(first: u32, second: u32) -> Vec<u8> {
    longs(&[u64::from(first) | u64::from(second) << 32])
}

impl Guest {
    /// One whose rings run.
    fn start(passes_offloads: bool) -> Self {
        let options = DeviceOptions { pairs: 1, is_client: false, passes_offloads };
        let device = Arc::new(Device::new(options).expect("an epoll and an event"));
        let file = file(MEMORY);
        let memory = Arc::new(PeerMemory::map(file.as_fd(), MEMORY).expect("it is that long"));
        let session = Session::new(Arc::clone(&device));
        let mut guest = Self { device, session, memory, file, room: vec![0; LONGEST] };
        guest.begin();
        guest
    }

    fn begin(&mut self) {
        self.session = Session::new(Arc::clone(&self.device));
        self.say(2, longs(&[1 << 32 | 1 << 30 | 1 << 28 | 1 << 15]), vec![]);
        self.set_memory(0);
        for ring in 0..2 {
            self.start_ring(ring, 0);
            self.say(18, pair(ring, 1), vec![]);
        }
    }

    fn say(&mut self, request: u32, body: Vec<u8>, files: Vec<OwnedFd>) {
        let header = Header { request, flags: 1, bytes: body.len() as u32 };
        if self.session.handle(Message { header, body, files }).is_err() {
            // V4: the connection ends, and the guest comes back.
            self.session = Session::new(Arc::clone(&self.device));
        }
    }

    fn set_memory(&mut self, more: u64) {
        let body = [pair(1, 0), longs(&[GUEST, MEMORY.wrapping_add(more), FRONT, 0])].concat();
        let file = self.file.try_clone().expect("a descriptor");
        self.say(5, body, vec![file]);
    }

    fn start_ring(&mut self, ring: u32, more: u64) {
        self.say(8, pair(ring, SIZE), vec![]);
        self.say(10, pair(ring, 0), vec![]);
        let places = PLACES[ring as usize & 1].map(|at| FRONT.wrapping_add(at).wrapping_add(more));
        self.say(9, [pair(ring, 0), longs(&places), longs(&[0])].concat(), vec![]);
        self.say(13, longs(&[ring.into()]), vec![event()]);
        self.say(12, longs(&[ring.into()]), vec![event()]);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 12 {
            0 => self.say_anything(input),
            1 => self.say(8, pair(input.byte().into(), input.word() as u32), vec![]),
            2 => self.say(10, pair(input.byte().into(), input.word() as u32), vec![]),
            3 => self.say(11, pair(input.byte().into(), 0), vec![]),
            4 => self.say(18, pair(input.byte().into(), input.byte().into()), vec![]),
            5 => self.set_memory(input.word()),
            6 => self.start_ring((input.byte() & 1).into(), input.word()),
            7 => self.begin(),
            8 => self.take(),
            9 => self.put(input),
            10 if input.byte() == 0 => {
                let _ = rustix::fs::ftruncate(&self.file, input.word() % MEMORY);
            }
            _ => {
                // A word of the rings, which are where most of it matters.
                let at = input.word() % 0x2000;
                let value = input.word().to_le_bytes();
                let _ = self.memory.write(at as usize & !1, &value[..2 << (at & 1)]);
            }
        }
    }

    fn say_anything(&mut self, input: &mut Input<'_>) {
        let request = u32::from(input.byte() % 45);
        let (files, length) = (input.byte() % 4, usize::from(input.byte()));
        let files = (0..files).map(|_| match input.byte() % 4 {
            0 => pipe(),
            1 => event(),
            _ => self.file.try_clone().expect("a descriptor"),
        });
        let files = files.collect();
        let body = input.bytes(length).to_vec();
        self.say(request, body, files);
    }

    fn take(&mut self) {
        let berth = &self.device.lanes().lane(0).from;
        let Some(mut ring) = berth.take() else { return };
        let mut taken = 0;
        loop {
            match ring.take(&mut self.room) {
                Taken::Nothing => break,
                Taken::Packet { bytes, .. } => assert!((1..=LONGEST).contains(&bytes), "{bytes}"),
                Taken::Refused(_) => {}
            }
            taken += 1;
            assert!(taken <= 1 << 16, "a ring has no more");
        }
        assert_eq!(u64::from(ring.publish()), taken, "V3");
        berth.give_back(ring);
    }

    fn put(&mut self, input: &mut Input<'_>) {
        let berth = &self.device.lanes().lane(0).to;
        let length = 14 + usize::from(input.byte()) * 16;
        let Some(mut ring) = berth.take() else { return };
        for _ in 0..SIZE {
            if ring.put(&self.room[..length], &[0; OFFLOAD_BYTES]) == Put::NoRoom {
                break;
            }
        }
        ring.publish();
        berth.give_back(ring);
    }
}

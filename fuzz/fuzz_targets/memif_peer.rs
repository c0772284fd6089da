//! A client of memif that says anything, and writes anything into its memory, while its rings run.
//!
//! An input is a row of steps, as for `vhost_guest`. Checked: a packet has a length that packets
//! have; taking ends; at the end no descriptor is left open.
#![no_main]

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, LazyLock};

use burstline_fuzz::{Input, event, file, pipe};
use burstline_memif::{Device, DeviceOptions, MESSAGE_BYTES, Message, ServerSession};
use burstline_peer::{FromPeer, LONGEST, OFFLOAD_BYTES, PeerMemory, Put, Taken, ToPeer};
use libfuzzer_sys::fuzz_target;

const MEMORY: u64 = 1 << 16;
const COOKIE: u32 = 0x03e3_1f20;
const LOG2_SLOTS: u8 = 4;
/// Rings from and to the client.
const RINGS: [u32; 2] = [0, 0x1000];
const STEPS: usize = 200;

struct Client {
    device: Arc<Device>,
    session: ServerSession,
    memory: Arc<PeerMemory>,
    file: OwnedFd,
    room: Vec<u8>,
}

/// What has every kind of step that keeps something open for the process: the bells' own file.
const WARM_UP: &[u8] = include_bytes!("../corpus/memif_peer/given");

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
    let mut peer = Client::start();
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

fn ring(is_to_server: bool, offset: u32, log2_slots: u8) -> Message {
    Message::AddRing { is_to_server, index: 0, region: 0, offset, log2_slots }
}

impl Client {
    /// One whose rings run.
    fn start() -> Self {
        let options = DeviceOptions { queues: 1, is_client: false, id: 3, log2_slots: LOG2_SLOTS };
        let device = Arc::new(Device::new(options).expect("an epoll and an event"));
        let file = file(MEMORY);
        let memory = Arc::new(PeerMemory::map(file.as_fd(), MEMORY).expect("it is that long"));
        let session = ServerSession::new(Arc::clone(&device));
        let mut client = Self { device, session, memory, file, room: vec![0; LONGEST] };
        client.begin();
        client
    }

    fn begin(&mut self) {
        for ring in RINGS.map(|at| at as usize) {
            let _ = self.memory.write(ring, &[0; 128]);
            let _ = self.memory.write(ring, &COOKIE.to_le_bytes());
        }
        self.session = ServerSession::new(Arc::clone(&self.device));
        self.say(Message::Init { version: 0x200, id: 3, mode: 0 }, vec![]);
        self.add_region(MEMORY);
        self.say(ring(true, RINGS[0], LOG2_SLOTS), vec![event()]);
        self.say(ring(false, RINGS[1], LOG2_SLOTS), vec![event()]);
        self.say(Message::Connect, vec![]);
    }

    fn add_region(&mut self, bytes: u64) {
        let region = self.file.try_clone().expect("a descriptor");
        self.say(Message::AddRegion { index: 0, bytes }, vec![region]);
    }

    fn say(&mut self, message: Message, files: Vec<OwnedFd>) {
        if self.session.hear(message, files).is_err() {
            self.session = ServerSession::new(Arc::clone(&self.device));
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 10 {
            0 => self.say_anything(input),
            1 => self.add_region(input.word()),
            2 => {
                let (is_to_server, offset) = (input.byte() & 1 != 0, input.word() as u32);
                self.say(ring(is_to_server, offset, input.byte()), vec![event()]);
            }
            3 => self.begin(),
            4 => self.take(),
            5 => self.put(input),
            6 if input.byte() == 0 => {
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
        let mut bytes = [0; MESSAGE_BYTES];
        let length = usize::from(input.byte()) % (MESSAGE_BYTES + 1);
        let given = input.bytes(length);
        bytes[..given.len()].copy_from_slice(given);
        let files = (0..input.byte() % 3).map(|_| match input.byte() % 3 {
            0 => pipe(),
            1 => event(),
            _ => self.file.try_clone().expect("a descriptor"),
        });
        let files = files.collect();
        if let Ok(message) = Message::parse(&bytes) {
            self.say(message, files);
        }
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
        assert_eq!(u64::from(ring.publish()), taken, "packets, not slots");
        berth.give_back(ring);
    }

    fn put(&mut self, input: &mut Input<'_>) {
        let berth = &self.device.lanes().lane(0).to;
        let length = 14 + usize::from(input.byte()) * 16;
        let Some(mut ring) = berth.take() else { return };
        for _ in 0..1 << LOG2_SLOTS {
            if ring.put(&self.room[..length], &[0; OFFLOAD_BYTES]) == Put::NoRoom {
                break;
            }
        }
        ring.publish();
        berth.give_back(ring);
    }
}

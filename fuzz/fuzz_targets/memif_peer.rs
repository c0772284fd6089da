//! A client of memif that says anything, and writes anything into its memory, while its rings run.
//!
//! An input is a row of steps, as for `vhost_guest`. Checked: a packet has a length that packets
//! have; taking ends; at the end no descriptor is left open.
#![no_main]

use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock};

use burstline_fuzz::peer::{MEMORY, Shared, descriptors, step_by_step};
use burstline_fuzz::{Input, event};
use burstline_memif::{Device, DeviceOptions, MESSAGE_BYTES, Message, ServerSession};
use libfuzzer_sys::fuzz_target;

const COOKIE: u32 = 0x03e3_1f20;
const LOG2_SLOTS: u8 = 4;
/// Rings from and to the client.
const RINGS: [u32; 2] = [0, 0x1000];

struct Client {
    device: Arc<Device>,
    session: ServerSession,
    shared: Shared,
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

fn live(input: Input<'_>) {
    let mut peer = Client::start();
    step_by_step(input, |input| peer.step(input));
}

fn ring(is_to_server: bool, offset: u32, log2_slots: u8) -> Message {
    Message::AddRing { is_to_server, index: 0, region: 0, offset, log2_slots }
}

impl Client {
    /// One whose rings run.
    fn start() -> Self {
        let options = DeviceOptions { queues: 1, is_client: false, id: 3, log2_slots: LOG2_SLOTS };
        let device = Arc::new(Device::new(options).expect("an epoll and an event"));
        let session = ServerSession::new(Arc::clone(&device));
        let mut client = Self { device, session, shared: Shared::new() };
        client.begin();
        client
    }

    fn begin(&mut self) {
        for ring in RINGS.map(|at| at as usize) {
            let _ = self.shared.memory.write(ring, &[0; 128]);
            let _ = self.shared.memory.write(ring, &COOKIE.to_le_bytes());
        }
        self.session = ServerSession::new(Arc::clone(&self.device));
        self.say(Message::Init { version: 0x200, id: 3, mode: 0 }, vec![]);
        self.add_region(MEMORY);
        self.say(ring(true, RINGS[0], LOG2_SLOTS), vec![event()]);
        self.say(ring(false, RINGS[1], LOG2_SLOTS), vec![event()]);
        self.say(Message::Connect, vec![]);
    }

    fn add_region(&mut self, bytes: u64) {
        self.say(Message::AddRegion { index: 0, bytes }, vec![self.shared.descriptor()]);
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
            4 => self.shared.take(self.device.lanes().lane(0)),
            5 => self.shared.put(self.device.lanes().lane(0), 1 << LOG2_SLOTS, input),
            6 if input.byte() == 0 => self.shared.cut(input),
            _ => self.shared.scribble(input),
        }
    }

    fn say_anything(&mut self, input: &mut Input<'_>) {
        let mut bytes = [0; MESSAGE_BYTES];
        let length = usize::from(input.byte()) % (MESSAGE_BYTES + 1);
        let given = input.bytes(length);
        bytes[..given.len()].copy_from_slice(given);
        let files = (0..input.byte() % 3).map(|_| self.shared.any_descriptor(input)).collect();
        if let Ok(message) = Message::parse(&bytes) {
            self.say(message, files);
        }
    }
}

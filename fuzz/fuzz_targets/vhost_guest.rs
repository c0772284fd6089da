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

use std::os::fd::OwnedFd;
use std::sync::{Arc, LazyLock};

use burstline_fuzz::peer::{MEMORY, Shared, descriptors, step_by_step};
use burstline_fuzz::{Input, event};
use burstline_vhost::{Device, DeviceOptions, Header, Message, Session};
use libfuzzer_sys::fuzz_target;

/// Where it begins in the guest, and in the front-end.
const GUEST: u64 = 0x10_0000;
const FRONT: u64 = 0x7f00_0000_0000;
const SIZE: u32 = 16;
/// Of both rings: descriptors, used, available.
const PLACES: [[u64; 3]; 2] = [[0, 0x800, 0x400], [0x1000, 0x1800, 0x1400]];

struct Guest {
    device: Arc<Device>,
    session: Session,
    shared: Shared,
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
    step_by_step(input, |input| peer.step(input));
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
        let session = Session::new(Arc::clone(&device));
        let mut guest = Self { device, session, shared: Shared::new() };
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
        self.say(5, body, vec![self.shared.descriptor()]);
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
            8 => self.shared.take(self.device.lanes().lane(0)),
            9 => self.shared.put(self.device.lanes().lane(0), SIZE, input),
            10 if input.byte() == 0 => self.shared.cut(input),
            _ => self.shared.scribble(input),
        }
    }

    fn say_anything(&mut self, input: &mut Input<'_>) {
        let request = u32::from(input.byte() % 45);
        let (files, length) = (input.byte() % 4, usize::from(input.byte()));
        let files = (0..files).map(|_| self.shared.any_descriptor(input)).collect();
        let body = input.bytes(length).to_vec();
        self.say(request, body, files);
    }
}

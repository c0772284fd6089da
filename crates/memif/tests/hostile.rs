//! A client that damages its rings and messages; F15 is VPP's e36567760d6 and DPDK's 40e0e7c0a2.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use burstline_memif::{Device, DeviceOptions, Fault, MESSAGE_BYTES, Message, ServerSession};
use burstline_peer::{FromPeer, LONGEST, OFFLOAD_BYTES, PeerMemory, Put, Refusal, Taken, ToPeer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

const MEMORY: u64 = 1 << 20;
const SLOTS: u16 = 16;
const COOKIE: u32 = 0x03e3_1f20;
/// Offsets of the rings from and to the client, and of the buffers.
const RINGS: [usize; 2] = [0, 0x1000];
const BUFFERS: usize = 0x1_0000;
const NONE: [u8; OFFLOAD_BYTES] = [0; OFFLOAD_BYTES];

fn event() -> OwnedFd {
    eventfd(0, EventfdFlags::CLOEXEC).unwrap()
}

fn file() -> OwnedFd {
    let file = memfd_create("memif-test", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, MEMORY).unwrap();
    file
}

fn device() -> Arc<Device> {
    let options = DeviceOptions { queues: 1, is_client: false, id: 3, log2_slots: 4 };
    Arc::new(Device::new(options).unwrap())
}

fn init() -> Message {
    Message::Init { version: 0x200, id: 3, mode: 0 }
}

fn ring(is_to_server: bool, index: u16, offset: u32) -> Message {
    Message::AddRing { is_to_server, index, region: 0, offset, log2_slots: 4 }
}

/// A descriptor as the peer stores it.
#[derive(Clone, Copy, Debug, Default)]
struct Desc {
    flags: u16,
    region: u16,
    bytes: u32,
    offset: u32,
}

/// Returns the descriptor of a buffer; buffers are 4 KiB apart.
fn buffer(number: u16, bytes: u32) -> Desc {
    let offset = (BUFFERS + 0x1000 * usize::from(number)) as u32;
    Desc { bytes, offset, ..Desc::default() }
}

struct Client {
    device: Arc<Device>,
    session: ServerSession,
    memory: Arc<PeerMemory>,
    file: OwnedFd,
    head: [u16; 2],
}

impl Client {
    fn start() -> Self {
        let (device, file) = (device(), file());
        let memory = Arc::new(PeerMemory::map(file.as_fd(), MEMORY).unwrap());
        Self::connect(device, memory, file)
    }

    fn connect(device: Arc<Device>, memory: Arc<PeerMemory>, file: OwnedFd) -> Self {
        for ring in RINGS {
            assert!(memory.write(ring, &[0; 128]) && memory.write(ring, &COOKIE.to_le_bytes()));
        }
        let session = ServerSession::new(Arc::clone(&device));
        let mut client = Self { device, session, memory, file, head: [0; 2] };
        let region = client.file.try_clone().unwrap();
        for (message, files) in [
            (init(), vec![]),
            (Message::AddRegion { index: 0, bytes: MEMORY }, vec![region]),
            (ring(true, 0, RINGS[0] as u32), vec![event()]),
            (ring(false, 0, RINGS[1] as u32), vec![event()]),
        ] {
            let answer = client.session.hear(message, files).unwrap();
            assert_eq!(answer.message, Some(Message::Acknowledge));
        }
        let answer = client.session.hear(Message::Connect, vec![]).unwrap();
        assert_eq!(answer.message, Some(Message::Connected));
        client
    }

    /// Keeps the memory, and makes a new connection.
    fn connect_anew(self) -> Self {
        let Self { device, session, memory, file, .. } = self;
        drop(session);
        Self::connect(device, memory, file)
    }

    fn desc(&self, ring: usize, slot: u16, desc: Desc) {
        let Desc { flags, region, bytes, offset } = desc;
        let mut desc = Vec::new();
        desc.extend(flags.to_le_bytes());
        desc.extend(region.to_le_bytes());
        desc.extend(bytes.to_le_bytes());
        desc.extend(offset.to_le_bytes());
        assert!(self.memory.write(RINGS[ring] + 128 + 16 * usize::from(slot % SLOTS), &desc));
    }

    fn offer(&mut self, ring: usize, slots: u16) {
        self.head[ring] = self.head[ring].wrapping_add(slots);
        self.set_head(ring, self.head[ring]);
    }

    fn set_head(&self, ring: usize, head: u16) {
        assert!(self.memory.write(RINGS[ring] + 6, &head.to_le_bytes()));
    }

    fn tail(&self, ring: usize) -> u16 {
        let mut tail = [0; 2];
        assert!(self.memory.read(RINGS[ring] + 64, &mut tail));
        u16::from_le_bytes(tail)
    }

    fn take(&self) -> Taken {
        let berth = &self.device.lanes().lane(0).from;
        let mut ring = berth.take().unwrap();
        let taken = ring.take(&mut vec![0; LONGEST]);
        assert_eq!(ring.publish(), u16::from(taken != Taken::Nothing), "packets, not slots");
        berth.give_back(ring);
        taken
    }

    fn fill(&self) -> (u16, u16) {
        self.device.lanes().lane(0).from.try_look(|ring| ring.fill()).unwrap()
    }

    fn put(&self, packet: &[u8]) -> Put {
        let berth = &self.device.lanes().lane(0).to;
        let mut ring = berth.take().unwrap();
        let put = ring.put(packet, &NONE);
        ring.publish();
        berth.give_back(ring);
        put
    }
}

fn whole(bytes: usize) -> Taken {
    Taken::Packet { bytes, is_partial: false, is_merged: false }
}

#[test]
fn packets_go_both_ways_over_several_slots_and_the_wrap() {
    let mut client = Client::start();
    for round in 0..70_000u32 {
        let first = client.head[0];
        client.desc(0, first, Desc { flags: 1, ..buffer(0, 2000) });
        client.desc(0, first.wrapping_add(1), buffer(1, 100));
        client.offer(0, 2);
        assert_eq!(client.fill(), (2, SLOTS), "{round}");
        assert_eq!(client.take(), whole(2100), "{round}");
        assert_eq!(client.tail(0), client.head[0]);
    }
    for slot in 0..3 {
        client.desc(1, slot, buffer(slot, 1000));
    }
    client.offer(1, 3);
    let packet: Vec<u8> = (0..2500).map(|byte| (byte % 251) as u8).collect();
    assert_eq!((client.put(&packet), client.tail(1)), (Put::Done, 3));
    let mut all = vec![0; 500];
    assert!(client.memory.read(BUFFERS + 0x2000, &mut all));
    assert_eq!(all, packet[2000..]);
    assert_eq!(client.put(&packet), Put::NoRoom);
}

#[test]
fn f15_offsets_that_wrap_and_chains_past_the_ring_are_refused() {
    let mut client = Client::start();
    for ((flags, region, bytes, offset), expected) in [
        ((0, 0, 100, u32::MAX), Refusal::Malformed),
        ((0, 0, 100, u32::MAX - 99), Refusal::Malformed),
        ((0, 0, 100, MEMORY as u32 - 99), Refusal::Malformed),
        ((0, 1, 100, 0), Refusal::Malformed),
        ((0, u16::MAX, 100, 0), Refusal::Malformed),
        ((0, 0, u32::MAX, 0), Refusal::Long),
        ((0, 0, LONGEST as u32 + 1, 0), Refusal::Long),
        ((0, 0, 0, 0), Refusal::Short),
        ((1, 0, 60, 0), Refusal::Malformed),
    ] {
        let desc = Desc { flags, region, bytes, offset };
        client.desc(0, client.head[0], desc);
        client.offer(0, 1);
        assert_eq!(client.take(), Taken::Refused(expected), "{desc:?}");
        client.desc(0, client.head[0], buffer(0, 60));
        client.offer(0, 1);
        assert_eq!(client.take(), whole(60), "the next one comes");
    }
    // All slots continue, together they are too long, and the last one continues, too.
    for slot in 0..SLOTS {
        client.desc(0, slot, Desc { flags: 1, bytes: 0x8000, ..Desc::default() });
    }
    client.offer(0, SLOTS);
    assert_eq!(client.take(), Taken::Refused(Refusal::Malformed));
    client.set_head(0, client.head[0].wrapping_add(SLOTS + 1));
    assert_eq!(client.take(), Taken::Nothing);
    client.offer(0, 1);
    assert_eq!(client.take(), Taken::Nothing, "a ring whose index cannot be stays stopped");
    // The other ring works until a buffer is invalid.
    client.desc(1, 0, buffer(0, 2048));
    client.desc(1, 1, buffer(0, 0));
    client.offer(1, 2);
    assert_eq!(client.put(&[1; 60]), Put::Done);
    assert_eq!(client.put(&[1; 60]), Put::NoRoom);
    assert!(!client.device.lanes().lane(0).to.try_look(|ring| ring.is_live()).unwrap());
}

#[test]
fn every_fault_of_a_message_has_a_line_with_its_number() {
    let add_region = |index, bytes| Message::AddRegion { index, bytes };
    let hear = |messages: Vec<(Message, Vec<OwnedFd>)>| {
        let mut session = ServerSession::new(device());
        let mut heard = messages.into_iter().map(|(message, files)| session.hear(message, files));
        heard.find_map(Result::err).map(|fault: Fault| fault.to_string()).unwrap()
    };
    for (messages, expected) in [
        (vec![(Message::Connect, vec![])], "a connect was not expected now"),
        (vec![(init(), vec![event()])], "an init has 1 descriptors: expected 0"),
        (vec![(Message::Init { version: 0x100, id: 3, mode: 0 }, vec![])], "version 0x100"),
        (
            vec![(Message::Init { version: 0x200, id: 4, mode: 0 }, vec![])],
            "interface 4: this one is 3",
        ),
        (vec![(Message::Init { version: 0x200, id: 3, mode: 1 }, vec![])], "mode 1: expected 0"),
        (vec![(init(), vec![]), (init(), vec![])], "an init was not expected now"),
        (vec![(init(), vec![]), (add_region(0, 1), vec![])], "a region has 0 descriptors"),
        (vec![(init(), vec![]), (add_region(1, 1), vec![file()])], "region 1: expected 0"),
        (
            vec![(init(), vec![]), (add_region(0, u64::MAX), vec![file()])],
            "memory of 18446744073709551615 bytes",
        ),
        (vec![(init(), vec![]), (ring(true, 0, 0), vec![event()])], "is not in region 0"),
        (vec![(init(), vec![]), (ring(true, 1, 0), vec![event()])], "ring 1: expected 0"),
        (
            vec![
                (init(), vec![]),
                (add_region(0, MEMORY), vec![file()]),
                (ring(true, 0, MEMORY as u32 - 128), vec![event()]),
            ],
            "ring 0 of 2^4 slots at 0xfff80 is not in region 0",
        ),
        (
            vec![
                (init(), vec![]),
                (add_region(0, MEMORY), vec![file()]),
                (ring(true, 0, 0), vec![event()]),
            ],
            "begins with 0x0: expected 0x3e31f20",
        ),
        (
            vec![(Message::Disconnect { reason: "a\u{1b}[2J".to_owned() }, vec![])],
            "it disconnected",
        ),
    ] {
        let fault = hear(messages);
        assert!(fault.contains(expected), "{fault}");
    }
}

#[test]
fn messages_survive_their_way_and_any_bytes_are_read() {
    for message in [
        Message::Acknowledge,
        Message::Hello {
            versions: [0x200, 0x200],
            region_max: 31,
            ring_max: [3, 4],
            log2_slots_max: 14,
        },
        init(),
        Message::AddRegion { index: 2, bytes: 1 << 40 },
        ring(true, 5, 0x1234_5678),
        ring(false, 6, 1),
        Message::Connect,
        Message::Connected,
        Message::Disconnect { reason: "no such id".to_owned() },
    ] {
        assert_eq!(Message::parse(&message.bytes()).unwrap(), message);
    }
    let hostile = Message::Disconnect { reason: "\u{1b}[2J".to_owned() };
    let Message::Disconnect { reason } = Message::parse(&hostile.bytes()).unwrap() else {
        panic!()
    };
    assert_eq!(reason, "\\u{1b}[2J", "nothing of it moves a cursor");
    let mut seed = 1u32;
    for _ in 0..100_000 {
        let mut bytes = [0; MESSAGE_BYTES];
        for byte in &mut bytes {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (seed >> 24) as u8;
        }
        bytes[1] = 0;
        bytes[0] %= 10;
        let is_known = (1..=8).contains(&bytes[0]);
        assert_eq!(Message::parse(&bytes).is_ok(), is_known);
    }
    assert!(matches!(Message::parse(&[1; 127]), Err(Fault::Size(127))));
}

/// Messages in any order, with wrong numbers, descriptors of any kind, and files that are shorter
/// than said. A step further in an order that makes sense is likely, so that rings run, too.
#[test]
fn any_messages_in_any_order_leave_no_descriptor_and_no_memory() {
    let rounds: u64 = std::env::var("BURSTLINE_MESSAGES").map_or(100_000, |n| n.parse().unwrap());
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % most
    };
    let before = descriptors();
    let device = device();
    let (mut session, mut carried_out, mut faults) =
        (ServerSession::new(Arc::clone(&device)), 0u64, 0u64);
    let mut next = 0;
    for _ in 0..rounds {
        let step = if random(8) == 0 { random(8) } else { next };
        next = step + 1;
        let is_odd = random(40) == 0;
        let number = |random: &mut dyn FnMut(u64) -> u64| if is_odd { random(1 << 16) } else { 0 };
        let message = match step {
            0 => init(),
            1 => {
                let bytes = if is_odd { random(4) << random(63) } else { MEMORY };
                Message::AddRegion { index: number(&mut random) as u16, bytes }
            }
            2 | 3 => {
                let offset = if is_odd { random(1 << 32) } else { 0x1000 * random(2) } as u32;
                let index = number(&mut random) as u16;
                let log2_slots = if is_odd { random(256) as u8 } else { 4 };
                let region = if is_odd { random(3) as u16 } else { 0 };
                Message::AddRing { is_to_server: step == 2, index, region, offset, log2_slots }
            }
            4 => Message::Connect,
            5 if is_odd => Message::Disconnect { reason: "any".to_owned() },
            _ => {
                let mut bytes = [0; MESSAGE_BYTES];
                bytes.fill_with(|| random(256) as u8);
                [bytes[0], bytes[1]] = [random(10) as u8, 0];
                match Message::parse(&bytes) {
                    Ok(message) => message,
                    Err(_) => continue,
                }
            }
        };
        let wanted = usize::from((1..=3).contains(&step));
        let count = if is_odd { random(4) as usize } else { wanted };
        let any = |random: &mut dyn FnMut(u64) -> u64| match (step == 1, random(50)) {
            (true, 1..) | (false, 0) => of_a_cookie(if random(20) == 0 { 0x100 } else { MEMORY }),
            _ => event(),
        };
        let files = (0..count).map(|_| any(&mut random)).collect();
        match session.hear(message, files) {
            Ok(_) => carried_out += 1,
            Err(_) => {
                faults += 1;
                (session, next) = (ServerSession::new(Arc::clone(&device)), 0);
            }
        }
    }
    drop(session);
    drop(device);
    assert!(carried_out > rounds / 4 && faults > rounds / 20, "{carried_out} {faults}");
    // Other tests of this process have some, too, until they end.
    let began = Instant::now();
    while descriptors() > before + 8 {
        assert!(began.elapsed() < Duration::from_secs(300), "{before} {}", descriptors());
        thread::sleep(Duration::from_millis(10));
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A file in which rings begin as they should.
fn of_a_cookie(bytes: u64) -> OwnedFd {
    let file = memfd_create("memif-test", MemfdFlags::CLOEXEC).unwrap();
    for ring in RINGS {
        rustix::io::pwrite(&file, &COOKIE.to_le_bytes(), ring as u64).unwrap();
    }
    ftruncate(&file, bytes).unwrap();
    file
}

/// As in `crates/vhost`: another thread overwrites descriptors while we take and put.
#[test]
fn a_client_that_scribbles_while_we_read_harms_itself_only() {
    let packets: u64 = std::env::var("BURSTLINE_CHAINS").map_or(200_000, |n| n.parse().unwrap());
    let mut client = Client::start();
    let is_over = Arc::new(AtomicBool::new(false));
    let memory = Arc::clone(&client.memory);
    let scribbler = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut seed = 88_172_645_463_325_252u64;
            while !is_over.load(Relaxed) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                let ring = RINGS[(seed % 2) as usize];
                let at = ring + 128 + (seed >> 8) as usize % (16 * usize::from(SLOTS));
                let value = if seed & 4 == 0 { seed >> 20 } else { seed >> 44 };
                assert!(memory.write(at, &value.to_le_bytes()[..1 + (seed >> 62) as usize]));
            }
        }
    });
    let (mut room, mut slots, mut taken) = (vec![0; LONGEST], 0u64, 0u64);
    while slots < packets {
        for slot in 0..SLOTS {
            client.desc(0, slot, buffer(0, 60));
            client.desc(1, slot, buffer(0, 2048));
        }
        let free = |client: &Client, ring: usize| {
            SLOTS - client.head[ring].wrapping_sub(client.tail(ring))
        };
        for ring in 0..2 {
            client.offer(ring, free(&client, ring));
        }
        let berth = &client.device.lanes().lane(0).from;
        let mut from = berth.take().unwrap();
        let mut now = 0;
        while from.take(&mut room) != Taken::Nothing {
            now += 1;
        }
        assert_eq!(from.publish(), now, "M2");
        berth.give_back(from);
        (taken, slots) = (taken + u64::from(now), slots + u64::from(SLOTS));
        assert_eq!(client.tail(0), client.head[0], "all were taken");
        let berth = &client.device.lanes().lane(0).to;
        let mut to = berth.take().unwrap();
        for _ in 0..SLOTS {
            let _ = to.put(&[5; 60], &NONE);
        }
        to.publish();
        let is_live = to.is_live();
        berth.give_back(to);
        if !is_live {
            // It has named an invalid buffer: it may connect again.
            client = client.connect_anew();
        }
    }
    is_over.store(true, Relaxed);
    scribbler.join().unwrap();
    assert!(taken > 0);
}

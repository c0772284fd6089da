//! Invalid messages, alone and in any order.

use std::fs;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use burstline_vhost::{BODY_BYTES_MAX, Fault, HEADER_BYTES, Header, Session};

use crate::guest::{FRONT, GUEST, Guest, MEMORY, SIZE, device, event, file, longs, message, words};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

fn fault_of(request: u32, body: Vec<u8>, files: Vec<OwnedFd>) -> String {
    let mut session = Session::new(device());
    let fault = session.handle(message(request, body, files)).unwrap_err();
    fault.to_string()
}

#[test]
fn every_fault_has_a_line_with_its_number() {
    let region = |at, bytes| longs(&[at, bytes, FRONT, 0]);
    let table = |regions: &[(u64, u64)]| {
        let all = regions.iter().flat_map(|&(at, bytes)| region(at, bytes));
        [words(&[regions.len() as u32, 0]), all.collect()].concat()
    };
    let files = |count: usize| (0..count).map(|_| file()).collect::<Vec<_>>();
    let pipe = || vec![OwnedFd::from(std::io::pipe().unwrap().0)];
    for (request, body, files, expected) in [
        (0, vec![], vec![], "request 0 was not offered"),
        (6, longs(&[0, 0]), vec![], "request 6 was not offered"),
        (2, longs(&[1]), vec![], "features 0x1 were not offered"),
        (2, vec![0; 7], vec![], "request 2 has 7 bytes: expected 8"),
        (16, longs(&[1 << 60]), vec![], "were not offered"),
        (1, vec![], files(1), "request 1 has 1 descriptors: expected 0"),
        (5, vec![0; 7], files(1), "request 5 has 7 bytes: expected 8"),
        (5, words(&[0, 0]), vec![], "0 regions of memory"),
        (5, words(&[9, 0]), files(9), "9 regions of memory"),
        (5, words(&[u32::MAX, 0]), vec![], "4294967295 regions of memory"),
        (5, words(&[1, 0]), files(1), "expected 40"),
        (5, table(&[(GUEST, MEMORY)]), vec![], "has 0 descriptors: expected 1"),
        (5, table(&[(GUEST, MEMORY)]), files(2), "has 2 descriptors: expected 1"),
        (5, table(&[(GUEST, MEMORY)]), pipe(), "not a regular file"),
        (
            5,
            table(&[(GUEST, MEMORY + 1)]),
            files(1),
            "memory of 1048577 bytes in a file of 1048576",
        ),
        (5, table(&[(GUEST, 0)]), files(1), "a region of 0 bytes"),
        (5, table(&[(u64::MAX, 2)]), files(1), "wraps, is empty or overlaps"),
        (5, table(&[(GUEST, 4096), (GUEST + 4095, 4096)]), files(2), "overlaps another"),
        (38, longs(&[0, GUEST, MEMORY, FRONT, 0]), vec![], "no region at 0x100000 to remove"),
        (8, words(&[2, 64]), vec![], "ring 2 of 2"),
        (8, words(&[u32::MAX, 64]), vec![], "ring 4294967295 of 2"),
        (8, words(&[0, 63]), vec![], "ring 0 of 63 descriptors"),
        (8, words(&[0, 0]), vec![], "ring 0 of 0 descriptors"),
        (8, words(&[0, 65_536]), vec![], "ring 0 of 65536 descriptors"),
        (10, words(&[1, 65_536]), vec![], "ring 1 begins at 65536"),
        (12, longs(&[0]), vec![event()], "ring 0 is started before"),
        (12, longs(&[0]), vec![], "has 0 descriptors: expected 1"),
        (12, longs(&[256]), vec![event()], "has 1 descriptors: expected 0"),
        (12, longs(&[255]), vec![event()], "ring 255 of 2"),
        (13, longs(&[1]), pipe(), "not an eventfd"),
        (13, longs(&[1]), files(1), "not an eventfd"),
        (11, words(&[7, 0]), vec![], "ring 7 of 2"),
        (18, vec![0; 9], vec![], "has 9 bytes: expected 8"),
    ] {
        let fault = fault_of(request, body, files);
        assert!(fault.contains(expected), "request {request}: {fault}");
    }
}

#[test]
fn headers_are_checked_before_anything_is_read() {
    let header = |flags: u32, bytes: u32| {
        let all: [u8; HEADER_BYTES] = words(&[1, flags, bytes]).try_into().unwrap();
        Header::parse(&all)
    };
    assert!(header(1, BODY_BYTES_MAX as u32).is_ok());
    for flags in [0, 2, 3, 5, u32::MAX] {
        assert!(matches!(header(flags, 0), Err(Fault::Flags(_))), "{flags}");
    }
    assert!(matches!(header(1, BODY_BYTES_MAX as u32 + 1), Err(Fault::TooLong(_))));
    assert!(matches!(header(9, u32::MAX), Err(Fault::TooLong(u32::MAX))));
}

#[test]
fn f16_a_ring_that_runs_follows_its_memory_or_stops() {
    let mut guest = Guest::start();
    assert!(guest.device.lanes().lane(0).from.try_look(|ring| ring.fault()).is_some());
    assert!(matches!(guest.say(8, words(&[1, 32]), vec![]), Err(Fault::RingSize { .. })));
    assert!(matches!(guest.say(2, longs(&[0]), vec![]), Err(Fault::Changed { .. })));
    guest.set_memory().unwrap();
    assert!(guest.device.lanes().lane(0).from.try_look(|ring| ring.fault()).is_some());
    // Memory that does not contain the rings.
    let elsewhere = [words(&[1, 0]), longs(&[GUEST, MEMORY, 4096, 0])].concat();
    guest.say(5, elsewhere, vec![file()]).unwrap();
    assert!(guest.device.lanes().lane(0).from.take().is_none());
    // The front-end may start the ring again.
    guest.set_memory().unwrap();
    guest.start_ring(1, 7).unwrap();
    let answer = guest.say(11, words(&[1, 0]), vec![]).unwrap().unwrap();
    assert_eq!(answer[HEADER_BYTES..], words(&[1, 7]));
    assert!(guest.device.lanes().lane(0).from.take().is_none());
}

#[test]
fn f14_any_messages_in_any_order_leave_no_descriptor_and_no_memory() {
    let rounds: u64 = std::env::var("BURSTLINE_MESSAGES").map_or(200_000, |n| n.parse().unwrap());
    let mut seed = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % most
    };
    let before = descriptors();
    let device = device();
    let (mut session, mut carried_out, mut faults) = (Session::new(device.clone()), 0u64, 0u64);
    for _ in 0..rounds {
        let request = match random(8) {
            0 => random(45) as u32,
            1 => 5,
            _ => [2, 8, 9, 10, 11, 12, 13, 16, 18, 37, 38][random(11) as usize],
        };
        let ring = random(3) as u32;
        let mut body = match request {
            2 => longs(&[[0, 1 << 32 | 1 << 30, 1 << 29][random(3) as usize]]),
            16 => longs(&[random(16)]),
            5 => [words(&[1, 0]), longs(&[GUEST, MEMORY, FRONT, 0])].concat(),
            8 => words(&[ring, [SIZE.into(), 32_768, 1, 3][random(4) as usize]]),
            9 => {
                let place = |random: &mut dyn FnMut(u64) -> u64| FRONT + 4096 * random(300);
                let places = [place(&mut random), place(&mut random), place(&mut random)];
                [words(&[ring, 0]), longs(&places), longs(&[0])].concat()
            }
            10 | 11 | 18 => words(&[ring, random(70_000) as u32]),
            12..=14 => longs(&[u64::from(ring) | random(2) << 8]),
            37 | 38 => {
                let at = GUEST + MEMORY * random(40);
                longs(&[0, at, MEMORY, FRONT + at, 4096 * random(2)])
            }
            _ => vec![0; random(64) as usize],
        };
        if random(50) == 0 {
            body.truncate(random(body.len() as u64 + 1) as usize);
        }
        let wanted = match request {
            5 | 37 => 1,
            12..=14 => usize::from(body.get(1) == Some(&0)),
            _ => 0,
        };
        let count = if random(50) == 0 { random(4) as usize } else { wanted };
        let is_event = (12..=14).contains(&request) != (random(100) == 0);
        let files = (0..count).map(|_| if is_event { event() } else { file() }).collect();
        match session.handle(message(request, body, files)) {
            Ok(_) => carried_out += 1,
            Err(_) => {
                faults += 1;
                session = Session::new(device.clone());
            }
        }
    }
    drop(session);
    assert!(
        device.lanes().lane(0).from.take().is_none() && device.lanes().lane(0).to.take().is_none()
    );
    drop(device);
    assert!(carried_out > rounds / 4 && faults > rounds / 20, "{carried_out} {faults}");
    // Other tests of this process have some, too, until they end.
    let began = Instant::now();
    while descriptors() > before + 8 {
        assert!(began.elapsed() < Duration::from_secs(300), "{before} {}", descriptors());
        thread::sleep(Duration::from_millis(10));
    }
}

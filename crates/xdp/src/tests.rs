//! Tests of sending. Receiving needs a program, and is tested by the port.

use std::fmt::Display;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use super::*;
use burstline_afpacket::{AfPacketError, Ring, RingOptions};
use burstline_skip::skip;
use burstline_sys::interface::LinkState;
use burstline_sys::namespace::enter_new_network;

/// Long enough for a busy machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) fn ip(command: &str) {
    assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success(), "{command}");
}

/// Makes a veth pair, `v0` and `v1`, in the namespace of this thread.
pub(super) fn make_pair() {
    ["link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"]
        .into_iter()
        .for_each(ip);
}

/// Runs a test on its own thread. An error that `excuses` accepts is reported, and is no failure.
pub(super) fn run_or_skip<E: Display + Send + 'static>(
    work: impl FnOnce() -> Result<(), E> + Send + 'static,
    excuses: fn(&E) -> bool,
) {
    match thread::spawn(work).join() {
        Ok(Ok(())) => {}
        Ok(Err(error)) if excuses(&error) => skip(error),
        Ok(Err(error)) => panic!("{error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Runs a test in a namespace with a veth pair, `v0` and `v1`; reports if it may not.
pub(super) fn with_pair(job: impl FnOnce() + Send + 'static) {
    let work = move || {
        enter_new_network().map_err(XdpError::system("v0", "unshare(CLONE_NEWNET)"))?;
        // Only the test shall send packets. A kernel without IPv6 has no such file.
        for which in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{which}/disable_ipv6"), "1");
        }
        make_pair();
        Sender::open("v0", 0, &SenderOptions::default())?;
        job();
        Ok::<_, XdpError>(())
    };
    run_or_skip(work, |error| {
        matches!(error, XdpError::NotPermitted { .. } | XdpError::NoMemory { .. })
    });
}

/// Receives wanted packets, up to `count`.
pub(super) fn arrived_where(
    ring: &mut Ring,
    count: usize,
    is_wanted: impl Fn(&[u8]) -> bool,
) -> Vec<Vec<u8>> {
    let (mut all, start) = (Vec::new(), Instant::now());
    while all.len() < count {
        assert!(start.elapsed() < PATIENCE, "{} of {count}", all.len());
        let Some(mut block) = ring.next_block() else {
            thread::yield_now();
            continue;
        };
        let mut places = Vec::new();
        while let Some(packet) = block.next_packet() {
            places.push((packet.offset as usize, packet.length as usize));
        }
        let bytes = block.into_bytes();
        let frames = places.into_iter().map(|(at, length)| bytes[at..at + length].to_vec());
        all.extend(frames.filter(|frame| is_wanted(frame)));
    }
    all
}

pub(super) fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(length, number as u8);
    frame
}

#[test]
fn what_is_sent_arrives_and_its_frames_come_back() {
    with_pair(|| {
        for (needs_wakeup, frame_bytes) in [(true, 2048), (false, 2048), (true, 4096)] {
            let default = SenderOptions::default();
            let options = SenderOptions { frames: 64, needs_wakeup, frame_bytes, ..default };
            let mut sender = Sender::open("v0", 0, &options).unwrap();
            let ring = Ring::open("v1", &RingOptions::default());
            let mut ring = ring.map_err(|error: AfPacketError| error.to_string()).unwrap();
            let frames: Vec<Vec<u8>> =
                (0..1_000).map(|number| frame(number, 60 + number as usize)).collect();
            let start = Instant::now();
            for frame in &frames {
                while !sender.push(frame) {
                    sender.send().unwrap();
                    sender.reclaim().unwrap();
                    assert!(start.elapsed() < PATIENCE, "{:?}", sender.counts());
                }
            }
            while sender.counts().completed < 1_000 {
                sender.send().unwrap();
                sender.reclaim().unwrap();
                assert!(start.elapsed() < PATIENCE, "{:?}", sender.counts());
            }
            let is_ours = |frame: &[u8]| frame[12..14] == [0x88, 0xb5];
            assert!(arrived_where(&mut ring, frames.len(), is_ours) == frames);
            let all = SenderCounts { pushed: 1_000, completed: 1_000, refused: 0 };
            assert_eq!((sender.counts(), sender.waiting()), (all, 0));
        }
    });
}

#[test]
fn what_the_driver_drops_is_counted_and_what_waits_is_kept() {
    with_pair(|| {
        let mut sender = Sender::open("v0", 0, &SenderOptions::default()).unwrap();
        let send = |sender: &mut Sender, count| {
            (0..count).for_each(|number| assert!(sender.push(&frame(number, 60))));
            sender.send()
        };
        assert!(send(&mut sender, 10).unwrap());
        // No carrier: the kernel drops every packet.
        ip("link set v1 down");
        assert!(send(&mut sender, 20).unwrap());
        assert_eq!((sender.counts().refused, sender.waiting()), (20, 0));
        // Down: the kernel takes no packet until it is up again.
        ip("link set v0 down");
        assert!(!send(&mut sender, 30).unwrap());
        assert_eq!(sender.waiting(), 30);
        ip("link set v1 up");
        ip("link set v0 up");
        let start = Instant::now();
        while sender.counts().completed < 60 {
            sender.send().unwrap();
            sender.reclaim().unwrap();
            assert!(start.elapsed() < PATIENCE, "{:?}", sender.counts());
        }
        assert_eq!(sender.waiting(), 0);
        ip("link delete v0");
        assert!(send(&mut sender, 5).is_err());
        assert_eq!((sender.waiting(), sender.link_state().unwrap()), (5, LinkState::Gone));
    });
}

#[test]
fn a_rehearsal_leaves_the_queue_free_and_a_new_socket_has_lost_nothing() {
    with_pair(|| {
        let options = SocketOptions { needs_wakeup: false, ..SocketOptions::default() };
        Socket::rehearse("v0", 0, &options).unwrap();
        let socket = Socket::open("v0", 0, &options).unwrap();
        assert!(Socket::open("v0", 0, &options).is_err(), "a queue has one socket");
        socket.wake_kernel();
        assert_eq!(socket.statistics().unwrap(), SocketStatistics::default());
        assert_eq!(socket.in_ring(), 0);
        assert!(matches!(socket.link_state().unwrap(), LinkState::Present(_)));
    });
}

#[test]
fn an_address_with_a_label_is_its_interfaces() {
    with_pair(|| {
        ip("address add 10.9.9.9/24 dev v0 label v0:login");
        assert!(
            burstline_sys::interface::addresses()
                .contains(&("v0".to_owned(), [10, 9, 9, 9].into()))
        );
    });
}

#[test]
fn shapes_that_make_no_sense_are_refused() {
    let good = SocketOptions::default();
    for options in [
        SocketOptions { frames: 100, ..good.clone() },
        SocketOptions { frames: 32, ..good.clone() },
        SocketOptions { frame_bytes: 1024, ..good.clone() },
        SocketOptions { rx_entries: 0, ..good.clone() },
        SocketOptions { frames: 1 << 20, frame_bytes: 4096, ..good.clone() },
    ] {
        let error = Socket::open("lo", 0, &options).err().unwrap();
        assert!(matches!(error, XdpError::BadShape { .. }), "{error}");
    }
    for (frames, frame_bytes) in [(65, 2048), (32, 2048), (64, 1024), (1 << 20, 4096)] {
        let options = SenderOptions { frames, frame_bytes, ..SenderOptions::default() };
        let error = Sender::open("lo", 0, &options).err().unwrap();
        assert!(matches!(error, XdpError::BadShape { .. }), "{error}");
    }
}

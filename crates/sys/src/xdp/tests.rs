//! Sending. Receiving takes a program, and is tested by the port.

use std::io::Write;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::afpacket::{AfPacketError, Ring, RingOptions};
use crate::namespace::enter_new_network;

/// Long enough for a crowded machine; only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs a test in a namespace with a veth pair, `v0` and `v1`; says aloud if it may not.
fn with_pair(test: &str, job: impl FnOnce() + Send + 'static) {
    let outcome = thread::spawn(move || {
        enter_new_network().map_err(XdpError::system("v0", "unshare(CLONE_NEWNET)"))?;
        for command in ["link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"] {
            assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success());
        }
        Socket::open("v0", 0, &SocketOptions::default())?;
        job();
        Ok::<_, XdpError>(())
    });
    match outcome.join() {
        Ok(Ok(())) => {}
        Ok(Err(error @ (XdpError::NotPermitted { .. } | XdpError::NoMemory { .. }))) => {
            // Nobody is left to tell if this fails.
            let _ = writeln!(std::io::stderr(), "skipped: {test}: {error}");
        }
        Ok(Err(error)) => panic!("{error}"),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Takes what arrives that is ours, up to `count` packets.
fn arrived(ring: &mut Ring, count: usize) -> Vec<Vec<u8>> {
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
        all.extend(frames.filter(|frame| frame[12..14] == [0x88, 0xb5]));
    }
    all
}

fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![0xff; 12];
    frame.extend([0x88, 0xb5]);
    frame.extend(number.to_be_bytes());
    frame.resize(length, number as u8);
    frame
}

#[test]
fn what_is_sent_arrives_and_its_frames_come_back() {
    with_pair("what_is_sent_arrives_and_its_frames_come_back", || {
        for (needs_wakeup, frame_bytes) in [(true, 2048), (false, 2048), (true, 4096)] {
            let options = SocketOptions {
                frames: 64,
                rx_entries: 64,
                tx_frames: 64,
                needs_wakeup,
                frame_bytes,
                ..SocketOptions::default()
            };
            let mut socket = Socket::open("v0", 0, &options).unwrap();
            let ring = Ring::open("v1", &RingOptions::default());
            let mut ring = ring.map_err(|error: AfPacketError| error.to_string()).unwrap();
            let frames: Vec<Vec<u8>> =
                (0..1_000).map(|number| frame(number, 60 + number as usize)).collect();
            let (mut sent, start) = (0, Instant::now());
            while sent < frames.len() {
                let batch: Vec<&[u8]> = frames[sent..].iter().map(Vec::as_slice).collect();
                sent += socket.send(&batch).unwrap();
                assert!(start.elapsed() < PATIENCE, "{sent} were sent");
            }
            while socket.complete() > 0 {
                // What the device had no room for is tried again.
                socket.send(&[]).unwrap();
                assert!(start.elapsed() < PATIENCE, "{} are in flight", socket.complete());
            }
            assert!(arrived(&mut ring, frames.len()) == frames);
            assert_eq!(socket.statistics().unwrap(), SocketStatistics::default());
        }
    });
}

#[test]
fn an_address_with_a_label_is_its_interfaces() {
    with_pair("an_address_with_a_label_is_its_interfaces", || {
        let command = "address add 10.9.9.9/24 dev v0 label v0:login";
        assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success());
        assert!(addresses().contains(&("v0".to_owned(), [10, 9, 9, 9].into())));
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
        SocketOptions { tx_frames: 65, ..good.clone() },
        SocketOptions { frames: 1 << 20, frame_bytes: 4096, ..good.clone() },
    ] {
        let error = Socket::open("lo", 0, &options).err().unwrap();
        assert!(matches!(error, XdpError::BadShape { .. }), "{error}");
    }
}

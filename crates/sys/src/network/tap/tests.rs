use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use burstline_skip::skip;

use super::*;
use crate::namespace;

/// Runs a test in a network namespace, or reports why it cannot.
pub(crate) fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let worker = thread::spawn(move || namespace::enter_new_network().map(|()| test()));
    if let Err(error) = worker.join().unwrap() {
        skip(error);
    }
}

pub(crate) fn ip(command: &str) {
    assert!(Command::new("ip").args(command.split(' ')).status().unwrap().success(), "{command}");
}

/// Retries `find` for up to a minute: a program started by another test holds copies of all
/// descriptors until exec, and they keep a device alive.
fn soon<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        match find() {
            None if began.elapsed() < Duration::from_secs(60) => {
                thread::sleep(Duration::from_millis(1));
            }
            found => return found,
        }
    }
}

fn is_gone_soon(name: &str) -> bool {
    let gone = || namespace::interface_index(name).unwrap().is_none().then_some(());
    soon(gone).is_some()
}

#[test]
fn a_device_lives_as_long_as_its_descriptors_unless_it_is_persistent() {
    in_namespace(|| {
        let options = TapOptions { mtu: Some(9000), ..TapOptions::default() };
        let tap = Tap::open("t0", &options).unwrap();
        assert!(tap.interface().is_up && tap.interface().mtu == 9000);
        assert_eq!(tap.counts(), Some(TapCounts::default()));
        assert!(matches!(Tap::open("t0", &options), Err(TapError::Busy { .. })));
        drop(tap);
        assert!(is_gone_soon("t0"));
        let kept = TapOptions { is_persistent: true, ..options.clone() };
        drop(Tap::open("t0", &kept).unwrap());
        assert!(namespace::interface_index("t0").unwrap().is_some());
        let again = soon(|| Tap::open("t0", &options).ok());
        drop(again.expect("nobody has it any more"));
        let index = namespace::interface_index("t0").unwrap();
        assert!(index.is_some(), "it was there before, so it is not ours to end");
    });
}

/// Another program, or this one with other options, had the device before.
#[test]
fn what_a_device_was_left_with_is_of_no_account() {
    in_namespace(|| {
        let passing =
            TapOptions { passes_offloads: true, is_persistent: true, ..TapOptions::default() };
        drop(Tap::open("t3", &passing).unwrap());
        let again = || soon(|| Tap::open("t3", &TapOptions::default()).ok()).unwrap();
        let segments = || {
            let said = Command::new("ethtool").args(["-k", "t3"]).output().ok()?;
            let said = String::from_utf8_lossy(&said.stdout).into_owned();
            let line = said.lines().find(|line| line.starts_with("tcp-segmentation-offload:"))?;
            Some(line.ends_with(" on"))
        };
        let tap = again();
        assert!(segments().is_none_or(|are_on| !are_on), "packets would come merged and unmarked");
        drop(tap);
        // QEMU's devices have headers of 12 bytes.
        let tap = soon(|| Tap::open("t3", &passing).ok()).unwrap();
        let header_bytes = 12;
        let device = tap.queues[0].as_raw_fd();
        // SAFETY: the call reads an integer, which lives longer than it.
        let set = unsafe { libc::ioctl(device, 0x4004_54d8, &raw const header_bytes) };
        assert_eq!(set, 0);
        drop(tap);
        let tap = soon(|| Tap::open("t3", &passing).ok()).unwrap();
        ip("address add 10.9.8.1/24 dev t3");
        ip("neighbour add 10.9.8.2 lladdr 02:00:00:00:00:02 dev t3");
        let sender = UdpSocket::bind("10.9.8.1:0").unwrap();
        sender.send_to(b"whole", "10.9.8.2:9").unwrap();
        let mut room = [0; 2000];
        let found = soon(|| match tap.receive(0, &mut room).unwrap() {
            Some((bytes, _)) if room[..bytes].ends_with(b"whole") => Some(bytes),
            _ => None,
        });
        assert_eq!(found, Some(14 + 20 + 8 + 5));
        assert_eq!(room[..6], [2, 0, 0, 0, 0, 2], "the frame begins where it begins");
    });
}

#[test]
fn what_cannot_be_a_tap_is_said() {
    in_namespace(|| {
        for name in ["lo", "a/b", "a-name-that-is-too-long"] {
            let error = Tap::open(name, &TapOptions::default()).unwrap_err();
            assert!(matches!(error, TapError::NotATap { .. }), "{name}: {error}");
        }
        let two = TapOptions { queues: 2, is_persistent: true, ..TapOptions::default() };
        drop(Tap::open("t1", &two).unwrap());
        let error = Tap::open("t1", &TapOptions::default()).unwrap_err();
        assert!(matches!(error, TapError::NotATap { .. }), "{error}");
    });
}

#[test]
fn packets_come_and_go_and_the_kernel_counts_them() {
    in_namespace(|| {
        let (frame, payload) = ([0xff; 60], b"a datagram of ours");
        for queues in [1, 3] {
            let options = TapOptions { queues, depth: 64, ..TapOptions::default() };
            let tap = Tap::open("t2", &options).unwrap();
            ip("address add 10.9.9.1/24 dev t2");
            ip("neighbour add 10.9.9.2 lladdr 02:00:00:00:00:02 dev t2");
            let sender = UdpSocket::bind("10.9.9.1:0").unwrap();
            for _ in 0..2 {
                assert_eq!(sender.send_to(payload, "10.9.9.2:9").unwrap(), payload.len());
            }
            let ready = crate::readiness::wait(&[tap.as_fd()], 5_000_000_000).unwrap();
            assert_eq!(ready, crate::readiness::Ready::Readable);
            let (mut room, mut got) = ([0; 2000], 0);
            for queue in 0..tap.queues() {
                while let Some((bytes, _)) = tap.receive(queue, &mut room).unwrap() {
                    // The kernel sends packets, too.
                    got += usize::from(room[..bytes].ends_with(payload));
                }
            }
            assert_eq!(got, 2);
            assert!(tap.counts().unwrap().taken >= 2);
            assert!(tap.send(0, &frame, &Offload::default()).unwrap());
            assert!(matches!(tap.link_state().unwrap(), LinkState::Present(_)));
            drop(tap);
            assert!(is_gone_soon("t2"));
        }
    });
}

#[test]
fn without_the_right_to_change_it_the_depth_stays_and_is_told() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

    in_namespace(|| {
        let tap = Tap::open("t0", &TapOptions::default()).unwrap();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        assert_eq!(requests::set_depth(&socket, "t0", 77).unwrap(), 77);
        // Of this thread alone.
        let mut rights = capabilities(None).unwrap();
        rights.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, rights).unwrap();
        assert_eq!(requests::set_depth(&socket, "t0", 99).unwrap(), 77);
        drop(tap);
    });
}

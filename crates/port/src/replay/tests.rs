use std::fs;
use std::path::{Path, PathBuf};

use burstline_log::Scratch;
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::rewrite::Rewrite;

use super::*;
use crate::{OpenOptions, PortState, Source};

/// Writes a classic capture with times in us: packets of 60 bytes, each filled with its number.
fn capture(folder: &TemporaryFolder, times_us: &[u32]) -> PathBuf {
    let words = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 262_144, 1];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    for (number, time_us) in times_us.iter().enumerate() {
        bytes.extend([7, *time_us, 60, 60].into_iter().flat_map(u32::to_le_bytes));
        bytes.extend([number as u8; 60]);
    }
    let path = folder.path().join("packets.pcap");
    fs::write(&path, bytes).unwrap();
    path
}

fn replay(timing: Timing, passes: Option<u64>) -> ReplayOptions {
    let routes = Routes::new(Vec::new(), Some(0), vec![true]);
    ReplayOptions { timing, passes, rewrite: Rewrite::default(), routes }
}

/// Returns first byte and time of all packets, until the end.
fn play(port: &mut dyn Source, most: usize) -> Vec<(u8, u64)> {
    let (mut scratch, mut all) = (Scratch::new(), Vec::new());
    while all.len() < most {
        let lent = port.lend(&mut scratch, 3.min((most - all.len()) as u64)).unwrap();
        all.extend(lent.burst.packets().map(|packet| (packet.bytes()[0], packet.time_ns())));
        if lent.state == PortState::Ended {
            break;
        }
    }
    all
}

fn open(path: &Path, replay: ReplayOptions) -> Box<dyn Source> {
    let address: Address = path.display().to_string().parse().unwrap();
    open_replay(&[address.clone(), address], replay, &OpenOptions::default()).unwrap()
}

#[test]
fn at_top_speed_times_are_the_files_and_files_follow_each_other() {
    let folder = TemporaryFolder::create("burstline-replay-").unwrap();
    let path = capture(&folder, &[5, 6, 9, 8]);
    let mut port = open(&path, replay(Timing::TopSpeed, Some(1)));
    let played = play(&mut *port, usize::MAX);
    let once = [(0, 5), (1, 6), (2, 9), (3, 8)];
    let wanted: Vec<_> =
        once.iter().chain(&once).map(|&(n, us)| (n, 7_000_000_000 + us * 1000)).collect();
    assert_eq!(played, wanted);
    assert!(port.pacing().is_none());
}

#[test]
fn what_is_lent_is_due_and_the_account_closes_at_any_point() {
    let folder = TemporaryFolder::create("burstline-replay-").unwrap();
    let path = capture(&folder, &[10, 20, 2_000]);
    let mut port = open(&path, replay(Timing::Original { speed: 1.0 }, Some(1)));
    let played = play(&mut *port, 4);
    let since: Vec<_> = played.iter().map(|(n, time)| (*n, time - played[0].1)).collect();
    assert_eq!(since, [(0, 0), (1, 10_000), (2, 1_990_000), (0, 1_990_000)]);
    let account = port.account();
    assert_eq!(account.offered - account.in_flight, 4, "the rest waits");
    assert!(account.in_flight > 0);
    let pacing = port.pacing().unwrap();
    assert!((pacing.packets_per_s - 3e9 / 1_990_000.0).abs() < 1e-6, "{pacing:?}");
}

#[test]
fn loops_open_the_files_again_and_an_empty_file_ends_them() {
    let folder = TemporaryFolder::create("burstline-replay-").unwrap();
    let path = capture(&folder, &[1, 2]);
    let address: Address = path.display().to_string().parse().unwrap();
    let options = OpenOptions::default();
    let files = std::slice::from_ref(&address);
    let mut port = open_replay(files, replay(Timing::TopSpeed, Some(3)), &options).unwrap();
    let numbers: Vec<u8> = play(&mut *port, 100).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 0, 1, 0, 1]);
    assert_eq!(port.account().offered, 6);
    let mut endless = open_replay(files, replay(Timing::TopSpeed, None), &options).unwrap();
    assert_eq!(play(&mut *endless, 1000).len(), 1000);
    capture(&folder, &[]);
    let mut empty = open_replay(files, replay(Timing::TopSpeed, None), &options).unwrap();
    assert_eq!(play(&mut *empty, 1), []);
}

#[test]
fn an_interface_that_is_mapped_nowhere_is_counted() {
    let folder = TemporaryFolder::create("burstline-replay-").unwrap();
    let path = capture(&folder, &[1, 2, 3]);
    let mut options = replay(Timing::TopSpeed, Some(1));
    options.routes = Routes::new(vec![(InterfaceKey::Number(1), 0)], None, vec![true]);
    let mut port = open(&path, options);
    assert_eq!(play(&mut *port, 10), []);
    let account = port.account();
    assert_eq!((account.offered, account.lost.of(crate::Loss::Unmapped)), (6, 6));
}

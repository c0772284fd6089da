//! The rights of threads in jobs with `dpdk:` ports: DPDK's own threads are nobody's, too, and
//! packets pass for all that.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use burstline_testbed::{Bed, FAR, NEAR};
use serde_json::Value;

use crate::support::endless::{Endless, end, spawn, start};
use crate::support::live::{Live, children, send_frames, send_frames_from, wait_until};
use crate::support::rights::{assert_all_nobodys, assert_nobodys, held, nobody, rights};
use crate::support::{Directory, assert_closed, command};

const NULL: &str = "dpdk:net_null0?huge=no&memory=128&pool=4095";
const OTHER: &str = "dpdk:net_null1?huge=no&memory=128&pool=4095";
const MEMORY: &str = "huge=no&memory=128";
/// Fewer than the shortest ring has slots: a busy machine loses none.
const FRAMES: u64 = 200;

/// Checks that EAL left no file of this process.
fn assert_nothing_is_left(process: u32) {
    for folder in ["/var/run/dpdk", "/dev/hugepages", "/tmp/dpdk"] {
        let names = fs::read_dir(folder).into_iter().flatten().flatten();
        let ours = names.map(|entry| entry.file_name()).filter(|name| is_of(process, name));
        assert_eq!(ours.count(), 0, "{folder}");
    }
}

/// Returns whether an EAL file belongs to this process; a longer number is another process.
fn is_of(process: u32, name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let rest = name.strip_prefix(&format!("burstline-{process}"));
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}

#[test]
fn its_threads_are_nobodys_in_every_job() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("dpdk-rights");
    let tree = directory.file("flows");
    for job in [
        &["count", NULL][..],
        &["capture", NULL, "-w", "/dev/null"],
        &["bounce", NULL, OTHER, "--rewrite", "swap"],
        &["generate", "-o", NULL, "--rate", "100k"],
        &["merge", NULL, OTHER, "-w", "/dev/null"],
        &["balance", NULL, "--workers", "2", "-o", "null:"],
        &["flows", NULL, "-o", &tree],
        &["switch", "--port", "gen:?rate=1000&pace=yes", "--port", NULL],
    ] {
        let running = start(job);
        let process = running.child.id();
        assert!(held(process).len() > 4, "{job:?}: DPDK has threads");
        assert_all_nobodys(process, &nobody);
        assert_closed(&end(running, "-INT"));
        assert_nothing_is_left(process);
    }
}

/// Root's helper opens the next file, in a folder that is root's alone.
#[test]
fn a_rotation_goes_on_as_nobody() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("dpdk-rotation");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let (file, name) = (directory.file("x.pcapng"), directory.file("tap"));
    let rotation = ["-b", "packets:100000", "-b", "files:3"];
    let job = [&["capture", NULL, "-w", &file], &rotation[..], &["--publish", &name]].concat();
    let running = start(&job);
    let process = running.child.id();
    assert_all_nobodys(process, &nobody);
    let helper = *children(process).first().expect("a job of later files has a helper");
    for held in rights(helper) {
        assert_eq!((held.user, held.capabilities, held.bounding), (0, 0, 0), "{held:?}");
    }
    let files = || {
        let entries = fs::read_dir(&directory.0).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().contains("pcapng")).count()
    };
    wait_until("there are further files", || files() >= 3);
    assert_closed(&end(running, "-INT"));
    assert!(!Path::new(&name).exists(), "the name is gone with its job");
    for entry in fs::read_dir(&directory.0).unwrap().flatten() {
        assert_eq!(entry.metadata().unwrap().uid(), 0, "{entry:?}");
    }
    assert_nothing_is_left(process);
}

/// Returns what a job has delivered by its last whole line.
fn delivered(live: &Live) -> u64 {
    let text = live.text();
    let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.next_back().map_or(0, |interval| interval["delivered"].as_u64().unwrap_or(0))
}

/// Kernel interfaces below DPDK's drivers: their sockets and devices were opened by root.
#[test]
fn packets_of_interfaces_are_counted_as_nobody() {
    let Some(nobody) = nobody() else { return };
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("dpdk-interfaces");
    for (device, host, sender) in [
        (format!("net_af_packet0,iface={FAR}"), &bed.far, NEAR),
        ("net_tap0,iface=burstdpdk".to_owned(), &bed.near, "burstdpdk"),
        (format!("net_af_xdp0,iface={FAR}"), &bed.far, NEAR),
    ] {
        let job = format!("count 'dpdk:{device}?{MEMORY}'");
        let live = Live::start_on(host, &directory, &job);
        let process = live.program.process_id();
        assert_all_nobodys(process, &nobody);
        match sender {
            NEAR => send_frames(&bed, FRAMES),
            other => send_frames_from(&bed, other, FRAMES),
        };
        wait_until(&format!("{device}: all came"), || delivered(&live) >= FRAMES);
        live.stop();
        assert_nothing_is_left(process);
    }
}

/// Starts a job of one port and waits until its first interval.
fn started(words: &[&str]) -> Endless {
    let mut job = spawn(command(words));
    job.wait_for(|interval| interval["delivered"].is_u64());
    job
}

/// A peer comes when DPDK's threads are nobody's. At the end the helper removes the socket.
#[test]
fn a_peer_is_served_as_nobody_and_its_socket_is_removed() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("dpdk-peers");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let socket = directory.file("socket");
    for [ours, theirs] in [
        ["net_vhost0,iface=SOCKET", "net_virtio_user0,path=SOCKET"],
        [
            "net_memif0,role=server,id=0,socket=SOCKET,socket-abstract=no",
            "net_memif0,role=client,id=0,socket=SOCKET,socket-abstract=no",
        ],
    ] {
        let address = |device: &str| format!("dpdk:{}?{MEMORY}", device.replace("SOCKET", &socket));
        let mut count = started(&["count", &address(ours)]);
        let process = count.child.id();
        assert_all_nobodys(process, &nobody);
        assert!(Path::new(&socket).exists(), "{ours}");
        let generate = started(&["generate", "-o", &address(theirs), "--rate", "10k"]);
        assert_all_nobodys(generate.child.id(), &nobody);
        count.wait_for(|interval| interval["delivered"].as_u64() > Some(FRAMES));
        assert_nobodys(process, &nobody);
        assert_closed(&end(generate, "-INT"));
        assert_closed(&end(count, "-INT"));
        assert!(!Path::new(&socket).exists(), "{ours}: its socket is gone");
        assert_nothing_is_left(process);
    }
}

//! DPDK devices that have all their packets, or will have generated them, when finished; and pairs
//! of devices of which one sends to the other.

use std::cell::LazyCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use burstline_port::Source;
use burstline_testbed::{Bed, Host};

use crate::backends::{Backend, PACKETS, options};
use crate::common::{Folder, sink, source};
use crate::fed::Fed;
use crate::remote::{OtherEnd, Remote};

/// Over interfaces: a source, its sender, and whether they are the ends of a veth pair, or of an
/// interface created by the source. Names must differ: `#` is a number.
const OVER_INTERFACES: [(&str, &str, bool); 3] = [
    ("dpdk:net_af_packet1#,iface=b#?pool=2047", "dpdk:net_af_packet2#,iface=a#?pool=2047", true),
    ("dpdk:net_af_xdp#,iface=b#?pool=4095", "afpacket:a#", true),
    ("dpdk:net_tap#,iface=t#?pool=2047", "afpacket:t#", false),
];

/// Over memory shared by two processes: a source, its sender, and whether the source listens at
/// `SOCKET`. The listening end is opened first and closed first.
const OVER_MEMORY: [(&str, &str, bool); 4] = [
    (
        "dpdk:net_memif#,role=server,id=0,socket=SOCKET,socket-abstract=no?pool=2047",
        "dpdk:net_memif#,role=client,id=0,socket=SOCKET,socket-abstract=no?wait_ms=0",
        true,
    ),
    (
        "dpdk:net_memif#,role=client,id=0,socket=SOCKET,socket-abstract=no?pool=2047",
        "dpdk:net_memif#,role=server,id=0,socket=SOCKET,socket-abstract=no?wait_ms=0",
        false,
    ),
    (
        "dpdk:net_vhost#,iface=SOCKET?pool=2047",
        "dpdk:net_virtio_user#,path=SOCKET?ring=256&wait_ms=0",
        true,
    ),
    (
        "dpdk:net_virtio_user#,path=SOCKET?ring=256&pool=2047",
        "dpdk:net_vhost#,iface=SOCKET?wait_ms=0",
        false,
    ),
];

/// All tests share one EAL, so device names must be unique.
fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Returns a source that takes `PACKETS` more: at the end it takes a ring of packets.
fn finished(device: &str, ring: u64) -> Box<dyn Source> {
    let mut port = source(&format!("dpdk:{device}?ring={ring}&pool=4095"), &options()).unwrap();
    port.finish().unwrap();
    port
}

fn open_source(address: &str) -> Box<dyn Source> {
    source(address, &options()).unwrap_or_else(|error| panic!("{address}: {error}"))
}

/// Opens a source and its sender.
fn fed(from: &str, to: &str) -> Fed {
    let from = open_source(from);
    let to = sink(to, &options()).unwrap_or_else(|error| panic!("{to}: {error}"));
    Fed::new(from, to)
}

/// As `fed`, in a network with a separate veth pair, if needed: net_af_xdp's queue stays taken for
/// some time after it was closed.
fn fed_over_interface(host: &Host, [from, to]: [&str; 2], has_cable: bool) -> Fed {
    let number = number().to_string();
    if has_cable {
        let [a, b] = ["a", "b"].map(|end| format!("{end}{number}"));
        let make = ["link", "add", &a, "type", "veth", "peer", "name", &b];
        host.command("ip", &make).unwrap();
        for end in [&a, &b] {
            host.command("ip", &["link", "set", end, "up"]).unwrap();
        }
    }
    let [from, to] = [from, to].map(|address| address.replace('#', &number));
    host.run(move || fed(&from, &to))
}

fn over_interfaces() -> Vec<Backend> {
    let Some(bed) = Bed::or_skip().map(Rc::new) else { return Vec::new() };
    let backends = OVER_INTERFACES.into_iter().map(|(from, to, has_cable)| {
        let bed = Rc::clone(&bed);
        let open = move || -> Box<dyn Source> {
            Box::new(fed_over_interface(&bed.near, [from, to], has_cable))
        };
        Backend::new(from, open)
    });
    backends.collect()
}

/// As `fed`, with the sender in another process: two ends in one process race in DPDK's threads.
/// The source is closed first.
fn fed_from(other: &Arc<OtherEnd>, socket: &str, addresses: [&str; 2], is_first: bool) -> Fed {
    let number = number().to_string();
    let socket = format!("{socket}{number}");
    let [from, to] =
        addresses.map(|address| address.replace('#', &number).replace("SOCKET", &socket));
    let first = is_first.then(|| open_source(&from));
    let to = Remote::open(other, &to);
    Fed::new(first.unwrap_or_else(|| open_source(&from)), Box::new(to))
}

fn over_memory(folder: &Folder) -> impl Iterator<Item = Backend> {
    let other = Rc::new(LazyCell::new(OtherEnd::start));
    let socket = folder.path("socket").display().to_string();
    OVER_MEMORY.into_iter().map(move |(from, to, is_first)| {
        let (other, socket) = (Rc::clone(&other), socket.clone());
        let open = move || -> Box<dyn Source> {
            Box::new(fed_from(&other, &socket, [from, to], is_first))
        };
        // A vhost server checks for connections once a second.
        let is_slow = [from, to].iter().any(|address| address.contains("net_vhost"));
        Backend { is_slow, ..Backend::new(from, open) }
    })
}

/// Returns all devices; the folder must outlive them.
pub(crate) fn devices(folder: &Folder) -> Vec<Backend> {
    let null =
        Backend::new("dpdk:net_null", || finished(&format!("net_null{}", number()), PACKETS));
    let file = folder.path("us.pcap").display().to_string();
    let pcap = Backend::new("dpdk:net_pcap", move || {
        finished(&format!("net_pcap{},rx_pcap={file}", number()), PACKETS)
    });
    let ring = Backend::new("dpdk:net_ring", move || {
        let ring = format!("dpdk:net_ring{}?pool=2047&wait_ms=0", number());
        Box::new(fed(&ring, &ring))
    });
    let alone = [null, pcap, ring].into_iter();
    let all = alone.chain(over_interfaces()).chain(over_memory(folder));
    all.map(|backend| Backend { is_live: true, ..backend }).collect()
}

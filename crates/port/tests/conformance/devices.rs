//! Devices of DPDK's that have all their packets, or will have made them, when they are finished;
//! and pairs of devices, of which one sends to the other.

use std::sync::atomic::{AtomicU32, Ordering};

use burstline_port::Port;
use burstline_testbed::Bed;

use crate::backends::{Backend, PACKETS, options};
use crate::common::{Folder, sink, source};
use crate::fed::Fed;

/// EAL is one for all tests, so no two devices have one name.
fn number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A source that takes `PACKETS` more: a ring of packets is what it takes at the end.
fn finished(device: &str, ring: u64) -> Box<dyn Port> {
    let mut port = source(&format!("dpdk:{device}?ring={ring}&pool=4095"), &options()).unwrap();
    port.finish().unwrap();
    port
}

/// A source and who sends to it; each address has a number in place of each `#`.
fn fed(addresses: [&str; 2]) -> Fed {
    let number = number();
    let [from, to] = addresses.map(|address| address.replace('#', &number.to_string()));
    let from = source(&from, &options()).unwrap_or_else(|error| panic!("{from}: {error}"));
    let to = sink(&to, &options()).unwrap_or_else(|error| panic!("{to}: {error}"));
    Fed::new(from, to)
}

/// A pair over an interface. (A queue of net_af_xdp is taken for some time after it was closed, and
/// net_tap is looked for in the network of who polls it: these two are in `tests/dpdk`. net_memif
/// and vhost take their memory away in a thread of DPDK's when the other end goes, with which two
/// ends in one process race: they have another program at the other end, in the tests of `cli`.)
fn over_an_interface() -> Option<Backend> {
    const PAIR: [&str; 2] =
        ["dpdk:net_af_packet1#,iface=vb?pool=2047", "dpdk:net_af_packet2#,iface=va?pool=2047"];
    let bed = Bed::or_skip("DPDK over an interface")?;
    bed.near.command("ip", &["link", "add", "va", "type", "veth", "peer", "name", "vb"]).unwrap();
    for end in ["va", "vb"] {
        bed.near.command("ip", &["link", "set", end, "up"]).unwrap();
    }
    Some(Backend::new(PAIR[0], move || Box::new(bed.near.run(|| fed(PAIR)))))
}

/// Each of them; the folder must outlive them.
pub(crate) fn devices(folder: &Folder) -> Vec<Backend> {
    let null =
        Backend::new("dpdk:net_null", || finished(&format!("net_null{}", number()), PACKETS));
    let file = folder.path("us.pcap").display().to_string();
    let pcap = Backend::new("dpdk:net_pcap", move || {
        finished(&format!("net_pcap{},rx_pcap={file}", number()), PACKETS)
    });
    let ring = "dpdk:net_ring#?pool=2047&wait_ms=0";
    let ring = Backend::new(ring, move || Box::new(fed([ring, ring])));
    let all = [null, pcap, ring].into_iter().chain(over_an_interface());
    all.map(|backend| Backend { is_live: true, ..backend }).collect()
}

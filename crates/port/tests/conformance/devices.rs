//! Devices of DPDK's that have all their packets, or will have made them, when they are finished.

use std::sync::atomic::{AtomicU32, Ordering};

use burstline_port::Port;

use crate::backends::{Backend, PACKETS, options};
use crate::common::{Folder, source};

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

/// Each of them; the folder must outlive them.
pub(crate) fn devices(folder: &Folder) -> Vec<Backend> {
    let null =
        Backend::new("dpdk:net_null", || finished(&format!("net_null{}", number()), PACKETS));
    let file = folder.path("us.pcap").display().to_string();
    let pcap = Backend::new("dpdk:net_pcap", move || {
        finished(&format!("net_pcap{},rx_pcap={file}", number()), PACKETS)
    });
    [null, pcap].into_iter().map(|backend| Backend { is_live: true, ..backend }).collect()
}

//! Devices of DPDK's that have all their packets, or will have made them, when they are finished.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use burstline_port::Port;

use crate::backends::{Backend, PACKETS, options};
use crate::common::{Folder, pump, sink, source};

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
    let socket = folder.path("memif").display().to_string();
    // The other end lives as long as this one.
    let peer: Rc<RefCell<Option<Box<dyn Port>>>> = Rc::default();
    let memif = Backend::new("dpdk:net_memif", move || {
        let number = number();
        let end = |letter: &str, role: &str| {
            format!(
                "net_memif{number}{letter},role={role},id=0,rsize=12,socket={socket}{number},\
                 socket-abstract=no"
            )
        };
        let to = format!("dpdk:{}?wait_ms=20000", end("1", "server"));
        let mut to = sink(&to, &options()).unwrap();
        let from = format!("dpdk:{}?ring=4096&pool=4095", end("2", "client"));
        let mut from = source(&from, &options()).unwrap();
        let mut load = source("gen:?packets=3000&size=64", &options()).unwrap();
        assert_eq!(pump(&mut *load, &mut *to).unwrap(), PACKETS);
        from.finish().unwrap();
        *peer.borrow_mut() = Some(to);
        from
    });
    [null, pcap, memif].into_iter().map(|backend| Backend { is_live: true, ..backend }).collect()
}

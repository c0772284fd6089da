//! Files for packets of ours: the real library writes them.

use std::ffi::{c_char, c_void};
use std::ptr;

use super::ours;
use crate::abi::Pcap;
use crate::capture::Capture;
use crate::dead::Dead;
use crate::real::real;
use crate::slots::Slot;

/// `pcap_dumper_t` and `FILE`, which are passed on.
type Opaque = *mut c_void;

fn open(slot: &Slot, capture: &Capture, open: impl FnOnce(*mut Pcap) -> Opaque) -> Opaque {
    let Some(dead) = capture.dead() else {
        slot.tell("files need an activated handle, and the real libpcap (libpcap0.8)");
        return ptr::null_mut();
    };
    let opened = open(Dead::raw(dead));
    if opened.is_null() {
        slot.tell(&dead.error());
    }
    opened
}

/// A file for the handle's packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open(pcap: *mut Pcap, path: *const c_char) -> Opaque {
    ours!(
        pcap, pcap_dump_open(path: *const c_char) -> Opaque,
        ptr::null_mut(), |slot, capture| open(slot, &capture, |dead| {
            real!(pcap_dump_open(dead => *mut Pcap, path => *const c_char) -> Opaque)
        })
    )
}

/// The same, behind what a file has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open_append(pcap: *mut Pcap, path: *const c_char) -> Opaque {
    ours!(
        pcap, pcap_dump_open_append(path: *const c_char) -> Opaque,
        ptr::null_mut(), |slot, capture| open(slot, &capture, |dead| {
            real!(pcap_dump_open_append(dead => *mut Pcap, path => *const c_char) -> Opaque)
        })
    )
}

/// The same, into an open `FILE`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_fopen(pcap: *mut Pcap, file: Opaque) -> Opaque {
    ours!(
        pcap, pcap_dump_fopen(file: Opaque) -> Opaque,
        ptr::null_mut(), |slot, capture| open(slot, &capture, |dead| {
            real!(pcap_dump_fopen(dead => *mut Pcap, file => Opaque) -> Opaque)
        })
    )
}

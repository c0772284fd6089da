//! Files for our packets: the real library opens them, and writes packets that are not gathered.

use std::ffi::{c_char, c_int, c_long, c_uchar, c_void};
use std::{ptr, slice};

use super::ours;
use crate::abi::{PacketHeader, Pcap};
use crate::capture::Capture;
use crate::dead::Dead;
use crate::dump;
use crate::real::real;
use crate::slots::Slot;

/// `pcap_dumper_t` and `FILE`, which are only passed on.
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

/// Opens a file by its path, so that nobody else has its `FILE`.
fn open_path(slot: &Slot, capture: &Capture, by: impl FnOnce(*mut Pcap) -> Opaque) -> Opaque {
    let opened = open(slot, capture, by);
    if !opened.is_null() {
        dump::opened(opened);
    }
    opened
}

/// Opens a file for the handle's packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open(pcap: *mut Pcap, path: *const c_char) -> Opaque {
    ours!(
        pcap, pcap_dump_open(path: *const c_char) -> Opaque,
        ptr::null_mut(), |slot, capture| open_path(slot, &capture, |dead| {
            real!(pcap_dump_open(dead => *mut Pcap, path => *const c_char) -> Opaque)
        })
    )
}

/// Opens a file for appending the handle's packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open_append(pcap: *mut Pcap, path: *const c_char) -> Opaque {
    ours!(
        pcap, pcap_dump_open_append(path: *const c_char) -> Opaque,
        ptr::null_mut(), |slot, capture| open_path(slot, &capture, |dead| {
            real!(pcap_dump_open_append(dead => *mut Pcap, path => *const c_char) -> Opaque)
        })
    )
}

/// Uses an open `FILE` for the handle's packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_fopen(pcap: *mut Pcap, file: Opaque) -> Opaque {
    ours!(
        pcap, pcap_dump_fopen(file: Opaque) -> Opaque,
        ptr::null_mut(), |slot, capture| open(slot, &capture, |dead| {
            real!(pcap_dump_fopen(dead => *mut Pcap, file => Opaque) -> Opaque)
        })
    )
}

/// Appends a packet. In a callback of this library, it may be gathered first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump(
    user: *mut c_uchar,
    header: *const PacketHeader,
    bytes: *const c_uchar,
) {
    // SAFETY: the caller guarantees a header, and the bytes that it announces (module `exports`).
    let is_gathered = unsafe {
        let packet = slice::from_raw_parts(bytes, (*header).captured as usize);
        dump::gather(user.cast(), &*header, packet)
    };
    if !is_gathered {
        real!(pcap_dump(
            user => *mut c_uchar, header => *const PacketHeader, bytes => *const c_uchar));
    }
}

/// Closes a dumper.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_close(file: Opaque) {
    dump::let_go(file);
    real!(pcap_dump_close(file => Opaque));
}

/// Returns the `FILE` of a dumper.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_file(file: Opaque) -> Opaque {
    dump::let_go(file);
    real!(pcap_dump_file(file => Opaque) -> Opaque)
}

/// Defines functions that access a dumper's file, which must have all packets first. Each has a
/// result for the case that a signal handler has interrupted the thread that writes.
macro_rules! settled {
    ($($name:ident -> $result:ty, $inside:literal;)*) => {$(
        /// The real library's function, after all dumped packets were written.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(file: Opaque) -> $result {
            if !dump::settle() {
                return $inside;
            }
            real!($name(file => Opaque) -> $result)
        }
    )*};
}

settled! {
    pcap_dump_flush -> c_int, 0;
    pcap_dump_ftell -> c_long, -1;
    pcap_dump_ftell64 -> i64, -1;
}

//! Properties of a handle.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;

use super::open::not_activated;
use super::ours;
use crate::abi::{ERROR, Pcap};
use crate::dead::free;
use crate::real::real;
use crate::slots;

/// Returns the link type of the packets: a DLT_ value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_datalink(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_datalink() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.datalink)
    })
}

/// Like `pcap_datalink`, with the information from files: there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_datalink_ext(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_datalink_ext() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.datalink)
    })
}

/// Lists the DLT_ values that can be chosen: one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_datalinks(pcap: *mut Pcap, list: *mut *mut c_int) -> c_int {
    ours!(pcap, pcap_list_datalinks(list: *mut *mut c_int) -> c_int, ERROR, |slot, capture| {
        let Some(shape) = capture.shape() else { return not_activated(slot) };
        // SAFETY: malloc(3) of a small size; the caller frees it with pcap_free_datalinks.
        let memory = unsafe { libc::malloc(size_of::<c_int>()) }.cast::<c_int>();
        if memory.is_null() {
            return slot.fail("malloc: no memory");
        }
        // SAFETY: just allocated; the C caller guarantees `list` (module `exports`).
        unsafe {
            memory.write(shape.datalink);
            list.write(memory);
        }
        1
    })
}

/// Frees the list of `pcap_list_datalinks`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_free_datalinks(list: *mut c_int) {
    free(list.cast());
}

/// Chooses a link type; only the handle's own is possible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_datalink(pcap: *mut Pcap, datalink: c_int) -> c_int {
    ours!(pcap, pcap_set_datalink(datalink: c_int) -> c_int, ERROR, |slot, capture| {
        match capture.shape() {
            None => not_activated(slot),
            Some(shape) if shape.datalink == datalink => 0,
            Some(shape) => slot.fail(&format!(
                "DLT {datalink} is not one of the DLTs of this device: it has {}",
                shape.datalink
            )),
        }
    })
}

/// Returns the snapshot length.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_snapshot(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_snapshot() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.snaplen as c_int)
    })
}

/// Applies to files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_is_swapped(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_is_swapped() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Applies to files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_major_version(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_major_version() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Applies to files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_minor_version(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_minor_version() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Applies to files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_bufsize(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_bufsize() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Applies to files only: returns NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_file(pcap: *mut Pcap) -> *mut c_void {
    match slots::slot(pcap) {
        None => real!(pcap_file(pcap => *mut Pcap) -> *mut c_void),
        Some(_) => ptr::null_mut(),
    }
}

//! What a handle is.

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;

use super::open::not_activated;
use super::ours;
use crate::abi::{ERROR, Pcap};
use crate::dead::free;
use crate::real::real;
use crate::slots;

/// What its packets begin with: a DLT_ value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_datalink(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_datalink() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.datalink)
    })
}

/// The same, with what files say besides: nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_datalink_ext(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_datalink_ext() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.datalink)
    })
}

/// Every DLT_ value that can be chosen: one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_datalinks(pcap: *mut Pcap, list: *mut *mut c_int) -> c_int {
    ours!(pcap, pcap_list_datalinks(list: *mut *mut c_int) -> c_int, ERROR, |slot, capture| {
        let Some(shape) = capture.shape() else { return not_activated(slot) };
        // SAFETY: malloc(3) of a small size; the caller gives it to pcap_free_datalinks.
        let memory = unsafe { libc::malloc(size_of::<c_int>()) }.cast::<c_int>();
        if memory.is_null() {
            return slot.fail("malloc: no memory");
        }
        // SAFETY: just allocated; `list` is what C owes us.
        unsafe {
            memory.write(shape.datalink);
            list.write(memory);
        }
        1
    })
}

/// Gives back what `pcap_list_datalinks` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_free_datalinks(list: *mut c_int) {
    free(list.cast());
}

/// Chooses the one that there is.
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

/// The most bytes of a packet that it gives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_snapshot(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_snapshot() -> c_int, ERROR, |slot, capture| {
        capture.shape().map_or_else(|| not_activated(slot), |shape| shape.snaplen as c_int)
    })
}

/// Of files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_is_swapped(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_is_swapped() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Of files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_major_version(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_major_version() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Of files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_minor_version(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_minor_version() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Of files only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_bufsize(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_bufsize() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Of files only: NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_file(pcap: *mut Pcap) -> *mut c_void {
    match slots::slot(pcap) {
        None => real!(pcap_file(pcap => *mut Pcap) -> *mut c_void),
        Some(_) => ptr::null_mut(),
    }
}

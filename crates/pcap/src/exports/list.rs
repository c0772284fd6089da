//! The list of devices: those of the real library, and one for each published name.

use std::ffi::{CString, c_char, c_int};
use std::mem::size_of;
use std::ptr;

use burstline_share::{Published, published};

use super::{border, text};
use crate::abi::{IF_UP_RUNNING, Interface};
use crate::device::PREFIX;
use crate::real::real;

/// Lists all devices that can be opened; the caller frees the list with `pcap_freealldevs`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_findalldevs(list: *mut *mut Interface, errbuf: *mut c_char) -> c_int {
    let code = real!(pcap_findalldevs(
        list => *mut *mut Interface, errbuf => *mut c_char) -> c_int);
    if code == 0 {
        border((), || {
            // SAFETY: the real library has just stored a list there, which we may change.
            unsafe { append(list) };
        });
    }
    code
}

/// Appends a device for each published name.
///
/// # Safety
/// `list` is a list from `pcap_findalldevs`.
unsafe fn append(list: *mut *mut Interface) {
    let mut end = list;
    // SAFETY: the caller guarantees that each entry's `next` is the next entry, or null.
    unsafe {
        while !(*end).is_null() {
            end = &raw mut (**end).next;
        }
    }
    for published in published() {
        let Some(device) = device(&published) else { continue };
        // SAFETY: `end` is the null pointer at the list's end.
        unsafe {
            end.write(device);
            end = &raw mut (*device).next;
        }
    }
}

/// Allocates an entry of the list with malloc(3), for `pcap_freealldevs`; `None` without memory.
fn device(Published { name, status }: &Published) -> Option<*mut Interface> {
    let logs = status.logs.len();
    let plural = if logs == 1 { "log" } else { "logs" };
    let about = format!("Burstline: {logs} {plural} published by process {}", status.pid);
    let (name, about) = (CString::new(format!("{PREFIX}{name}")).ok()?, CString::new(about).ok()?);
    // SAFETY: strings that end in NUL; malloc(3) of a small size.
    let (name, about, entry) = unsafe {
        let entry = libc::malloc(size_of::<Interface>()).cast::<Interface>();
        (libc::strdup(name.as_ptr()), libc::strdup(about.as_ptr()), entry)
    };
    if name.is_null() || about.is_null() || entry.is_null() {
        return None; // out of memory, which the process will soon notice
    }
    let (next, addresses) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: just allocated, of this size.
    unsafe {
        entry.write(Interface { next, name, description: about, addresses, flags: IF_UP_RUNNING });
    }
    Some(entry)
}

/// Returns network and mask of an interface; a log has none, which is not an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_lookupnet(
    device: *const c_char,
    network: *mut u32,
    mask: *mut u32,
    errbuf: *mut c_char,
) -> c_int {
    // SAFETY: guaranteed by the C caller (module `exports`).
    if unsafe { text(device) }.is_some_and(|device| device.starts_with(PREFIX)) {
        // SAFETY: guaranteed by the C caller (module `exports`).
        unsafe {
            network.write(0);
            mask.write(0);
        }
        return 0;
    }
    real!(pcap_lookupnet(
        device => *const c_char, network => *mut u32, mask => *mut u32,
        errbuf => *mut c_char) -> c_int)
}

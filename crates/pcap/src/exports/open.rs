//! Opens and closes handles.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::{border, ours, tell, text};
use crate::abi::{ERROR, ERROR_ACTIVATED, ERROR_NOT_ACTIVATED, Pcap};
use crate::capture::Capture;
use crate::device::{Device, PREFIX};
use crate::real::real;
use crate::slots;

/// Returns the text after `burst:` in the name of a device of this library.
///
/// # Safety
/// As for [`text`].
unsafe fn our_device<'a>(device: *const c_char) -> Option<&'a str> {
    // SAFETY: guaranteed by the caller.
    unsafe { text(device) }.and_then(|device| device.strip_prefix(PREFIX))
}

/// Creates a handle for a device, not activated yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_create(device: *const c_char, errbuf: *mut c_char) -> *mut Pcap {
    // SAFETY: guaranteed by the C caller (module `exports`).
    let Some(name) = (unsafe { our_device(device) }) else {
        return real!(pcap_create(
            device => *const c_char, errbuf => *mut c_char) -> *mut Pcap);
    };
    border(ptr::null_mut(), || {
        let created = Device::parse(name).and_then(|device| {
            let full = "this process has 256 handles of burst: devices open, which is the maximum";
            slots::add(Capture::new(device)).ok_or_else(|| full.to_owned())
        });
        created.unwrap_or_else(|error| {
            // SAFETY: guaranteed by the C caller (module `exports`).
            unsafe { tell(errbuf, &error) };
            ptr::null_mut()
        })
    })
}

/// Attaches to the log, or opens the interface.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_activate(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_activate() -> c_int, ERROR, |slot, capture| {
        match capture.activate() {
            None => {
                slot.tell("this handle is activated already");
                ERROR_ACTIVATED
            }
            Some(Ok(())) => 0,
            Some(Err(refused)) => {
                slot.tell(&refused.text);
                refused.code
            }
        }
    })
}

/// Creates, configures and activates a handle in one call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_open_live(
    device: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout_ms: c_int,
    errbuf: *mut c_char,
) -> *mut Pcap {
    // SAFETY: guaranteed by the C caller (module `exports`).
    if unsafe { our_device(device) }.is_none() {
        return real!(pcap_open_live(
            device => *const c_char, snaplen => c_int, promiscuous => c_int,
            timeout_ms => c_int, errbuf => *mut c_char) -> *mut Pcap);
    }
    // SAFETY: guaranteed by the C caller (module `exports`).
    let pcap = unsafe { pcap_create(device, errbuf) };
    let Some(slot) = slots::slot(pcap) else { return pcap };
    let opened = border(false, || {
        let Some(capture) = slot.capture() else { return false };
        capture.set(|settings| {
            (settings.snaplen, settings.timeout_ms) = (snaplen, timeout_ms);
        });
        let Some(Err(refused)) = capture.activate() else { return true };
        // SAFETY: guaranteed by the C caller (module `exports`).
        unsafe { tell(errbuf, &refused.text) };
        slot.close();
        false
    });
    if opened { pcap } else { ptr::null_mut() }
}

/// Closes a handle. Its packets must not be accessed any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_close(pcap: *mut Pcap) {
    match slots::slot(pcap) {
        None => real!(pcap_close(pcap => *mut Pcap)),
        Some(slot) => border((), || slot.close()),
    }
}

/// Reports that a call needs an activated handle.
pub(super) fn not_activated(slot: &slots::Slot) -> c_int {
    slot.tell("this handle is not activated: call pcap_activate() first");
    ERROR_NOT_ACTIVATED
}

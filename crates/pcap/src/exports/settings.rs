//! Settings before a handle is activated, and modes of reading.

use std::ffi::{c_char, c_int};

use super::{ours, tell};
use crate::abi::{
    DIRECTION_BOTH, ERROR, ERROR_ACTIVATED, ERROR_RFMON_NOTSUP, ERROR_TSTAMP_PRECISION_NOTSUP,
    PRECISION_MICRO, PRECISION_NANO, Pcap, TSTAMP_HOST, WARNING_TSTAMP_TYPE_NOTSUP,
};
use crate::capture::{Capture, Settings};
use crate::dead::free;
use crate::slots::{self, Slot};

fn set(slot: &Slot, capture: &Capture, change: impl FnOnce(&mut Settings)) -> c_int {
    if capture.set(change) {
        return 0;
    }
    slot.tell("can't perform operation on activated capture");
    ERROR_ACTIVATED
}

/// Sets the most bytes of a packet that the program gets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_snaplen(pcap: *mut Pcap, snaplen: c_int) -> c_int {
    ours!(pcap, pcap_set_snaplen(snaplen: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.snaplen = snaplen)
    })
}

/// Sets how long a call waits for packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_timeout(pcap: *mut Pcap, timeout_ms: c_int) -> c_int {
    ours!(pcap, pcap_set_timeout(timeout_ms: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.timeout_ms = timeout_ms)
    })
}

/// Accepted without effect: the publisher decides this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_promisc(pcap: *mut Pcap, promiscuous: c_int) -> c_int {
    ours!(pcap, pcap_set_promisc(promiscuous: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// Sets whether the program wants each packet immediately. Otherwise calls let some gather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_immediate_mode(pcap: *mut Pcap, immediate: c_int) -> c_int {
    ours!(pcap, pcap_set_immediate_mode(immediate: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.is_immediate = immediate != 0)
    })
}

/// Accepted without effect: the publisher decides the size of the log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_buffer_size(pcap: *mut Pcap, bytes: c_int) -> c_int {
    ours!(pcap, pcap_set_buffer_size(bytes: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// Monitor mode is not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_rfmon(pcap: *mut Pcap, rfmon: c_int) -> c_int {
    ours!(pcap, pcap_set_rfmon(rfmon: c_int) -> c_int, ERROR, |slot, capture| {
        if rfmon == 0 { set(slot, &capture, |_| ()) } else { ERROR_RFMON_NOTSUP }
    })
}

/// Monitor mode is not supported.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_can_set_rfmon(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_can_set_rfmon() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Accepted without effect: a log has the packets that its publisher receives.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_protocol_linux(pcap: *mut Pcap, protocol: c_int) -> c_int {
    ours!(pcap, pcap_set_protocol_linux(protocol: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// Sets the clock of time stamps: only the publisher's is possible.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_tstamp_type(pcap: *mut Pcap, kind: c_int) -> c_int {
    ours!(pcap, pcap_set_tstamp_type(kind: c_int) -> c_int, ERROR, |slot, capture| {
        match set(slot, &capture, |_| ()) {
            0 if kind != TSTAMP_HOST => WARNING_TSTAMP_TYPE_NOTSUP,
            code => code,
        }
    })
}

/// Lists no clock, since none can be chosen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_tstamp_types(pcap: *mut Pcap, types: *mut *mut c_int) -> c_int {
    ours!(pcap, pcap_list_tstamp_types(types: *mut *mut c_int) -> c_int, ERROR, |_slot, _c| {
        // SAFETY: guaranteed by the C caller (module `exports`).
        unsafe { types.write(std::ptr::null_mut()) };
        0
    })
}

/// Frees the list of `pcap_list_tstamp_types`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_free_tstamp_types(types: *mut c_int) {
    free(types.cast());
}

/// Sets microseconds or nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_tstamp_precision(pcap: *mut Pcap, precision: c_int) -> c_int {
    ours!(pcap, pcap_set_tstamp_precision(precision: c_int) -> c_int, ERROR, |slot, capture| {
        match precision {
            PRECISION_MICRO | PRECISION_NANO => {
                set(slot, &capture, |settings| settings.precision = precision)
            }
            _ => ERROR_TSTAMP_PRECISION_NOTSUP,
        }
    })
}

/// Returns microseconds or nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_tstamp_precision(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_get_tstamp_precision() -> c_int, ERROR, |_slot, capture| {
        capture.settings().precision
    })
}

/// Sets the direction of packets: a log does not distinguish directions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setdirection(pcap: *mut Pcap, direction: c_int) -> c_int {
    ours!(pcap, pcap_setdirection(direction: c_int) -> c_int, ERROR, |slot, _capture| {
        if direction == DIRECTION_BOTH {
            return 0;
        }
        slot.fail("a burst: device has packets of both directions: use a filter")
    })
}

/// Sets whether a call returns immediately if there is no packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setnonblock(
    pcap: *mut Pcap,
    nonblock: c_int,
    errbuf: *mut c_char,
) -> c_int {
    if slots::slot(pcap).is_some_and(|slot| slot.capture().is_none()) {
        // SAFETY: guaranteed by the C caller (module `exports`).
        unsafe { tell(errbuf, "this handle is closed") };
    }
    ours!(
        pcap, pcap_setnonblock(nonblock: c_int, errbuf: *mut c_char) -> c_int,
        ERROR, |_slot, capture| {
            capture.set_nonblocking(nonblock != 0);
            0
        }
    )
}

/// Returns whether a call returns immediately if there is no packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_getnonblock(pcap: *mut Pcap, errbuf: *mut c_char) -> c_int {
    ours!(pcap, pcap_getnonblock(errbuf: *mut c_char) -> c_int, ERROR, |_slot, capture| {
        c_int::from(capture.settings().is_nonblocking)
    })
}

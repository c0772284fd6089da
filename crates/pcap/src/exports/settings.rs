//! What a program asks for before it activates a handle, and modes of reading.

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

/// The most bytes of a packet that the program wants.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_snaplen(pcap: *mut Pcap, snaplen: c_int) -> c_int {
    ours!(pcap, pcap_set_snaplen(snaplen: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.snaplen = snaplen)
    })
}

/// How long a call waits for packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_timeout(pcap: *mut Pcap, timeout_ms: c_int) -> c_int {
    ours!(pcap, pcap_set_timeout(timeout_ms: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.timeout_ms = timeout_ms)
    })
}

/// Who publishes the log decides that: it is taken note of only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_promisc(pcap: *mut Pcap, promiscuous: c_int) -> c_int {
    ours!(pcap, pcap_set_promisc(promiscuous: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// Whether the program wants each packet as soon as it is there. Otherwise calls let some gather.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_immediate_mode(pcap: *mut Pcap, immediate: c_int) -> c_int {
    ours!(pcap, pcap_set_immediate_mode(immediate: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |settings| settings.is_immediate = immediate != 0)
    })
}

/// The log has its publisher's size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_buffer_size(pcap: *mut Pcap, bytes: c_int) -> c_int {
    ours!(pcap, pcap_set_buffer_size(bytes: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// There is no monitor mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_rfmon(pcap: *mut Pcap, rfmon: c_int) -> c_int {
    ours!(pcap, pcap_set_rfmon(rfmon: c_int) -> c_int, ERROR, |slot, capture| {
        if rfmon == 0 { set(slot, &capture, |_| ()) } else { ERROR_RFMON_NOTSUP }
    })
}

/// There is no monitor mode.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_can_set_rfmon(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_can_set_rfmon() -> c_int, ERROR, |_slot, _capture| 0)
}

/// Which packets of an interface's kernel are wanted: a log has what its publisher has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_protocol_linux(pcap: *mut Pcap, protocol: c_int) -> c_int {
    ours!(pcap, pcap_set_protocol_linux(protocol: c_int) -> c_int, ERROR, |slot, capture| {
        set(slot, &capture, |_| ())
    })
}

/// Whose clock stamps packets: the publisher's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_tstamp_type(pcap: *mut Pcap, kind: c_int) -> c_int {
    ours!(pcap, pcap_set_tstamp_type(kind: c_int) -> c_int, ERROR, |slot, capture| {
        match set(slot, &capture, |_| ()) {
            0 if kind != TSTAMP_HOST => WARNING_TSTAMP_TYPE_NOTSUP,
            code => code,
        }
    })
}

/// None can be chosen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_tstamp_types(pcap: *mut Pcap, types: *mut *mut c_int) -> c_int {
    ours!(pcap, pcap_list_tstamp_types(types: *mut *mut c_int) -> c_int, ERROR, |_slot, _c| {
        // SAFETY: what C owes us.
        unsafe { types.write(std::ptr::null_mut()) };
        0
    })
}

/// Gives back what `pcap_list_tstamp_types` gave.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_free_tstamp_types(types: *mut c_int) {
    free(types.cast());
}

/// Micro- or nanoseconds.
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

/// Micro- or nanoseconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_tstamp_precision(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_get_tstamp_precision() -> c_int, ERROR, |_slot, capture| {
        capture.settings().precision
    })
}

/// Which direction of packets is wanted: a log knows none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setdirection(pcap: *mut Pcap, direction: c_int) -> c_int {
    ours!(pcap, pcap_setdirection(direction: c_int) -> c_int, ERROR, |slot, _capture| {
        if direction == DIRECTION_BOTH {
            return 0;
        }
        slot.fail("a burst: device has packets of both directions: use a filter")
    })
}

/// Whether a call returns at once where there is no packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setnonblock(
    pcap: *mut Pcap,
    nonblock: c_int,
    errbuf: *mut c_char,
) -> c_int {
    if slots::slot(pcap).is_some_and(|slot| slot.capture().is_none()) {
        // SAFETY: what C owes us.
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

/// Whether a call returns at once where there is no packet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_getnonblock(pcap: *mut Pcap, errbuf: *mut c_char) -> c_int {
    ours!(pcap, pcap_getnonblock(errbuf: *mut c_char) -> c_int, ERROR, |_slot, capture| {
        c_int::from(capture.settings().is_nonblocking)
    })
}

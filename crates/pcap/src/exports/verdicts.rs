//! Functions that libpcap does not have: a program decides about the packet that it got.
//!
//! `include/burstline-pcap.h` declares these. A program finds them by that name only if this
//! library is loaded.

use std::ffi::{c_int, c_void};

use burstline_log::Verdict;

use super::border;
use crate::abi::{ERROR, Pcap};
use crate::slots::{self, Slot};

/// Gives a verdict on the current packet. Returns 0, or -1 with the reason in `pcap_geterr`.
fn decide(slot: &Slot, verdict: Verdict<'_>) -> c_int {
    let Some(capture) = slot.capture() else { return slot.fail("this handle is closed") };
    match capture.verdicts.decide(verdict) {
        Ok(()) => 0,
        Err(refusal) => slot.fail(&refusal.to_string()),
    }
}

/// Gives a verdict on the program's current packet: a `BURSTLINE_VERDICT_` constant of
/// `burstline.h`. Returns -1 if `pcap` is not a `burst:` handle that gives verdicts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_pcap_verdict(pcap: *mut Pcap, verdict: c_int) -> c_int {
    let Some(slot) = slots::slot(pcap) else { return ERROR };
    border(ERROR, || match u32::try_from(verdict).ok().and_then(Verdict::of_code) {
        Some(verdict) => decide(slot, verdict),
        None => slot.fail(&format!(
            "verdict {verdict}: it must be 1 (pass), 2 (drop), 4 (reject) or 5 (pass the \
                 flow); to replace a packet, call burstline_pcap_replace()"
        )),
    })
}

/// Replaces the program's current packet by other bytes, from the link header on. Returns -1 if
/// there is no room for them now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_pcap_replace(
    pcap: *mut Pcap,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    let Some(slot) = slots::slot(pcap) else { return ERROR };
    border(ERROR, || {
        if bytes.is_null() || length > isize::MAX as usize {
            return slot.fail("a replacement needs its bytes");
        }
        // SAFETY: the C caller guarantees `length` bytes that do not change during the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        decide(slot, Verdict::Replace(bytes))
    })
}

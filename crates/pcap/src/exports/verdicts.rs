//! What libpcap does not have: a program decides about the packet that it was given.
//!
//! `include/burstline-pcap.h` declares these. A program finds them by that name only where this
//! library is loaded.

use std::ffi::{c_int, c_void};

use burstline_log::Verdict;

use super::border;
use crate::abi::{ERROR, Pcap};
use crate::slots::{self, Slot};

/// Gives a verdict on the packet that the program has; 0, or -1 and `pcap_geterr` says why not.
fn decide(slot: &Slot, verdict: Verdict<'_>) -> c_int {
    let Some(capture) = slot.capture() else { return slot.fail("this handle is closed") };
    match capture.verdicts.decide(verdict) {
        Ok(()) => 0,
        Err(refusal) => slot.fail(&refusal.to_string()),
    }
}

/// The verdict on the packet that the program has: a `BURSTLINE_VERDICT_` constant of
/// `burstline.h`. -1 where `pcap` is not a `burst:` handle that gives verdicts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_pcap_verdict(pcap: *mut Pcap, verdict: c_int) -> c_int {
    let Some(slot) = slots::slot(pcap) else { return ERROR };
    border(ERROR, || match u32::try_from(verdict).ok().and_then(Verdict::of_code) {
        Some(verdict) => decide(slot, verdict),
        None => slot.fail(&format!(
            "verdict {verdict}: it must be 1 (pass), 2 (drop), 4 (reject) or 5 (pass the \
                 flow); burstline_pcap_replace() has the bytes of a replacement"
        )),
    })
}

/// Other bytes go on in place of the packet that the program has, from the link header on. -1 where
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
        // SAFETY: what C owes us: as many bytes, which do not change during the call.
        let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        decide(slot, Verdict::Replace(bytes))
    })
}

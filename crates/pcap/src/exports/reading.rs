//! Reads packets, and counts those that were lost.

use std::ffi::{c_char, c_int, c_uchar, c_void};
use std::ops::ControlFlow;
use std::ptr;

use super::open::not_activated;
use super::{border, ours};
use crate::abi::{ERROR, ERROR_BREAK, Handler, PacketHeader, Pcap, Stat};
use crate::capture::{Busy, Capture, Reading};
use crate::dump::Giving;
use crate::real::real;
use crate::session::Fetched;
use crate::slots::{self, Slot};

/// Reads from a handle, or returns libpcap's code for why it cannot.
fn read(slot: &Slot, capture: &Capture, body: impl FnOnce(&mut Reading<'_>) -> c_int) -> c_int {
    match capture.read() {
        Ok(mut reading) => {
            capture.verdicts.go_on();
            body(&mut reading)
        }
        Err(Busy::NotActivated) => not_activated(slot),
        Err(Busy::Closed) => slot.fail("this handle is closed"),
        Err(Busy::Reading) => slot.fail("another call is reading from this handle"),
        Err(Busy::Watched) => 0,
        Err(Busy::Refused(refused)) => {
            slot.tell(&refused.text);
            refused.code
        }
    }
}

/// Makes sure that there are packets; otherwise breaks with the result of the call: 0 if none came.
fn fetch(
    slot: &Slot,
    capture: &Capture,
    reading: &mut Reading<'_>,
    is_endless: bool,
) -> ControlFlow<c_int> {
    loop {
        if slot.take_break() || capture.is_closed() {
            return ControlFlow::Break(ERROR_BREAK);
        }
        if slot.is_parents() {
            let text = "a child of fork(2) cannot continue its parent's call: call again";
            return ControlFlow::Break(slot.fail(text));
        }
        let is_interrupted = || slot.is_breaking() || capture.is_closed();
        let (timeout, gathering) = (capture.timeout(), capture.gathering());
        let session = reading.session();
        let Capture { counts, verdicts, .. } = capture;
        match session.fetch(timeout, gathering, counts, verdicts, is_interrupted) {
            Ok(Fetched::Some) => return ControlFlow::Continue(()),
            Ok(Fetched::None) if is_endless && !capture.settings().is_nonblocking => {}
            Ok(Fetched::None) => return ControlFlow::Break(0),
            Ok(Fetched::End) => return ControlFlow::Break(ERROR_BREAK),
            Ok(Fetched::Interrupted) => {}
            Err(error) => return ControlFlow::Break(slot.fail(&error.to_string())),
        }
    }
}

/// Gives packets of one burst to a callback, at most `most`.
///
/// # Safety
/// `handler` is a C function that accepts `user`.
unsafe fn give(
    slot: &Slot,
    capture: &Capture,
    reading: &mut Reading<'_>,
    most: usize,
    handler: Handler,
    user: *mut c_uchar,
) -> usize {
    let session = reading.session();
    capture.renew_filter(session);
    let Capture { counts, verdicts, .. } = capture;
    let given = session.give(most, counts, verdicts, |header, bytes| {
        // SAFETY: guaranteed by the caller; header and bytes live during the call.
        unsafe { handler(user, header, bytes) };
        if slot.is_parents() {
            return false; // the packets, and their verdicts, belong to the parent
        }
        verdicts.go_on();
        !slot.is_breaking() && !capture.is_closed() && !capture.has_new_filter()
    });
    if !slot.is_parents() {
        session.let_go();
    }
    given
}

fn limit(count: c_int) -> usize {
    usize::try_from(count).ok().filter(|&count| count > 0).unwrap_or(usize::MAX)
}

/// Gives packets to a callback until there were `count` (0 or less: no limit). Also ends at the
/// final end of the log, after `pcap_breakloop`, or on an error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_loop(
    pcap: *mut Pcap,
    count: c_int,
    handler: Handler,
    user: *mut c_uchar,
) -> c_int {
    ours!(
        pcap, pcap_loop(count: c_int, handler: Handler, user: *mut c_uchar) -> c_int,
        ERROR, |slot, capture| read(slot, &capture, |reading| {
            let (mut left, mut gathers) = (limit(count), None);
            while left > 0 {
                if !reading.session().is_behind() {
                    gathers = None; // it may wait: dumped packets are written first
                }
                if let ControlFlow::Break(code) = fetch(slot, &capture, reading, true) {
                    let has_ended = code == ERROR_BREAK && reading.session().has_ended();
                    return if has_ended { 0 } else { code };
                }
                gathers = gathers.or_else(Giving::begin);
                // SAFETY: guaranteed by the C caller (module `exports`).
                left -= unsafe { give(slot, &capture, reading, left, handler, user) };
            }
            0
        })
    )
}

/// Gives the packets of one burst to a callback, at most `count` (0 or less: all of them), and
/// returns their number. 0 if none came in time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dispatch(
    pcap: *mut Pcap,
    count: c_int,
    handler: Handler,
    user: *mut c_uchar,
) -> c_int {
    ours!(
        pcap, pcap_dispatch(count: c_int, handler: Handler, user: *mut c_uchar) -> c_int,
        ERROR, |slot, capture| read(slot, &capture, |reading| {
            if let ControlFlow::Break(code) = fetch(slot, &capture, reading, false) {
                return code;
            }
            let most = limit(count).min(c_int::MAX as usize);
            let _gathers = Giving::begin();
            // SAFETY: guaranteed by the C caller (module `exports`).
            (unsafe { give(slot, &capture, reading, most, handler, user) }) as c_int
        })
    )
}

/// Returns the next packet, which stays valid until the next call with this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_next_ex(
    pcap: *mut Pcap,
    header: *mut *mut PacketHeader,
    bytes: *mut *const c_uchar,
) -> c_int {
    ours!(
        pcap, pcap_next_ex(header: *mut *mut PacketHeader, bytes: *mut *const c_uchar) -> c_int,
        ERROR, |slot, capture| read(slot, &capture, |reading| {
            loop {
                if let ControlFlow::Break(code) = fetch(slot, &capture, reading, false) {
                    return code;
                }
                let mut found = None;
                let session = reading.session();
                session.give(1, &capture.counts, &capture.verdicts, |header, bytes| {
                    found = Some((*header, bytes));
                    true
                });
                let Some((next, at)) = found else { continue };
                session.header = next;
                // SAFETY: guaranteed by the C caller. The header lives as long as the session does.
                unsafe {
                    header.write(&raw mut session.header);
                    bytes.write(at);
                }
                return 1;
            }
        })
    )
}

/// Returns the next packet, or NULL if there is none or an error occurred.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_next(pcap: *mut Pcap, header: *mut PacketHeader) -> *const c_uchar {
    if slots::slot(pcap).is_none() {
        return real!(pcap_next(
            pcap => *mut Pcap, header => *mut PacketHeader) -> *const c_uchar);
    }
    let (mut at, mut bytes) = (ptr::null_mut(), ptr::null());
    // SAFETY: guaranteed by the C caller; the two variables are local.
    if unsafe { pcap_next_ex(pcap, &raw mut at, &raw mut bytes) } != 1 {
        return ptr::null();
    }
    // SAFETY: guaranteed by the C caller; `at` was just filled.
    unsafe { header.write(at.read()) };
    bytes
}

/// Ends the loop that runs with this handle. May be called by a signal handler.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_breakloop(pcap: *mut Pcap) {
    match slots::slot(pcap) {
        None => real!(pcap_breakloop(pcap => *mut Pcap)),
        Some(slot) => slot.break_loop(),
    }
}

/// Returns the numbers of received and lost packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_stats(pcap: *mut Pcap, stat: *mut Stat) -> c_int {
    ours!(pcap, pcap_stats(stat: *mut Stat) -> c_int, ERROR, |slot, capture| {
        if capture.shape().is_none() {
            return not_activated(slot);
        }
        // SAFETY: guaranteed by the C caller (module `exports`).
        unsafe { stat.write(capture.counts.stat()) };
        0
    })
}

/// Returns a descriptor for select(2) and poll(2); -1 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_selectable_fd(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_get_selectable_fd() -> c_int, ERROR, |_slot, capture| {
        capture.shape().and_then(|_| capture.ready.descriptor(&capture)).unwrap_or(ERROR)
    })
}

/// Returns the same descriptor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_fileno(pcap: *mut Pcap) -> c_int {
    ours!(pcap, pcap_fileno() -> c_int, ERROR, |_slot, capture| {
        capture.shape().and_then(|_| capture.ready.descriptor(&capture)).unwrap_or(ERROR)
    })
}

/// Returns none: the descriptor signals packets.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_required_select_timeout(pcap: *mut Pcap) -> *const libc::timeval {
    match slots::slot(pcap) {
        None => real!(pcap_get_required_select_timeout(
            pcap => *mut Pcap) -> *const libc::timeval),
        Some(_) => ptr::null(),
    }
}

const READ_ONLY: &str = "a burst: device is a published log, which only its publisher writes: send \
                         by an interface, e.g. pcap_open_live(\"eth0\", ...)";

/// Fails: only the publisher writes a log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_inject(
    pcap: *mut Pcap,
    bytes: *const c_void,
    length: usize,
) -> c_int {
    ours!(
        pcap, pcap_inject(bytes: *const c_void, length: usize) -> c_int,
        ERROR, |slot, _capture| slot.fail(READ_ONLY)
    )
}

/// Fails: only the publisher writes a log.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_sendpacket(
    pcap: *mut Pcap,
    bytes: *const c_uchar,
    length: c_int,
) -> c_int {
    ours!(
        pcap, pcap_sendpacket(bytes: *const c_uchar, length: c_int) -> c_int,
        ERROR, |slot, _capture| slot.fail(READ_ONLY)
    )
}

/// Returns the text of the last error of this handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_geterr(pcap: *mut Pcap) -> *mut c_char {
    match slots::slot(pcap) {
        None => real!(pcap_geterr(pcap => *mut Pcap) -> *mut c_char),
        Some(slot) => slot.text(),
    }
}

/// Prints the last error to standard error, after a prefix of the caller.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_perror(pcap: *mut Pcap, prefix: *const c_char) {
    let Some(slot) = slots::slot(pcap) else {
        return real!(pcap_perror(pcap => *mut Pcap, prefix => *const c_char));
    };
    border((), || {
        // SAFETY: guaranteed by the C caller; the slot's text ends in NUL.
        let [prefix, said] = unsafe { [super::text(prefix), super::text(slot.text())] };
        eprintln!("{}: {}", prefix.unwrap_or_default(), said.unwrap_or_default());
    });
}

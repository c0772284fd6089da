//! The exported functions for reading. Each is a single call of `border` (B1).
//!
//! C's obligations are stated once, at the top of the header and here. A pointer is null, or
//! misaligned, or points to what its type says, which may be read, and written if it is `*mut`.
//! Options and statistics have the size that their first field states. Pointers to readers may have
//! any value.

#![expect(clippy::missing_safety_doc, reason = "it is said once, above")]

use std::ffi::{CStr, c_char};
use std::mem::size_of;
use std::ptr;
use std::slice;

use burstline_log::{
    REPLACEMENT_BYTES_MAX, REPLACEMENT_BYTES_MIN, Verdict, VerdictError, VerdictGiver,
};
use burstline_share::Next;

use crate::border::{self, Fault, border};
use crate::handles;
use crate::options::{self, Wishes};
use crate::reading::Reading;
use crate::types::{ABI_VERSION, BurstView, Options, PortName, Reader, Statistics, Status};

/// The library's version, such as "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn burstline_version() -> *const c_char {
    border(c"".as_ptr(), || concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast())
}

/// The library's BURSTLINE_ABI_VERSION.
#[unsafe(no_mangle)]
pub extern "C" fn burstline_abi_version() -> u32 {
    border(ABI_VERSION, || ABI_VERSION)
}

/// Attaches to the logs that are published as name: a name such as "tap", or the path of a socket,
/// with a slash in it. options may be NULL: BURSTLINE_OPTIONS_INIT. On success *reader is one to
/// be closed with burstline_close(), else NULL.
///
/// Takes some system calls, and up to 10 s where the publisher does not answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_open(
    name: *const c_char,
    options: *const Options,
    reader: *mut *mut Reader,
) -> Status {
    border(Status::ErrorPanic, || {
        let opened = (|| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(reader, "reader", ptr::null_mut())? };
            // SAFETY: the pointers from C are NULL or satisfy the header's contract; both are
            // checked for NULL.
            let (name, wishes) = unsafe { (string(name)?, wishes(options)?) };
            let handle = handles::add(Reading::open(name, &wishes)?);
            // SAFETY: `reader` was checked and filled above, and C lends it during the call.
            unsafe { fill(reader, "reader", handle) }
        })();
        match opened {
            Ok(()) => Status::Ok,
            Err(Fault { status, text }) => {
                border::remember(text);
                status
            }
        }
    })
}

/// Gives the next packets, in *burst, to be given back with burstline_release(). Waits for them at
/// most timeout_ns: 0 only looks, BURSTLINE_FOREVER waits without end.
///
/// BURSTLINE_STATUS_NONE: none came; BURSTLINE_STATUS_END: none will ever come. Both leave in
/// *burst a burst of no packets. With BURSTLINE_FOLLOW a reader goes on after its writer was
/// stopped or killed: it reads that writer's packets, then those of the next one. If that one
/// cannot be read, this says so (BURSTLINE_STATUS_ERROR_REFUSED or _SYSTEM); the next call tries
/// again. Taking it up is the one thing that may take longer than timeout_ns: up to 10 s where it
/// does not answer.
///
/// One thread at a time: another one's call is BURSTLINE_STATUS_ERROR_BUSY; burstline_close() in
/// another thread ends this one with BURSTLINE_STATUS_ERROR_CLOSED. Costs no system call where
/// packets are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_next(
    reader: *mut Reader,
    timeout_ns: u64,
    burst: *mut BurstView,
) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(burst, "burst", BurstView::NONE)? };
            let mut reading = handle.reading()?;
            let (held, log) = match reading.next(timeout_ns, || handle.is_closed())? {
                Next::Burst { held, log } => (held, log),
                Next::None => return Ok(Status::None),
                Next::End => return Ok(Status::End),
                Next::Interrupted => return Err(Fault::closed()),
                Next::WindowFull => return Err(reading.window_full()),
            };
            let view = handle.lend(held, log, reading.epoch(), reading.verdicts(log))?;
            // SAFETY: `burst` was checked and filled above, and C lends it during the call.
            unsafe { fill(burst, "burst", view)? };
            Ok(Status::Ok)
        })
    })
}

/// Gives a burst back. Its packets must not be looked at any more; *burst is left as one of no
/// packets. Any thread may do it at any time, in any order.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_release(reader: *mut Reader, burst: *mut BurstView) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            check(burst, "burst")?;
            // SAFETY: the header's contract, and the check above.
            let ticket = unsafe { ticket_of(burst)? };
            handle.release(ticket)?;
            // SAFETY: `burst` was checked above, and C lends it during the call.
            unsafe { fill(burst, "burst", BurstView::NONE)? };
            Ok(Status::Ok)
        })
    })
}

/// Gives packets [from, from + count) of a burst that is held a verdict: BURSTLINE_VERDICT_PASS,
/// _DROP, _REJECT or _PASS_FLOW; packet 0 is the oldest. Other bytes for a packet are given by
/// burstline_replace(). The reader was opened with BURSTLINE_VERDICTS.
///
/// A packet that gets no verdict within the publisher's deadline goes on or is lost, as the
/// publisher's options say. A verdict that comes later changes nothing, and is not an error. Of
/// several on one packet the publisher takes one: give one. Any thread may do it at any time. Costs
/// no system call; one call for many packets is the cheapest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_verdict(
    reader: *mut Reader,
    burst: *const BurstView,
    from: u32,
    count: u32,
    verdict: u32,
) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            let ticket = unsafe { ticket_of(burst)? };
            let verdict = Verdict::of_code(verdict).ok_or_else(|| {
                let text = format!("verdict is {verdict}, which is not one of its constants");
                Fault::argument(text)
            })?;
            handle.give(ticket, from, count, |verdicts, number| given(verdicts, number, verdict))
        })
    })
}

/// Replaces a packet of a held burst by length bytes, from the link header on. index says which
/// packet: 0 is the oldest. length is in [14, 65535]. The bytes are copied.
///
/// BURSTLINE_STATUS_NONE: replacements of older packets fill the room for them; nothing was given,
/// and it may be tried again when those packets have left. The rest is as of burstline_verdict().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_replace(
    reader: *mut Reader,
    burst: *const BurstView,
    index: u32,
    bytes: *const u8,
    length: u64,
) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            check(bytes, "bytes")?;
            // SAFETY: the header's contract; NULL and misalignment are checked.
            let ticket = unsafe { ticket_of(burst)? };
            let most = REPLACEMENT_BYTES_MAX as u64;
            if !(REPLACEMENT_BYTES_MIN as u64..=most).contains(&length) {
                let text = format!("length is {length}: it must be from 14 to {most}");
                return Err(Fault::argument(text));
            }
            // SAFETY: C lends `length` bytes during the call; the length is checked to be in range,
            // and `bytes` not to be NULL.
            let bytes = unsafe { slice::from_raw_parts(bytes, length as usize) };
            handle.give(ticket, index, 1, |verdicts, number| {
                given(verdicts, number, Verdict::Replace(bytes))
            })
        })
    })
}

/// Writes to *statistics what the reader has seen so far. statistics->size must be sizeof(struct
/// burstline_statistics) before the call. A newer library fills no more than that; an older one
/// fills less and writes how much to size. One thread at a time, as burstline_next().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_account(
    reader: *mut Reader,
    statistics: *mut Statistics,
) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            check(statistics, "statistics")?;
            // SAFETY: the header's contract, and the check above.
            let theirs = unsafe { ptr::addr_of!((*statistics).size).read() };
            let ours = size_of::<Statistics>() as u32;
            if theirs < ours {
                return Err(Fault::argument(format!(
                    "statistics.size is {theirs}, but struct burstline_statistics has at least \
                     {ours} bytes: set it to its sizeof"
                )));
            }
            let held = handle.held() as u32;
            let found = Statistics { size: ours, held, ..handle.reading()?.statistics() };
            // SAFETY: theirs is at least as large as ours.
            unsafe { fill(statistics, "statistics", found)? };
            Ok(Status::Ok)
        })
    })
}

/// Says in *name what a packet's port stands for, of log number log (burstline_burst.log).
/// BURSTLINE_STATUS_NONE: the publisher has not named it. One thread at a time, as
/// burstline_next().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn burstline_port_name(
    reader: *mut Reader,
    log: u32,
    port: u32,
    name: *mut PortName,
) -> Status {
    border(Status::ErrorPanic, || {
        handles::with(reader, |handle| {
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(name, "name", PortName { link_type: 0, name: [0; 60] })? };
            let number = u8::try_from(port);
            let number =
                number.map_err(|_| Fault::argument(format!("port {port}: must be 0-255")))?;
            let Some((link_type, text)) = handle.reading()?.port_name(log, number)? else {
                return Ok(Status::None);
            };
            // A name has at most 58 bytes, so that a 0 follows.
            let mut bytes = [0; 60];
            let kept = text.floor_char_boundary(bytes.len() - 1);
            for (byte, letter) in bytes.iter_mut().zip(text[..kept].bytes()) {
                *byte = letter as c_char;
            }
            // SAFETY: the header's contract; NULL and misalignment are checked.
            unsafe { fill(name, "name", PortName { link_type, name: bytes })? };
            Ok(Status::Ok)
        })
    })
}

/// One line in English on what went wrong last with this reader; "" if nothing did. With NULL, or a
/// reader that is closed: what went wrong last in this thread without one, as when opening.
///
/// The text stays as it is until this thread calls this function again, or ends. Never NULL.
#[unsafe(no_mangle)]
pub extern "C" fn burstline_error_text(reader: *const Reader) -> *const c_char {
    border(border::SPEECHLESS.as_ptr(), || {
        let text = handles::find(reader).map(|handle| handle.text());
        border::show(text.unwrap_or_else(|_| border::remembered()))
    })
}

/// Closes a reader and gives back every burst that is held of it: their packets must not be looked
/// at any more. Its pointer is never given again; every use of it from now on is
/// BURSTLINE_STATUS_ERROR_CLOSED. NULL is nothing to close, and fine.
#[unsafe(no_mangle)]
pub extern "C" fn burstline_close(reader: *mut Reader) -> Status {
    border(Status::ErrorPanic, || {
        if reader.is_null() {
            return Status::Ok;
        }
        let Err(Fault { status, text }) = handles::close(reader) else { return Status::Ok };
        border::remember(text);
        status
    })
}

/// Asks for a panic in this thread's next call (1), or in its next `burstline_next`, while that has
/// the reader (2). Only for tests; not in the header.
///
/// cbindgen:ignore
#[cfg(feature = "deliberate-panic")]
#[unsafe(no_mangle)]
pub extern "C" fn burstline_panic(place: u32) {
    border::deliberate::ask(place);
}

impl BurstView {
    /// One of no packets, which is not held.
    const NONE: Self = Self {
        base: ptr::null(),
        worklist: ptr::null(),
        bytes: 0,
        count: 0,
        log: 0,
        base_time_ns: 0,
        first_packet: 0,
        epoch: 0,
        ticket: 0,
    };
}

/// Returns the ticket of a burst from C.
///
/// # Safety
/// `burst` is null, or misaligned, or may be read.
unsafe fn ticket_of(burst: *const BurstView) -> Result<u64, Fault> {
    check(burst, "burst")?;
    // SAFETY: neither null nor misaligned, so it may be read; any bits are a valid ticket.
    Ok(unsafe { ptr::addr_of!((*burst).ticket).read() })
}

fn given(verdicts: &VerdictGiver, number: u64, verdict: Verdict<'_>) -> Result<Status, Fault> {
    match verdicts.give(number, verdict) {
        Ok(()) => Ok(Status::Ok),
        Err(VerdictError::NoRoom { .. }) => Ok(Status::None),
        Err(error) => Err(Fault::argument(error.to_string())),
    }
}

pub(crate) fn check<T>(at: *const T, name: &str) -> Result<(), Fault> {
    if at.is_null() {
        return Err(Fault::argument(format!("{name} is NULL")));
    }
    if !at.is_aligned() {
        return Err(Fault::argument(format!("{name} is {at:p}, which is not aligned")));
    }
    Ok(())
}

/// Writes a value for C.
///
/// # Safety
/// `at` is null, or misaligned, or may be written.
pub(crate) unsafe fn fill<T>(at: *mut T, name: &str, value: T) -> Result<(), Fault> {
    check(at, name)?;
    // SAFETY: neither null nor misaligned, so it may be written. The old value needs no drop.
    unsafe { at.write(value) };
    Ok(())
}

/// # Safety
/// `name` is null or a C string that lives and does not change as long as the result.
pub(crate) unsafe fn string<'a>(name: *const c_char) -> Result<&'a str, Fault> {
    check(name, "name")?;
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    name.to_str().map_err(|_| Fault::argument(format!("{name:?} is not UTF-8")))
}

/// # Safety
/// `options` is null or points to as many bytes as its size says.
unsafe fn wishes(options: *const Options) -> Result<Wishes, Fault> {
    border::can_stop_panics()?;
    if options.is_null() {
        return Wishes::of(&Options::default());
    }
    check(options, "options")?;
    // SAFETY: the header's contract, and the check above.
    Wishes::of(&unsafe { options::read(options)? })
}

//! libpcap's functions, with libpcap's names.
//!
//! C callers have the same obligations as towards libpcap. A handle comes from this library, and
//! one thread at a time uses it, except in `pcap_breakloop`. A string ends in NUL; a pointer to
//! fill may be written; an error's buffer has 256 bytes. Mistakes detected here are errors.

#![expect(clippy::missing_safety_doc, reason = "it is said once, above")]

mod facts;
mod files;
mod filters;
mod forward;
mod list;
mod open;
mod reading;
mod settings;
mod verdicts;

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use facts::*;
pub use files::*;
pub use filters::*;
pub use forward::*;
pub use list::*;
pub use open::*;
pub use reading::*;
pub use settings::*;
pub use verdicts::*;

use crate::abi::errbuf_bytes;
use crate::capture::Capture;
use crate::slots::Slot;

/// Runs the body of an exported function; a panic in it results in `fallback`. Its location is
/// printed to standard error, as usual in Rust.
fn border<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    // A panic can leave only the session half-changed, and the session is not returned then.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Writes a text to a caller's buffer for errors.
///
/// # Safety
/// `buffer` is null, or has [`ERRBUF_BYTES`](crate::abi::ERRBUF_BYTES) that may be written.
unsafe fn tell(buffer: *mut c_char, text: &str) {
    if buffer.is_null() {
        return;
    }
    for (at, byte) in errbuf_bytes(text).enumerate() {
        // SAFETY: there are at most `ERRBUF_BYTES`, which the caller guarantees to be writable.
        unsafe { buffer.add(at).write(byte as c_char) };
    }
}

/// Returns the text behind a pointer; `None` if it is null or not UTF-8.
///
/// # Safety
/// `text` is null, or ends in NUL and does not change while the result is used.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Runs `body` on a handle of this library. The result is `fallback` if the handle is closed, or
/// after a panic.
#[inline]
fn on_handle<T: Copy>(slot: &Slot, fallback: T, body: impl FnOnce(&Slot, Arc<Capture>) -> T) -> T {
    border(fallback, || match slot.capture() {
        None => {
            slot.tell("this handle is closed");
            fallback
        }
        Some(capture) => body(slot, capture),
    })
}

/// Runs the last argument, a closure, on a handle of this library, or calls the real library with
/// any other. If the handle is closed, the result is `$fallback`.
macro_rules! ours {
    (
        $pcap:ident, $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
        $fallback:expr, $body:expr
    ) => {
        match $crate::slots::slot($pcap) {
            None => $crate::real::real!(
                $name($pcap => *mut $crate::abi::Pcap, $($argument => $type),*) -> $result
            ),
            // The closure is the caller's, so that coverage counts what is in it.
            Some(slot) => super::on_handle(slot, $fallback, $body),
        }
    };
}
use ours;

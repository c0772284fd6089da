//! libpcap's functions, with libpcap's names.
//!
//! C's obligations are those towards libpcap. A handle comes from this library, and one thread at a
//! time uses it, except in `pcap_breakloop`. A string ends in NUL; a pointer to fill may be
//! written; an error's buffer has 256 bytes. Where ours can tell a mistake, it is an error.

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

/// Does what a function of ours does; a panic in it becomes `fallback`. Its place is printed to
/// standard error, as Rust does.
fn border<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    // What a panic may leave half-changed is the session, which does not go back then.
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
        // SAFETY: there are at most `ERRBUF_BYTES`, which the caller says may be written.
        unsafe { buffer.add(at).write(byte as c_char) };
    }
}

/// The text behind a pointer; `None` where it is null or no UTF-8.
///
/// # Safety
/// `text` is null, or ends in NUL and does not change while the result is used.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_str().ok()
}

/// Does with a handle of ours what the last argument says, and calls the real library with any
/// other. Where ours is closed, `$fallback` is the answer.
macro_rules! ours {
    (
        $pcap:ident, $name:ident($($argument:ident: $type:ty),*) -> $result:ty,
        $fallback:expr, |$slot:ident, $capture:ident| $body:expr
    ) => {
        match $crate::slots::slot($pcap) {
            None => $crate::real::real!(
                $name($pcap => *mut $crate::abi::Pcap, $($argument => $type),*) -> $result
            ),
            Some($slot) => super::border($fallback, || match $slot.capture() {
                None => {
                    $slot.tell("this handle is closed");
                    $fallback
                }
                Some($capture) => $body,
            }),
        }
    };
}
use ours;

//! The border to C: stops panics, and turns errors into a status and a text.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burstline_share::ShareError;

use crate::types::Status;

/// Fails if [`border`] cannot stop panics. In that case nothing may be opened.
pub(crate) fn can_stop_panics() -> Result<(), Fault> {
    match cfg!(panic = "unwind") {
        true => Ok(()),
        false => {
            let text = "this library was built so that a panic would end the process: \
                        build it with make install-c, or cargo build --profile capi";
            Err(Fault::new(Status::ErrorPanic, text))
        }
    }
}

thread_local! {
    /// The last error of this thread that has no reader.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
    /// The string that this thread's last `burstline_error_text` points to.
    static SHOWN: RefCell<CString> = RefCell::default();
}

/// A status below 0 and its reason.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Fault {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Self { status, text: text.into() }
    }

    pub(crate) fn argument(text: impl Into<String>) -> Self {
        Self::new(Status::ErrorArgument, text)
    }

    pub(crate) fn closed() -> Self {
        Self::new(Status::ErrorClosed, "this reader is closed, or was never open")
    }

    pub(crate) fn broken() -> Self {
        let text = "a panic has stopped an earlier call with this reader: close it";
        Self::new(Status::ErrorPanic, text)
    }
}

impl From<ShareError> for Fault {
    fn from(error: ShareError) -> Self {
        let status = match error {
            ShareError::Name { .. } => Status::ErrorArgument,
            ShareError::Absent { .. } => Status::ErrorAbsent,
            ShareError::NotAllowed { .. }
            | ShareError::NotTrusted { .. }
            | ShareError::Refused { .. } => Status::ErrorRefused,
            _ => Status::ErrorSystem,
        };
        Self::new(status, error.to_string())
    }
}

/// Runs the body of an exported function, and turns a panic into `fallback` and a text. Rust prints
/// the panic's location to standard error as usual.
pub(crate) fn border<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    // A panic may leave a handle's reader half-changed, but then its mutex is poisoned; the other
    // locks protect single changes.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "deliberate-panic")]
        deliberate::panic_if_asked(deliberate::AT_THE_BORDER);
        body()
    }));
    match outcome {
        Ok(value) => value,
        Err(payload) => {
            // Neither may unwind again: nothing here would stop it.
            let tell = || remember(format!("a panic was stopped: {}", text(&*payload)));
            let told = catch_unwind(AssertUnwindSafe(tell));
            mem::forget((told, payload));
            fallback
        }
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

/// Stores this thread's error text, for an error without a reader.
pub(crate) fn remember(text: String) {
    LAST.set(text);
}

/// Returns the text stored by [`remember`].
pub(crate) fn remembered() -> String {
    LAST.with_borrow(String::clone)
}

/// Returns `text` as a C string that lives until this thread's next call.
pub(crate) fn show(mut text: String) -> *const c_char {
    text.retain(|letter| letter != '\0');
    // No 0 byte is left, so this does not fail.
    let text = CString::new(text).unwrap_or_default();
    SHOWN.with_borrow_mut(|shown| {
        *shown = text;
        shown.as_ptr()
    })
}

/// The text of `burstline_error_text` if it panics itself.
pub(crate) const SPEECHLESS: &CStr = c"a panic was stopped";

/// Panics for tests.
#[cfg(feature = "deliberate-panic")]
pub(crate) mod deliberate {
    use std::cell::Cell;

    /// Panic in the next call of any function.
    pub(crate) const AT_THE_BORDER: u32 = 1;
    /// Panic in the next call of `burstline_next`, while it has the reader.
    pub(crate) const IN_THE_READER: u32 = 2;

    thread_local! {
        static ASKED: Cell<u32> = const { Cell::new(0) };
    }

    pub(crate) fn ask(place: u32) {
        ASKED.set(place);
    }

    pub(crate) fn panic_if_asked(place: u32) {
        if ASKED.get() == place {
            ASKED.set(0);
            panic!("deliberately, at place {place}");
        }
    }
}

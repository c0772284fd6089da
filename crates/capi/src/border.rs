//! The border: where panics stop, and where errors become a status and a text.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};

use burstline_share::ShareError;

use crate::types::Status;

/// Whether [`border`] can do what it is for. Nothing is opened where it cannot.
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
    /// What went wrong last in this thread where there was no reader to say it of.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
    /// What this thread's last `burstline_error_text` points to.
    static SHOWN: RefCell<CString> = RefCell::default();
}

/// A status below 0, and why.
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
        Self::new(Status::ErrorClosed, "this reader is closed, or never was open")
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

/// Does what an exported function does, and turns a panic in it into `fallback` and a text. The
/// panic's place is printed to standard error, as Rust does.
pub(crate) fn border<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    // What a panic may leave half-changed is a handle's reader, behind a mutex that is poisoned
    // then; the other locks guard single changes.
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        #[cfg(feature = "deliberate-panic")]
        deliberate::panic_if_asked(deliberate::AT_THE_BORDER);
        body()
    }));
    match outcome {
        Ok(value) => value,
        Err(payload) => {
            // Neither may unwind a second time: here nothing would stop it.
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

/// Keeps a text for this thread, of an error without a reader.
pub(crate) fn remember(text: String) {
    LAST.set(text);
}

/// The text kept by [`remember`].
pub(crate) fn remembered() -> String {
    LAST.with_borrow(String::clone)
}

/// A C string of `text` that lives until this thread's next call.
pub(crate) fn show(mut text: String) -> *const c_char {
    text.retain(|letter| letter != '\0');
    // It has no 0 byte left, so it does not fail.
    let text = CString::new(text).unwrap_or_default();
    SHOWN.with_borrow_mut(|shown| {
        *shown = text;
        shown.as_ptr()
    })
}

/// What `burstline_error_text` says where it can say nothing.
pub(crate) const SPEECHLESS: &CStr = c"a panic was stopped";

/// Panics that a test asks for.
#[cfg(feature = "deliberate-panic")]
pub(crate) mod deliberate {
    use std::cell::Cell;

    /// In the next call, whichever it is.
    pub(crate) const AT_THE_BORDER: u32 = 1;
    /// In the next call of `burstline_next`, while it has the reader.
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

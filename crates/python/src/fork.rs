//! Guards values against use in a forked child process.
//!
//! A child made by fork(2) has a copy of every handle, backed by the same shared memory. If it read
//! on, or released a burst, it would move its parent's cursor and release its parent's packets. So
//! a value remembers the process that created it: in another process it cannot be used, and
//! dropping it does nothing. The memory is freed when the child exits.

use std::mem::ManuallyDrop;
use std::process;

use pyo3::PyResult;

use crate::fault::ForkedError;

/// A value that belongs to one process.
pub(crate) struct Here<T> {
    value: ManuallyDrop<T>,
    owner: u32,
}

impl<T> Here<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), owner: process::id() }
    }

    /// Returns the value in the process that created it. Cost: a getpid system call.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.check()?;
        Ok(&self.value)
    }

    /// Returns the value in any process, for reading what is constant.
    pub(crate) fn peek(&self) -> &T {
        &self.value
    }

    /// Fails unless this is the process that created the value.
    pub(crate) fn check(&self) -> PyResult<()> {
        let here = process::id();
        if here == self.owner {
            return Ok(());
        }
        Err(ForkedError::new_err(format!(
            "process {} opened this; its child, process {here}, cannot use it: open it again in \
             the child, or start the child with multiprocessing's \"spawn\"",
            self.owner
        )))
    }
}

impl<T> Drop for Here<T> {
    #[expect(unsafe_code, reason = "the one way to drop only here")]
    fn drop(&mut self) {
        if process::id() == self.owner {
            // SAFETY: the value is not used after this drop, and this runs once.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

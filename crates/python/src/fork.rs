//! What a child process must not touch.
//!
//! A child by fork(2) has a copy of every handle, and the same shared memory behind it. If it read
//! on, or let a burst go, it would move its parent's cursor and give back its parent's packets. So
//! a value knows the process that made it: elsewhere it cannot be used, and dropping it there does
//! nothing. The memory goes with the child.

use std::mem::ManuallyDrop;
use std::process;

use pyo3::PyResult;

use crate::fault::ForkedError;

/// A value of one process.
pub(crate) struct Here<T> {
    value: ManuallyDrop<T>,
    owner: u32,
}

impl<T> Here<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), owner: process::id() }
    }

    /// The value, in the process that made it. Cost: a system call that asks for one number.
    pub(crate) fn get(&self) -> PyResult<&T> {
        self.check()?;
        Ok(&self.value)
    }

    /// The value, for any caller: to read what is constant.
    pub(crate) fn peek(&self) -> &T {
        &self.value
    }

    /// Whether this is the process that made it.
    pub(crate) fn check(&self) -> PyResult<()> {
        let here = process::id();
        if here == self.owner {
            return Ok(());
        }
        Err(ForkedError::new_err(format!(
            "process {} opened this, and a child of it, process {here}, cannot use it: open it \
             again in the child, or start the child by multiprocessing's \"spawn\"",
            self.owner
        )))
    }
}

impl<T> Drop for Here<T> {
    #[expect(unsafe_code, reason = "the one way to drop only here")]
    fn drop(&mut self) {
        if process::id() == self.owner {
            // SAFETY: nobody uses the value after its owner's drop, and this runs once.
            unsafe { ManuallyDrop::drop(&mut self.value) };
        }
    }
}

//! Clocks, and ways to sleep until something happens.

pub mod calendar;
pub mod clock;
pub mod event;
pub mod futex;
pub mod readiness;

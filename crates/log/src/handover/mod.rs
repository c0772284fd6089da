//! The hand-over of packets from one writer to many readers: order of stores, waking, and choice of
//! the next segment.

pub(crate) mod cycle;
pub(crate) mod handoff;
#[doc(hidden)]
pub mod promise;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod reuse;
mod trial;
pub(crate) mod wake;
#[doc(hidden)]
pub mod watermark;

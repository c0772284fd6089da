//! How packets go from one writer to many readers: order of stores, waking, and which segment is
//! next.

pub(crate) mod cycle;
pub(crate) mod handoff;
#[doc(hidden)]
pub mod protocol;
#[doc(hidden)]
pub mod reuse;
pub(crate) mod wake;
#[doc(hidden)]
pub mod watermark;

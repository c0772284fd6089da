//! The packet sources of a reader.

pub(crate) mod address;
pub(crate) mod inlet;
pub(crate) mod lane;
pub(crate) mod named;

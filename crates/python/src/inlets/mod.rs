//! Where packets of a reader come from, whatever a word names.

pub(crate) mod address;
pub(crate) mod inlet;
pub(crate) mod lane;
pub(crate) mod named;

//! Flags and values that several verbs share.

pub(crate) mod common;
pub(crate) mod format;
pub(crate) mod inline;
pub(crate) mod log;
pub(crate) mod moment;
pub(crate) mod output;
pub(crate) mod sizes;
pub(crate) mod sources;
pub(crate) mod values;

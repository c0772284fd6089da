//! Reads scenario files and applies the user's options.

pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod options;

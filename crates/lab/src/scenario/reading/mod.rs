//! How a scenario file is read, and what the user may change of it.

pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod options;

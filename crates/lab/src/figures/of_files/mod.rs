//! Figures of recordings, and of records of flows.

pub(crate) mod asking;
pub(crate) mod capture_file;
pub(crate) mod count_file;
pub(crate) mod flowing;
pub(crate) mod python;
pub(crate) mod recording;

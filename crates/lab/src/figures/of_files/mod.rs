//! Figures about recordings and flow records.

pub(crate) mod asking;
pub(crate) mod capture_file;
pub(crate) mod count_file;
pub(crate) mod flowing;
pub(crate) mod indexed;
pub(crate) mod python;
pub(crate) mod recording;

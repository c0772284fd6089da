//! The output of verbs that inspect files, ports, logs and records.

pub(crate) mod archive;
pub(crate) mod doctor;
pub(crate) mod fetch;
pub(crate) mod logs;
pub(crate) mod query;

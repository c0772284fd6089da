//! The verbs that inspect files, ports, logs and records.

pub(crate) mod archive;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod extcap;
pub(crate) mod fetch;
pub(crate) mod ports;
pub(crate) mod query;
pub(crate) mod top;
pub(crate) mod version;

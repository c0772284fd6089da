//! The verbs that look at files, ports, logs and records, and say what they find.

pub(crate) mod archive;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod extcap;
pub(crate) mod fetch;
pub(crate) mod ports;
pub(crate) mod query;
pub(crate) mod shell;
pub(crate) mod top;
pub(crate) mod version;

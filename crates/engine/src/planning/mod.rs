//! Before a job runs: the shape of its log, and where its threads and memory go.

pub(crate) mod log_request;
pub(crate) mod placement;
pub(crate) mod rehearsal;

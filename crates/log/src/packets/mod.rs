//! Copies and selects packets, and describes those in memory of others with a worklist.

pub(crate) mod buckets;
pub(crate) mod copy;
pub(crate) mod frames;
pub(crate) mod head;
pub(crate) mod scratch;
pub(crate) mod select;
pub(crate) mod weave;

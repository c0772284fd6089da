//! The end that reads: a call to a name, its logs, and what may be read in place.

pub(crate) mod attachment;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod link;
pub(crate) mod query;
pub(crate) mod sums;
pub(crate) mod trust;

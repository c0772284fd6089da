//! The reading side: a request to a name, its logs, and the decision what is read in place.

pub(crate) mod attachment;
pub(crate) mod feed;
pub(crate) mod follower;
pub(crate) mod link;
pub(crate) mod query;
pub(crate) mod sums;
pub(crate) mod trust;

//! Packets by themselves: how they are copied, and how a worklist names those that lie elsewhere.

pub(crate) mod buckets;
pub(crate) mod copy;
pub(crate) mod frames;
pub(crate) mod head;
pub(crate) mod scratch;
pub(crate) mod select;

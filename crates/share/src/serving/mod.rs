//! The publisher's thread: the clients it accepts, and the limits of each user.

pub(crate) mod access;
pub(crate) mod crowd;
pub(crate) mod quotas;
pub(crate) mod roster;
pub(crate) mod server;

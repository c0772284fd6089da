//! The publisher's thread: whose calls it takes, and what each user may have.

pub(crate) mod access;
pub(crate) mod crowd;
pub(crate) mod quotas;
pub(crate) mod roster;
pub(crate) mod server;

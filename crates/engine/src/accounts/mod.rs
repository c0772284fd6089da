//! The accounts of a finished job: its ledger, its report, and the verdict on numbered packets.

pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod verify;

//! What a job says at its end: its ledger, its report, and what became of numbered packets.

pub(crate) mod ledger;
pub(crate) mod report;
pub(crate) mod verify;

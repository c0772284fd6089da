//! What writer and readers share besides the packets: control memory, pages of readers, seats.

pub(crate) mod attach;
pub(crate) mod control;
pub(crate) mod history;
pub(crate) mod names;
pub(crate) mod page;
pub(crate) mod remote;
pub(crate) mod seat;
pub(crate) mod standing;

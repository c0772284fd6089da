//! State shared by writer and readers besides the packets: control memory, reader pages, seats.

pub(crate) mod attach;
pub(crate) mod budget;
pub(crate) mod control;
pub(crate) mod history;
pub(crate) mod names;
pub(crate) mod page;
pub(crate) mod remote;
pub(crate) mod seat;
pub(crate) mod standing;

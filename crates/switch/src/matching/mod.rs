//! Rules: what they look at, how they are written, and which one fits a packet.

pub(crate) mod key;
pub(crate) mod rules;
pub(crate) mod table;
pub(crate) mod text;

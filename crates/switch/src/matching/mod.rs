//! Rules: the fields they match, their syntax, and the look-up of a packet's rule.

pub(crate) mod key;
pub(crate) mod rules;
pub(crate) mod table;
pub(crate) mod text;

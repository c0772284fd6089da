//! Rings and messages of a guest that means well, and of one that does not.

mod guest;
mod hostile;
mod messages;
mod packets;

//! Tests rings and messages with a well-behaved guest and with a hostile one.

mod guest;
mod hostile;
mod messages;
mod packets;

//! Live ports, shared logs, and privileges.

#[path = "../support/mod.rs"]
mod support;

mod bounce;
mod calls;
mod flight;
mod live;
mod losses;
mod memory;
mod nicsim;
mod rights;
mod rights_refused;
mod shared;
mod shared_live;
mod signals;

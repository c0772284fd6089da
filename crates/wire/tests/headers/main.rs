//! Headers: built layer by layer, by hand, and hostile ones.

#[path = "../support/headers.rs"]
mod headers_build;
#[path = "../support/tunnel.rs"]
mod tunnel_build;

mod built;
mod cases;
mod hostile;

//! Logs shared between real processes, over real sockets in a directory of each test's own.

mod common;
mod life;
mod roles;

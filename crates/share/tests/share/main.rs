//! Shares logs between real processes, over real sockets in a directory of each test.

mod campaign;
mod clients;
mod common;
mod life;
mod limits;
mod mad;
mod permissions;
mod places;
mod quotas;
mod roles;
mod scribbler;
mod servers;
mod verdicts;
mod wire;

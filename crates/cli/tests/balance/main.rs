//! `burstline balance`: workers that are logs, files and interfaces.

#[path = "../support/mod.rs"]
mod support;

mod balance;
mod balance_flows;
mod balance_live;
mod conversations;
mod mutated;

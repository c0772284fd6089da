//! Benchmarks that compare Burstline with its rivals on the same work in the same process.
//!
//! ```text
//!   lab run --> scenario: points --\                  /-- ours      the same traffic, pages, cores
//!                                   >-- contenders --<                and work for all
//!   bench --> figures: one point --/                  \-- rivals
//!               of two, in turns         each turn a Sample --> rows of a Record --> report
//! ```
//!
//! A rival is written as well as we can write it. It is tried in several sizes and measured in its
//! best one. Every comparison prints one line. Below it are the facts needed to doubt it: sizes,
//! pages, cores, quartiles and the load of the machine.
//!
//! Invariants:
//! - I1: every run checks each side's result (sums over all packets, counts of packets), measured
//!   or not. A wrong sum ends the figure with an error.
//! - I2: the figures leave nothing behind: no reserved pages, files, processes or networks.

pub mod arena;
pub mod contenders;
pub mod documents;
pub mod figures;
pub mod glob;
mod held;
pub mod lines;
pub mod live;
mod measuring;
pub mod options;
pub mod ours;
pub mod pages;
mod perf;
pub mod programs;
pub mod readiness;
pub mod record;
pub mod remote;
pub mod reports;
pub mod rfc2544;
pub mod rivals;
pub mod scenario;
mod sensors;
pub mod sharing;
pub mod sources;
pub mod symbols;
pub mod traffic;

pub use measuring::{
    compared, conditions, contest, distribution, instructions, statistics, threads,
};

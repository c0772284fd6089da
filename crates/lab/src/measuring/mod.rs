//! Tools to measure a comparison: turns, threads, counts, order statistics and conditions.

pub mod compared;
pub mod conditions;
pub mod contest;
pub mod distribution;
pub mod instructions;
pub mod statistics;
pub mod threads;

//! How a comparison is measured: sides in turns, threads, counts, order statistics, conditions.

pub mod compared;
pub mod conditions;
pub mod contest;
pub mod distribution;
pub mod instructions;
pub mod statistics;
pub mod threads;

//! Recordings after a storage fault or a power cut: delivered packets are as recorded, every valid
//! segment is delivered, and all other packets are counted as lost. `BURSTLINE_SEEDS=10000` tests
//! more than the default 300, `BURSTLINE_SEEDS=10001-20000` others. Every second recording has flow
//! hashes.

#[path = "../common/mod.rs"]
mod common;

mod made;
mod others;
mod power;
mod segments;
mod written;

/// Returns the first and the last seed to try.
fn seeds() -> (u64, u64) {
    let asked = std::env::var("BURSTLINE_SEEDS").unwrap_or_else(|_| "300".to_owned());
    let (first, last) = asked.split_once('-').unwrap_or(("1", &asked));
    (first.parse().unwrap(), last.parse().unwrap())
}

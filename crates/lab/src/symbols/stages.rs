//! Assigns functions to stages of the work, for any contender, as the document about NUMA did with
//! a processor's profiler.
//!
//! ```text
//!   "kernel: memcpy" --first pattern of stages.toml that fits--> copy --sum--> 31 % of a core
//!   "burstline: new_function" --none fits-----------------------> other
//! ```
//!
//! Patterns are data, each with a reason. A function that the compiler inlined counts with its
//! caller. So `hash` contains only hashing, and the true share may be larger.
//!
//! Invariants:
//! - G1: every name has one stage: that of the first matching pattern, or [`Part::Other`].
//! - G2: the stages of a turn add up to all its samples, each counted once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::glob;

/// A stage of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Polling for packets and receiving them: driver, system calls, descriptors, counting.
    Poll,
    /// Copying packets.
    Copy,
    /// Determining the flow of a packet.
    Hash,
    /// Handing packets on: to a queue, a worker, an interface, a file.
    Enqueue,
    /// Packet memory: allocation, freeing, clearing.
    Free,
    /// Polling without finding packets.
    IdlePoll,
    /// The lab's generator, if its core is counted, too.
    Generator,
    /// Functions without a pattern.
    Other,
}

impl Part {
    /// All stages, in the order of reports.
    pub const ALL: [Self; 8] = [
        Self::Poll,
        Self::Copy,
        Self::Hash,
        Self::Enqueue,
        Self::Free,
        Self::IdlePoll,
        Self::Generator,
        Self::Other,
    ];

    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Copy => "copy",
            Self::Hash => "hash",
            Self::Enqueue => "enqueue",
            Self::Free => "free",
            Self::IdlePoll => "idle_poll",
            Self::Generator => "generator",
            Self::Other => "other",
        }
    }

    /// Returns the stage of a function, as named by [`Symbols`](super::Symbols).
    pub fn of(symbol: &str) -> Self {
        let fits =
            |pattern: &&Pattern| pattern.names.iter().any(|name| glob::matches(name, symbol));
        patterns().iter().find(fits).map_or(Self::Other, |pattern| pattern.stage)
    }
}

/// Functions of one stage, for one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pattern {
    stage: Part,
    /// `FILE: FUNCTION`, or `FILE` if only that is known, with `*` and `?`.
    names: Vec<String>,
    /// The reason, for readers of the file.
    #[cfg_attr(not(test), expect(dead_code, reason = "a test asks for it"))]
    why: String,
}

fn patterns() -> &'static [Pattern] {
    #[derive(Deserialize)]
    struct File {
        pattern: Vec<Pattern>,
    }
    static PATTERNS: OnceLock<Vec<Pattern>> = OnceLock::new();
    PATTERNS.get_or_init(|| {
        let file: Result<File, _> = toml::from_str(include_str!("stages.toml"));
        file.expect("a test reads it").pattern
    })
}

/// Returns each stage's per cent of a core from those of functions; every stage is present.
///
/// `idle` is the share of time in `[0, 1]` that a contender spends in empty polls by its own
/// account, if it reports one. That share of its stages is [`Part::IdlePoll`] and is subtracted
/// from its polls. If it is `None`, empty polls count as polls, except for functions that only
/// empty polls call.
pub fn shares(symbols: &[(String, f64)], idle: Option<f64>) -> BTreeMap<Part, f64> {
    let mut shares: BTreeMap<Part, f64> = Part::ALL.into_iter().map(|part| (part, 0.0)).collect();
    for (symbol, percent) in symbols {
        *shares.entry(Part::of(symbol)).or_default() += percent;
    }
    if let Some(idle) = idle {
        let all: f64 = shares.values().sum();
        let own = all - shares[&Part::Generator] - shares[&Part::Other];
        let polls = shares[&Part::Poll] + shares[&Part::IdlePoll];
        let idle = (idle * own).clamp(0.0, polls);
        shares.insert(Part::Poll, polls - idle);
        shares.insert(Part::IdlePoll, idle);
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names from runs of contenders: see the file's header.
    const SEEN: &str = include_str!("seen.txt");

    fn seen() -> impl Iterator<Item = (&'static str, &'static str)> {
        let lines = SEEN.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split_once('\t').expect("a stage and a name"))
    }

    #[test]
    fn every_name_that_was_seen_has_its_stage() {
        for (stage, name) in seen() {
            assert_eq!(Part::of(name).name(), stage, "{name}");
        }
    }

    #[test]
    fn every_pattern_is_the_first_to_fit_something_that_was_seen() {
        let mut dead = Vec::new();
        for (number, pattern) in patterns().iter().enumerate() {
            assert!(pattern.why.ends_with('.'), "{:?} says why in a sentence", pattern.names);
            for name in &pattern.names {
                let before = patterns()[..number].iter().flat_map(|before| &before.names);
                let before: Vec<&String> = before.collect();
                let is_first = |seen: &str| {
                    glob::matches(name, seen) && !before.iter().any(|b| glob::matches(b, seen))
                };
                if !seen().any(|(_, seen)| is_first(seen)) {
                    dead.push(name);
                }
            }
        }
        assert!(dead.is_empty(), "{dead:#?}");
    }

    #[test]
    fn shares_add_up_and_what_a_contender_tells_divides_its_polls() {
        let symbols =
            [("kernel: memcpy", 30.0), ("kernel: net_rx_action", 50.0), ("nobody's", 5.0)];
        let symbols = symbols.map(|(name, percent)| (name.to_owned(), percent));
        let untold = shares(&symbols, None);
        assert_eq!((untold.len(), untold.values().sum::<f64>()), (Part::ALL.len(), 85.0));
        assert_eq!((untold[&Part::Copy], untold[&Part::Poll]), (30.0, 50.0));
        assert_eq!((untold[&Part::IdlePoll], untold[&Part::Other]), (0.0, 5.0));
        // A quarter of the contender's 80 %.
        let told = shares(&symbols, Some(0.25));
        assert_eq!((told[&Part::Poll], told[&Part::IdlePoll]), (30.0, 20.0));
        // The two clocks differ, so the idle share is limited to the polls' time.
        let all = shares(&symbols, Some(0.9));
        assert_eq!((all[&Part::Poll], all[&Part::IdlePoll]), (0.0, 50.0));
    }
}

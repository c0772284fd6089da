//! Which part of the work a function is, for any contender: what a profiler of the processor's was
//! asked in the document about NUMA.
//!
//! ```text
//!   "kernel: memcpy" --first pattern of stages.toml that fits--> copy --sum--> 31 % of a core
//!   "burstline: new_function" --none fits-----------------------> other
//! ```
//!
//! Patterns are data, each with a sentence that says why. A function that the compiler inlined
//! counts with its caller. So `hash` contains only hashing, and the true part may be larger.
//!
//! Invariants:
//! - G1: every name has one stage: that of the first pattern that fits, or [`Part::Other`].
//! - G2: stages of a turn add up to all of its samples: none is left out, none counts twice.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::glob;

/// A part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Looking for packets and taking them: driver, system calls, descriptors, counting.
    Poll,
    /// Bytes of packets from one place to another.
    Copy,
    /// Which flow a packet is of.
    Hash,
    /// Handing packets on: to a queue, a worker, an interface, a file.
    Enqueue,
    /// Memory of packets: taken, given back, cleared.
    Free,
    /// Looking for packets where there are none.
    IdlePoll,
    /// The lab's own making of packets, where its core is counted, too.
    Generator,
    /// What no pattern knows.
    Other,
}

impl Part {
    /// All of them, in the order in which reports have them.
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

    /// As in records.
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

    /// That of a function, as [`Symbols`](super::Symbols) names it.
    pub fn of(symbol: &str) -> Self {
        let fits =
            |pattern: &&Pattern| pattern.names.iter().any(|name| glob::matches(name, symbol));
        patterns().iter().find(fits).map_or(Self::Other, |pattern| pattern.stage)
    }
}

/// Functions of one stage for one reason.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pattern {
    stage: Part,
    /// `FILE: FUNCTION`, or `FILE` where that is all that is known, with `*` and `?`.
    names: Vec<String>,
    /// For readers of the file.
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

/// Per cent of a core for each stage, by those of functions; every stage is there.
///
/// `idle` is the part of its time, in `[0, 1]`, that a contender spends in empty polls by its own
/// account, if it gives one. That much of its stages is [`Part::IdlePoll`], and is subtracted from
/// its polls. Where it is `None`, polls that find nothing are among those that find something,
/// functions aside that only such polls call.
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

    /// Names that runs of contenders had: see the file's head.
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
        // A quarter of the 80 % that are the contender's.
        let told = shares(&symbols, Some(0.25));
        assert_eq!((told[&Part::Poll], told[&Part::IdlePoll]), (30.0, 20.0));
        // The clocks of both are not the same: never more than there is.
        let all = shares(&symbols, Some(0.9));
        assert_eq!((all[&Part::Poll], all[&Part::IdlePoll]), (0.0, 50.0));
    }
}

//! Counts the instructions and cache misses of a piece of work, by running the program again under
//! valgrind.
//!
//! ```text
//! bench FIGURE     --> callgrind:  bench --count-instructions PIECE ROUNDS
//! lab run NAME     --> cachegrind: burstline lab run ONE-POINT.toml --packets N
//!                      each twice: a few rounds or packets, and more
//! ```
//!
//! The difference of the two runs is the work of the rounds between, without the program's start.
//! Unlike a time, a count does not depend on the machine's load. Caches are simulated with two
//! levels, as large as this processor's first and last one, without prefetching or other users. A
//! TLB is a cache whose lines are pages, so the same tool simulates it.

use std::path::Path;
use std::process::{Command, Output};

/// The option with which `bench` only repeats a piece of work.
pub const OPTION: &str = "--count-instructions";

/// Text shown instead of a count.
pub const NOT_COUNTED: &str =
    "instructions are not counted: valgrind is missing, or cannot run this program";

const FEW: u64 = 1;
const MORE: u64 = 9;

/// Returns the instructions of one round of `piece`, or `None` if valgrind is missing or fails.
pub fn of_a_round(piece: &str) -> Option<f64> {
    let [few, more] = [FEW, MORE].map(|rounds| of_a_run(piece, rounds));
    Some((more? as f64 - few? as f64) / (MORE - FEW) as f64)
}

/// Like [`of_a_round`], per packet, for rounds of this many packets.
pub fn of_a_packet(piece: &str, packets: u64) -> Option<f64> {
    Some(of_a_round(piece)? / packets as f64)
}

fn of_a_run(piece: &str, rounds: u64) -> Option<u64> {
    let arguments = [OPTION, piece, &rounds.to_string()].map(str::to_owned);
    let output = valgrind(&CALLGRIND, &std::env::current_exe().ok()?, &arguments).ok()?;
    counted(&String::from_utf8_lossy(&output.stderr))
}

/// Counts a program's instructions in functions that match `pattern`. Also returns its output.
///
/// # Errors
/// If valgrind is missing or the program failed. The error is a sentence.
pub fn of_function(
    program: &Path,
    arguments: &[String],
    pattern: &str,
) -> Result<(u64, String), String> {
    let toggle = format!("--toggle-collect={pattern}");
    let output = valgrind(&[&CALLGRIND[..], &[&toggle]].concat(), program, arguments)?;
    let counted =
        counted(&String::from_utf8_lossy(&output.stderr)).ok_or("callgrind has no summary")?;
    Ok((counted, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// The flags for counting instructions.
pub(crate) const CALLGRIND: [&str; 2] = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];

/// Parses the count in callgrind's output. Source: Valgrind 3.19, Callgrind's summary: `==N==
/// Collected : 1234`.
pub(crate) fn counted(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The simulated processor's counts for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Instructions executed.
    pub instructions: u64,
    /// Data loads and stores that missed the first-level cache.
    pub first_misses: u64,
    /// Data and instruction accesses that missed the last-level cache.
    pub last_misses: u64,
    /// The data loads and stores among these.
    pub last_data_misses: u64,
}

/// What is simulated between a program and its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Caches of this processor's sizes.
    Caches,
    /// A TLB of two levels for pages of this many bytes, a power of two.
    Tlb(u64),
}

/// Entries of a TLB's first and second level, with the ways of the second. They are about those of
/// processors of 2015 to 2022, in powers of two, which the tool needs. Sources: Intel's
/// Optimization Reference Manual, Skylake; AMD's Software Optimization Guide for family 19h.
const TLB_FIRST: u64 = 64;
const TLB_LAST: u64 = 2048;
const TLB_WAYS: u64 = 16;

/// The tool's sizes have 31 bits; for pages of 2 MiB, this leaves the second level 512 entries.
const CACHE_BYTES_MAX: u64 = 1 << 30;

impl Level {
    /// Source: Valgrind 3.19, Cachegrind's `--D1=<size>,<associativity>,<line size>`.
    fn options(self) -> Vec<String> {
        let Self::Tlb(page_bytes) = self else { return Vec::new() };
        let last = (TLB_LAST * page_bytes).min(CACHE_BYTES_MAX);
        vec![
            format!("--D1={},{TLB_FIRST},{page_bytes}", TLB_FIRST * page_bytes),
            format!("--LL={last},{TLB_WAYS},{page_bytes}"),
        ]
    }
}

impl Simulated {
    /// Runs a program to its end. Returns its counts and its output.
    ///
    /// # Errors
    /// If valgrind is missing or the program failed. The error is a sentence.
    pub fn run(
        program: &Path,
        arguments: &[String],
        level: Level,
    ) -> Result<(Self, String), String> {
        let tool = ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"];
        let options = level.options();
        let tool: Vec<&str> = tool.into_iter().chain(options.iter().map(String::as_str)).collect();
        let output = valgrind(&tool, program, arguments)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let counts = Self::parse(&said).ok_or("cachegrind has no summary")?;
        Ok((counts, String::from_utf8_lossy(&output.stdout).into_owned()))
    }

    /// Source: Valgrind 3.19, Cachegrind's summary: `==N== D1  misses:  1,234  (1 rd + 3 wr)`.
    fn parse(said: &str) -> Option<Self> {
        let count = |words: [&str; 2]| {
            said.lines().find_map(|line| {
                let mut found = line.split_whitespace().skip(1);
                let is_it = words.into_iter().all(|word| found.next() == Some(word));
                is_it.then(|| found.next()?.replace(',', "").parse().ok()).flatten()
            })
        };
        Some(Self {
            instructions: count(["I", "refs:"])?,
            first_misses: count(["D1", "misses:"])?,
            last_misses: count(["LL", "misses:"])?,
            last_data_misses: count(["LLd", "misses:"])?,
        })
    }
}

fn valgrind(tool: &[&str], program: &Path, arguments: &[String]) -> Result<Output, String> {
    let mut valgrind = Command::new("valgrind");
    // Off, because valgrind makes its own system calls on the program's threads.
    valgrind.args(tool).arg(program).args(arguments).env("BURSTLINE_CONFINE", "off");
    let output = valgrind.output();
    let output = output.map_err(|error| format!("valgrind: {error}: apt-get install valgrind"))?;
    let last = String::from_utf8_lossy(&output.stderr);
    let last = last.lines().rfind(|line| !line.starts_with("==")).unwrap_or_default();
    match output.status.success() {
        true => Ok(output),
        false => Err(format!(
            "under valgrind {} ended with {}: {last}",
            program.display(),
            output.status
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_read() {
        let said = "==7== \n==7== I   refs:      1,234,567\n==7== I1  misses:        9\n\
                    ==7== D   refs:        700,000  (500,000 rd + 200,000 wr)\n\
                    ==7== D1  misses:        2,345  (2,000 rd + 345 wr)\n\
                    ==7== LLd misses:          100  (90 rd + 10 wr)\n\
                    ==7== LL refs:          3,000  (1 rd + 2 wr)\n\
                    ==7== LL misses:          123  (113 rd + 10 wr)\n";
        let counts = Simulated::parse(said).unwrap();
        let expected = Simulated {
            instructions: 1_234_567,
            first_misses: 2_345,
            last_misses: 123,
            last_data_misses: 100,
        };
        assert_eq!(counts, expected);
        assert_eq!(Simulated::parse(&said.replace("D1", "D2")), None);
    }

    #[test]
    fn who_fails_is_said() {
        let nowhere = Simulated::run(Path::new("/nowhere/at-all"), &[], Level::Caches);
        assert!(nowhere.unwrap_err().contains("valgrind"));
    }

    #[test]
    fn a_tlb_is_a_cache_of_pages() {
        let options = Level::Tlb(4096).options();
        assert_eq!(options, ["--D1=262144,64,4096", "--LL=8388608,16,4096"]);
        let options = Level::Tlb(2 << 20).options();
        assert_eq!(options, ["--D1=134217728,64,2097152", "--LL=1073741824,16,2097152"]);
        assert!(Level::Caches.options().is_empty());
    }
}

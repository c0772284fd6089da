//! Instructions that a piece of work takes, and misses of caches: a program once more, under
//! valgrind.
//!
//! ```text
//! bench FIGURE     --> callgrind:  bench --count-instructions PIECE ROUNDS
//! lab run NAME     --> cachegrind: burstline lab run ONE-POINT.toml --packets N
//!                      each twice: a few rounds or packets, and more
//! ```
//!
//! The difference of the two is the work of the rounds between, without the start of the program.
//! A count does not depend on the machine's load, as a time does. Caches are simulated: two levels,
//! as large as this processor's first and last one, without prefetching, and with nobody else in
//! them.

use std::path::Path;
use std::process::{Command, Output};

/// The option that makes `bench` do a piece of work and nothing else.
pub const OPTION: &str = "--count-instructions";

/// What is said in place of a count.
pub const NOT_COUNTED: &str =
    "instructions are not counted: there is no valgrind, or it does not run this";

const FEW: u64 = 1;
const MORE: u64 = 9;

/// Instructions of one round of `piece`; `None` where there is no valgrind, or it could not be run.
pub fn of_a_round(piece: &str) -> Option<f64> {
    let [few, more] = [FEW, MORE].map(|rounds| of_a_run(piece, rounds));
    Some((more? as f64 - few? as f64) / (MORE - FEW) as f64)
}

/// As [`of_a_round`], for each of so many packets of a round.
pub fn of_a_packet(piece: &str, packets: u64) -> Option<f64> {
    Some(of_a_round(piece)? / packets as f64)
}

fn of_a_run(piece: &str, rounds: u64) -> Option<u64> {
    let tool = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
    let arguments = [OPTION, piece, &rounds.to_string()].map(str::to_owned);
    let output = valgrind(&tool, &std::env::current_exe().ok()?, &arguments).ok()?;
    counted(&String::from_utf8_lossy(&output.stderr))
}

/// The count in what callgrind has printed.
pub(crate) fn counted(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// What a simulated processor did for a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulated {
    /// Instructions that were finished.
    pub instructions: u64,
    /// Loads and stores that the first cache of data did not have.
    pub first_misses: u64,
    /// Those, and instructions, that the last cache did not have.
    pub last_misses: u64,
}

impl Simulated {
    /// Runs a program to its end. What it did, and what it printed.
    ///
    /// # Errors
    /// There is no valgrind, or the program failed: a sentence.
    pub fn run(program: &Path, arguments: &[String]) -> Result<(Self, String), String> {
        let tool = ["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"];
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
        })
    }
}

fn valgrind(tool: &[&str], program: &Path, arguments: &[String]) -> Result<Output, String> {
    let output = Command::new("valgrind").args(tool).arg(program).args(arguments).output();
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
        let expected = Simulated { instructions: 1_234_567, first_misses: 2_345, last_misses: 123 };
        assert_eq!(counts, expected);
        assert_eq!(Simulated::parse(&said.replace("D1", "D2")), None);
    }

    #[test]
    fn who_fails_is_said() {
        let nowhere = Simulated::run(Path::new("/nowhere/at-all"), &[]).unwrap_err();
        assert!(nowhere.contains("valgrind"), "{nowhere}");
    }
}

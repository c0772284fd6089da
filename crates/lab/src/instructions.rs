//! Instructions that a piece of work takes: this program once more, under callgrind.
//!
//! ```text
//! bench FIGURE --> valgrind bench --count-instructions PIECE ROUNDS   twice: few rounds, and more
//! ```
//!
//! The difference of the two is the work of the rounds between, without the start of the program.
//! A count does not depend on the machine's load, as a time does; it says nothing of caches.

use std::process::Command;

/// The option that makes `bench` do a piece of work and nothing else.
pub const OPTION: &str = "--count-instructions";

const FEW: u64 = 1;
const MORE: u64 = 9;

/// Instructions of one round of `piece`; `None` where there is no valgrind, or it could not be run.
pub fn of_a_round(piece: &str) -> Option<f64> {
    let [few, more] = [FEW, MORE].map(|rounds| of_a_run(piece, rounds));
    Some((more? as f64 - few? as f64) / (MORE - FEW) as f64)
}

fn of_a_run(piece: &str, rounds: u64) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(std::env::current_exe().ok()?)
        .args([OPTION, piece, &rounds.to_string()])
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok().filter(|_| output.status.success())
}

//! Counts the packets per flow of a file in Python: with our package, with scapy and with dpkt.
//!
//! Each side is a process that runs a program of `crates/lab/rivals-python`. It prints the time
//! from opening the file to the final counts, so imports do not count. It also prints its results:
//! packets, flows, and the sum of the squares of the flows' counts. All three must agree.
//!
//! The rivals do what their users do: they parse headers with the library. The record also has the
//! time of each reader in a program that slices the addresses out of the raw bytes.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::compared::{Better, Outcome};
use crate::figures::Context;
use crate::figures::capture_file::CaptureFile;
use crate::figures::count_file::run;
use crate::live::Need;

/// Packets by rival, of 350 bytes each, so that a turn of the rival takes some seconds.
const PACKETS: [(&str, u64); 2] = [("scapy", 100_000), ("dpkt", 500_000)];
const SEED: u64 = 20_240_607;

const PYTHON: Need = Need { program: "Python 3.11 or later", package: "python3 python3-venv" };

/// The final output of a program.
#[derive(Debug, Deserialize)]
struct Said {
    seconds: f64,
    packets: u64,
    flows: u64,
    squares: u64,
}

impl Said {
    /// The counts that must agree.
    fn counts(&self) -> [u64; 3] {
        [self.packets, self.flows, self.squares]
    }
}

/// `python-scapy`, `python-dpkt`: the second word is the rival.
pub(crate) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let rival = name.trim_start_matches("python-");
    let Some(python) = interpreter()? else {
        // Where it can be built, our own package is missing, which is a failure.
        return if can_build() { Err(absent()) } else { Ok(Outcome::NotHere(PYTHON.lack())) };
    };
    let known = PACKETS.iter().find(|(name, _)| *name == rival);
    let &(_, packets) = known.ok_or_else(|| format!("no program is called flows_{rival}"))?;
    let packets = if context.smoke { 2000 } else { packets };
    let file = CaptureFile::create(packets, SEED)?;
    let count = |side: &str| count(&python, side, file.path());
    let expected = count("burstline")?;
    if expected.packets != packets {
        return Err(format!("ours counted {} packets, not {packets}", expected.packets));
    }
    let turn = |side: &str| {
        let said = count(side)?;
        match said.counts() == expected.counts() {
            true => Ok(said.seconds * 1e9 / packets as f64),
            false => Err(format!("{side} counted {said:?}, ours {expected:?}")),
        }
    };
    let comparison = context.begin();
    let rounds = context.turns(context.runs, || turn("burstline"), || turn(rival))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let raw = turn(&format!("{rival}_raw"))?;
    let details = vec![
        format!("{packets} packets of {} flows, {} bytes", expected.flows, file.bytes()),
        "ours: crates/lab/rivals-python/flows_burstline.py FILE".to_owned(),
        format!("peer: crates/lab/rivals-python/flows_{rival}.py FILE"),
        "from the file's name to the counts, file in the page cache, counts equal".to_owned(),
        format!("peer's reader alone, headers cut out by hand, one turn: {raw:.0} ns a packet"),
    ];
    Ok(comparison.outcome("ns", Better::Lower, rounds, details))
}

/// Returns the version that the rival reports.
pub(crate) fn version(rival: &str) -> String {
    let python = match interpreter() {
        Ok(Some(python)) => python,
        Ok(None) => return absent(),
        Err(why) => return why,
    };
    let program = format!("import {rival}; print({rival}.__version__)");
    match run(Command::new(python).args(["-c", &program])) {
        Ok(version) => format!("{rival} {}", version.trim()),
        Err(why) => why,
    }
}

/// Returns the Python with our package and its rivals, which scripts/python installs in the target
/// folder; `None` if it is not there.
///
/// # Errors
/// If it is there and does not import our package.
fn interpreter() -> Result<Option<PathBuf>, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let python = bench.ancestors().nth(2).map(|target| target.join("python/bin/python"));
    let Some(python) = python.filter(|python| python.exists()) else { return Ok(None) };
    run(Command::new(&python).args(["-c", "import burstline"]))?;
    Ok(Some(python))
}

/// Returns whether this machine has what scripts/python needs.
fn can_build() -> bool {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/python");
    run(Command::new(script).arg("check")).is_ok()
}

fn absent() -> String {
    "the Python package is not built: scripts/python install".to_owned()
}

fn count(python: &Path, side: &str, file: &Path) -> Result<Said, String> {
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("rivals-python");
    let program = programs.join(format!("flows_{side}.py"));
    let said = run(Command::new(python).arg("-B").arg(program).arg(file))?;
    serde_json::from_str(said.trim()).map_err(|error| format!("{side}: {error}: {said}"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::figures::Seen;
    use crate::threads::Cores;

    /// The package is beside `bench`, and this test is a folder further down.
    #[test]
    fn a_package_that_is_not_built_is_a_failure_where_it_can_be() {
        let context = Context {
            smoke: true,
            full: false,
            runs: 1,
            cores: Cores::allowed(),
            stop: Arc::new(AtomicBool::new(false)),
            seen: Seen::default(),
        };
        let outcome = measure(&context, "python-dpkt");
        match can_build() {
            true => assert_eq!(outcome.unwrap_err(), absent()),
            false => assert!(matches!(outcome, Ok(Outcome::NotHere(_))), "{outcome:?}"),
        }
    }
}

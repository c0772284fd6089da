//! Runs this program as a process and reads its final report.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Launch, Memory, Ready};

/// Returns the path of `burstline` of the same build, which is beside `bench`.
pub(crate) fn our_program() -> Result<PathBuf, String> {
    let bench = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = bench.parent().unwrap_or(Path::new(".")).join("burstline");
    match program.is_file() {
        true => Ok(program),
        false => Err(format!("{} is missing: cargo build --release", program.display())),
    }
}

/// Returns cargo's target folder, where this program is in `release`.
pub(crate) fn target() -> Result<PathBuf, String> {
    let program = our_program()?;
    let folder = program.ancestors().nth(2);
    folder.map(Path::to_owned).ok_or_else(|| format!("{} is in no folder", program.display()))
}

/// This program. It is ready at its first interval line, when its ports are open.
#[derive(Clone, Debug)]
pub struct Ours(String);

impl Ours {
    /// Runs `program` with these arguments.
    pub fn new(program: &Path, words: &str) -> Self {
        Self(format!("'{}' {words} --json --stats 100ms", program.display()))
    }
}

impl Launch for Ours {
    fn command(&self, _: Memory) -> String {
        self.0.clone()
    }

    fn ready(&self) -> Ready {
        Ready::line("interval")
    }
}

/// A report whose ledger was checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Packets that reached the interface, as counted by the kernel or the XDP program.
    pub offered: u64,
    /// Packets that were counted or written.
    pub delivered: u64,
    /// The fate of the other packets, as reported.
    pub lost: String,
    /// Wall time of the receive thread's polls that found packets, in s.
    pub busy_seconds: f64,
    /// Processor time of the job, all threads, in s.
    pub cpu_seconds: f64,
    /// Duration of the job in s.
    pub elapsed_seconds: f64,
}

impl Report {
    /// Parses the last line.
    ///
    /// # Errors
    /// If it is not JSON.
    pub fn last(said: &str) -> Result<Value, String> {
        let last = said.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).map_err(|_| format!("no report: {said}"))
    }

    /// Parses the last line and checks that it accounts for all of `injected` frames.
    ///
    /// # Errors
    /// If there is no such line, if it names an error, or if the ledger does not balance.
    pub fn parse(said: &str, injected: u64) -> Result<Self, String> {
        let report = Self::of_its_own(said)?;
        match report.offered == injected {
            true => Ok(report),
            false => {
                let offered = report.offered;
                Err(format!("burstline saw {offered} of {injected} injected frames: {said}"))
            }
        }
    }

    /// Like [`parse`](Self::parse), if the number of frames is not known otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn of_its_own(said: &str) -> Result<Self, String> {
        let last = Self::last(said)?;
        let total = &last["total"];
        let count = |key: &str| total[key].as_i64().ok_or_else(|| format!("no {key}: {last}"));
        let number = |value: &Value| value.as_f64().unwrap_or_default();
        let (offered, unaccounted) = (count("offered")? as u64, count("unaccounted")?);
        let has_errors = last["errors"].as_array().is_none_or(|errors| !errors.is_empty());
        if unaccounted != 0 || has_errors {
            return Err(format!("burstline: {unaccounted} packets unaccounted for: {last}"));
        }
        Ok(Self {
            offered,
            delivered: count("delivered")? as u64,
            lost: total["lost"].to_string(),
            busy_seconds: number(&last["stages"][0]["busy_s"]),
            cpu_seconds: number(&last["cpu"]["user_s"]) + number(&last["cpu"]["system_s"]),
            elapsed_seconds: number(&last["elapsed_s"]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_does_not_close_is_an_error() {
        let said = |offered: u64, unaccounted: i64| {
            format!(
                "{{\"interval\":1}}\n{{\"elapsed_s\":2.0,\"errors\":[],\"total\":{{\"offered\":\
                 {offered},\"delivered\":9,\"lost\":{{\"x\":1}},\"unaccounted\":{unaccounted}}},\
                 \"stages\":[{{\"busy_s\":0.5}}],\"cpu\":{{\"user_s\":0.25,\"system_s\":0.5}}}}\n"
            )
        };
        let report = Report::parse(&said(10, 0), 10).unwrap();
        assert_eq!((report.delivered, report.lost.as_str()), (9, "{\"x\":1}"));
        assert_eq!((report.busy_seconds, report.cpu_seconds), (0.5, 0.75));
        assert!(Report::parse(&said(10, 1), 10).unwrap_err().contains("1 packets unaccounted"));
        assert!(Report::parse(&said(10, 0), 11).unwrap_err().contains("saw 10 of 11"));
        assert!(Report::parse("killed", 1).unwrap_err().starts_with("no report: killed"));
    }
}

//! Other programs that read capture files, if they are installed.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Read};

use burstline_sys::helper::launcher::Program;

/// The number of packets that tshark reads in about a second.
const FEW: u64 = 20_000;

/// The name of a program and the count it found.
pub(super) type Verdict = (String, Option<u64>);

/// A program that judges, and its arguments before the path of a file.
struct Judge {
    program: &'static str,
    arguments: &'static [&'static str],
    /// It dissects every packet, so it is only asked if they are few.
    takes_few: bool,
}

const JUDGES: [Judge; 3] = [
    Judge { program: "tcpdump", arguments: &["--count", "-r"], takes_few: false },
    Judge { program: "capinfos", arguments: &["-c", "-M", "-T", "-r", "-C"], takes_few: false },
    Judge {
        program: "tshark",
        arguments: &["-T", "fields", "-e", "frame.number", "-r"],
        takes_few: true,
    },
];

impl Judge {
    fn command(&self, path: &str) -> Vec<OsString> {
        let words = [&[self.program], self.arguments, &[path]].concat();
        words.into_iter().map(OsString::from).collect()
    }

    /// Returns its count, or `None` if it is missing or printed no number.
    fn count(&self, path: &str) -> Option<u64> {
        let (mut printed, output) = io::pipe().ok()?;
        let nowhere = OpenOptions::new().write(true).open("/dev/null").ok()?;
        // It is killed when this is dropped.
        let _program = Program::start(&self.command(path), output.into(), nowhere.into()).ok()?;
        let mut text = String::new();
        printed.read_to_string(&mut text).ok()?;
        number_in(&text)
    }
}

/// Returns the commands that may judge files of these paths.
pub(super) fn commands(paths: &[&str]) -> Vec<Vec<OsString>> {
    let of = |path: &&str| JUDGES.iter().map(|judge| judge.command(path)).collect::<Vec<_>>();
    paths.iter().flat_map(of).collect()
}

/// Returns each program's packet count of a file with `packets` packets.
pub(super) fn ask(path: &str, packets: u64) -> Vec<Verdict> {
    let judges = JUDGES.iter().filter(|judge| !judge.takes_few || packets < FEW);
    judges.map(|judge| (format!("read by {}", judge.program), judge.count(path))).collect()
}

/// Returns the last number in `text`: `N packets` or `FILE<tab>N`.
fn number_in(text: &str) -> Option<u64> {
    text.split_whitespace().rev().find_map(|word| word.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_counts() {
        assert_eq!(number_in("149 packets\n"), Some(149));
        assert_eq!(number_in("/tmp/7/a.pcapng\t2044700\n"), Some(2_044_700));
        assert_eq!(number_in("nothing\n"), None);
    }
}

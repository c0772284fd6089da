//! Other programs that read capture files, if they are installed.

use std::process::{Command, Stdio};

/// The number of packets that tshark reads in about a second.
const FEW: u64 = 20_000;

/// The name of a program and the count it found.
pub(super) type Verdict = (String, Option<u64>);

/// Returns each program's packet count, or `None` if it is missing or printed no number.
///
/// tshark dissects every packet, so it is only asked if `packets` is small.
pub(super) fn ask(path: &str, packets: u64) -> Vec<Verdict> {
    let ask = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        number_in(&text)
    };
    let mut verdicts = vec![
        ("read by tcpdump".to_owned(), ask("tcpdump", &["--count", "-r", path])),
        ("read by capinfos".to_owned(), ask("capinfos", &["-c", "-M", "-T", "-r", "-C", path])),
    ];
    if packets < FEW {
        let arguments = ["-r", path, "-T", "fields", "-e", "frame.number"];
        verdicts.push(("read by tshark".to_owned(), ask("tshark", &arguments)));
    }
    verdicts
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

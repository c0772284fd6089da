//! Other programs that read capture files, where they are installed.

use std::process::{Command, Stdio};

/// Packets that tshark takes a second for.
const FEW: u64 = 20_000;

/// Who was asked, and what it found.
pub(super) type Verdict = (String, Option<u64>);

/// Who was asked, and how many packets it found; `None` where it is not installed or said nothing
/// that is a number.
///
/// tshark takes apart every packet: it is asked only if `packets` are few.
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

/// The last word of `text` that is a number: `N packets` or `FILE<tab>N`.
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

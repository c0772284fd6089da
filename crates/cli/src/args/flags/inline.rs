//! `--inline NAME[?workers=N&open|closed&deadline=2ms]`, and keys of `--publish`.

use burstline_engine::{INLINE_WORKERS_MAX, InlineOptions};
use burstline_share::LosslessReaders;
use burstline_wire::grammar::{Bounds, Quantity};

use crate::args::values::publish;

/// The default deadline for a verdict, in ns.
const DEADLINE_NS: u64 = 2_000_000;
/// Allowed deadlines: less than a thread's turn cannot be met; a longer wait is not forwarding.
const DEADLINE_LEAST_NS: u64 = 50_000;
const DEADLINE_MOST_NS: u64 = 1_000_000_000;

/// Parses the value of `--inline`.
pub(crate) fn inline(text: &str) -> Result<InlineOptions, String> {
    let (name, query) = text.split_once('?').unwrap_or((text, ""));
    if name.is_empty() {
        return Err("no name: write --inline NAME; readers open log:NAME".to_owned());
    }
    let (mut workers, mut deadline_ns, mut is_open) = (1, DEADLINE_NS, None);
    let mut rest = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("workers", value)) => {
                let bounds = Bounds::new(Quantity::Number, 1..=INLINE_WORKERS_MAX as u64);
                workers =
                    bounds.read(value).map_err(|error| format!("workers={value}: {error}"))?;
            }
            Some(("deadline", value)) => {
                let bounds = Bounds::new(Quantity::Time, DEADLINE_LEAST_NS..=DEADLINE_MOST_NS);
                deadline_ns =
                    bounds.read(value).map_err(|error| format!("deadline={value}: {error}"))?;
            }
            None if ["open", "closed"].contains(&pair) => {
                let this = pair == "open";
                if is_open.replace(this).is_some_and(|other| other != this) {
                    return Err("open and closed: a packet without a verdict is sent or lost; \
                                give one of them"
                        .to_owned());
                }
            }
            Some(("mode" | "owner" | "group", _)) => rest.push(pair),
            _ => {
                let key = pair.split_once('=').map_or(pair, |(key, _)| key);
                return Err(format!(
                    "unknown key '{key}': the keys are workers=N, open, closed, deadline=TIME, \
                     mode, owner and group"
                ));
            }
        }
    }
    let publish = publish(&format!("{name}?{}", rest.join("&")))?;
    // A reader that gives no verdict loses its own packets and blocks no one else.
    debug_assert_eq!(publish.lossless, LosslessReaders::Refused);
    Ok(InlineOptions { publish, workers, is_open: is_open.unwrap_or(false), deadline_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_enough_and_the_rest_has_bounds() {
        let plain = inline("ips").unwrap();
        assert_eq!((&plain.publish.name[..], plain.workers, plain.is_open), ("ips", 1, false));
        assert_eq!(plain.deadline_ns, 2_000_000);
        let full = inline("./a/ips?workers=32&open&deadline=1s&mode=0660").unwrap();
        assert_eq!((full.workers, full.is_open, full.deadline_ns), (32, true, 1_000_000_000));
        assert_eq!((&full.publish.name[..], full.publish.mode), ("./a/ips", 0o660));
        for (wrong, said) in [
            ("", "no name"),
            ("?workers=2", "no name"),
            ("ips?workers=0", "workers=0"),
            ("ips?workers=33", "1-32"),
            ("ips?workers=-1", "workers=-1"),
            ("ips?workers", "unknown key 'workers'"),
            ("ips?workers=99999999999999999999", "workers="),
            ("ips?deadline=0ms", "deadline=0ms"),
            ("ips?deadline=1us", "deadline=1us"),
            ("ips?deadline=2", "deadline=2"),
            ("ips?deadline=2h", "deadline=2h"),
            ("ips?deadline=", "deadline="),
            ("ips?open&closed", "give one of them"),
            ("ips?open=yes", "unknown key 'open'"),
            ("ips?lossless=5s", "unknown key 'lossless'"),
            ("ips?mode=9", "mode=9"),
        ] {
            let error = inline(wrong).unwrap_err();
            assert!(error.contains(said), "{wrong}: {error}");
            assert_eq!(error.lines().count(), 1);
        }
    }
}

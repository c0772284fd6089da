//! From an address to what is asked of the publisher.

use std::time::Duration;

use burstline_log::{MAX_WINDOW, Policy, Start};
use burstline_share::Trust;

use crate::{Address, AddressError};

const KEYS: &[&str] = &["lossless", "trust", "untrusted", "from", "window", "wait", "follow"];

/// What an address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The name, or the path of the socket.
    pub(super) name: String,
    /// Which of its logs; all if `None`.
    pub(super) log: Option<u32>,
    pub(super) policy: Policy,
    pub(super) trust: Trust,
    pub(super) start: Start,
    pub(super) window: usize,
    /// For how long a publisher that is not there is waited for.
    pub(super) wait: Duration,
    /// Whether the next writer is waited for when one was stopped or killed.
    pub(super) is_following: bool,
}

impl Settings {
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        address.check_keys(KEYS)?;
        let yes_or_no =
            |key, default| address.choice(key, &[("yes", true), ("no", false)], default);
        let starts = [("now", Start::Now), ("oldest", Start::Oldest)];
        let (name, log) = name_and_number(address.target());
        let window = address.parsed("window", 1)?;
        if !(1..=MAX_WINDOW).contains(&window) {
            let reason = format!("a number of segments from 1 to {MAX_WINDOW}");
            return Err(address.bad_value("window", &window.to_string(), reason));
        }
        Ok(Self {
            name: name.to_owned(),
            log,
            policy: if yes_or_no("lossless", false)? { Policy::Lossless } else { Policy::Lossy },
            trust: if yes_or_no("untrusted", false)? { Trust::NOBODY } else { trust(address)? },
            start: address.choice("from", &starts, Start::Now)?,
            window,
            wait: wait(address)?,
            is_following: yes_or_no("follow", true)?,
        })
    }
}

/// Whose packets are read where they lie. Where nothing is said: those of another process of this
/// program.
#[expect(unsafe_code, reason = "a person's word is all that there can be: Decision 0023")]
fn trust(address: &Address) -> Result<Trust, AddressError> {
    // SAFETY: whoever wrote `trust=own` or `trust=anyone` has promised that the publisher keeps to
    // the log's protocol; that this is what the words mean is said wherever they are explained.
    let (own_user, anyone) = unsafe { (Trust::own_user(), Trust::anyone()) };
    let kinds = [
        ("program", Trust::PROGRAM),
        ("nobody", Trust::NOBODY),
        ("own", own_user),
        ("anyone", anyone),
    ];
    address.choice("trust", &kinds, Trust::PROGRAM)
}

/// `NAME@K`, where K is a number; an `@` elsewhere is part of a path.
fn name_and_number(target: &str) -> (&str, Option<u32>) {
    match target.rsplit_once('@').map(|(name, number)| (name, number.parse())) {
        Some((name, Ok(number))) => (name, Some(number)),
        _ => (target, None),
    }
}

/// A time: `500ms`, `10s`, `5m`, `1h`.
fn wait(address: &Address) -> Result<Duration, AddressError> {
    let Some(value) = address.parameter("wait") else { return Ok(Duration::ZERO) };
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let span = units.iter().find_map(|(unit, milliseconds)| {
        let number: u64 = value.strip_suffix(unit)?.parse().ok()?;
        number.checked_mul(*milliseconds)
    });
    let bad = || address.bad_value("wait", value, "a whole number with ms, s, m or h behind it");
    span.map(Duration::from_millis).ok_or_else(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Settings, AddressError> {
        Settings::parse(&text.parse()?)
    }

    #[test]
    fn words_keys_and_numbers() {
        let plain = parse("log:tap").unwrap();
        let defaults = (plain.policy, plain.start, plain.window, plain.is_following);
        assert_eq!(defaults, (Policy::Lossy, Start::Now, 1, true));
        let full = "log:./x@y/tap@3?lossless&untrusted&from=oldest&window=8&wait=5m&follow=no";
        let full = parse(full).unwrap();
        assert_eq!((&full.name[..], full.log), ("./x@y/tap", Some(3)));
        assert_eq!((full.policy, full.start, full.window), (Policy::Lossless, Start::Oldest, 8));
        assert_eq!((full.trust, full.is_following), (Trust::NOBODY, false));
        assert_eq!(full.wait, Duration::from_secs(300));
        for (query, trust) in [
            ("", Trust::PROGRAM),
            ("?untrusted=no", Trust::PROGRAM),
            ("?trust=program", Trust::PROGRAM),
            ("?trust=nobody", Trust::NOBODY),
            ("?trust=anyone&untrusted", Trust::NOBODY),
        ] {
            assert_eq!(parse(&format!("log:tap{query}")).unwrap().trust, trust, "{query}");
        }
        let vouched = ["own", "anyone"].map(|word| parse(&format!("log:tap?trust={word}")));
        let [own, anyone] = vouched.map(|settings| settings.unwrap().trust);
        assert!(own != anyone && ![Trust::PROGRAM, Trust::NOBODY].contains(&own));
        assert_eq!(parse("log:/x@y/tap").unwrap().log, None);
        for wrong in [
            "window=0",
            "window=1000",
            "wait=5",
            "wait=-1s",
            "from=1",
            "x",
            "lossless=5s",
            "trust=yes",
            "trust",
        ] {
            assert!(parse(&format!("log:tap?{wrong}")).is_err(), "{wrong}");
        }
    }
}

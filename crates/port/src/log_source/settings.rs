//! Parses an address into an attach request to the publisher.

use std::time::Duration;

use burstline_log::{MAX_WINDOW, Policy, Start};
use burstline_share::Trust;

use crate::{Address, AddressError, Key, Values};

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[
    Key::switch("lossless", "Whether to block the publisher instead of missing packets")
        .or("no")
        .alone(),
    Key::words("from", "now|oldest", "The first packet to read").or("now"),
    Key::number("window", 1..=MAX_WINDOW as u64, "Segments held at a time").or("1"),
    Key::time("wait", 0..=u64::MAX, "How long to wait for a publisher to start").or("0s"),
    Key::switch("follow", "Whether to wait for the next writer after one stopped or died")
        .or("yes"),
    Key::words(
        "trust",
        "program|nobody|own|anyone",
        "Which publishers' packets are read in place: this program file's, none, your user's and \
         root's, or all; others are copied and checked. With own and anyone you promise that the \
         publisher never changes a published packet",
    )
    .or("program"),
    Key::switch("untrusted", "The same as trust=nobody").or("no").alone(),
];

/// A parsed address `log:NAME[@LOG]?...`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSettings {
    /// The name, or the path of the socket.
    pub name: String,
    /// Which of its logs; `None` for all.
    pub log: Option<u32>,
    /// Whether it may be lapped, or blocks the publisher.
    pub policy: Policy,
    /// Which writers' packets are read in place.
    pub trust: Trust,
    /// The packet to start with.
    pub start: Start,
    /// Segments that it may hold at a time, in `[1, 8]`.
    pub window: usize,
    /// How long to wait for a publisher that is absent.
    pub wait: Duration,
    /// Whether to wait for the next writer after one was stopped or killed.
    pub is_following: bool,
}

impl LogSettings {
    /// Parses an address of this scheme.
    ///
    /// # Errors
    /// A key or its value is wrong.
    pub fn parse(address: &Address) -> Result<Self, AddressError> {
        let values = address.values(KEYS)?;
        let (name, log) = name_and_number(address.target());
        let is_untrusted = values.switch("untrusted")?;
        let trust = trust(&values)?;
        Ok(Self {
            name: name.to_owned(),
            log,
            policy: if values.switch("lossless")? { Policy::Lossless } else { Policy::Lossy },
            trust: if is_untrusted { Trust::NOBODY } else { trust },
            start: values.word("from", [Start::Now, Start::Oldest])?,
            window: values.integer("window")?,
            wait: Duration::from_nanos(values.integer("wait")?),
            is_following: values.switch("follow")?,
        })
    }
}

/// Returns which writers' packets are read in place. The default is another process of this
/// program.
#[expect(unsafe_code, reason = "a person's word is all that there can be: Decision 0023")]
fn trust(values: &Values<'_>) -> Result<Trust, AddressError> {
    // SAFETY: the user who wrote `trust=own` or `trust=anyone` has promised that the publisher
    // keeps to the log's protocol. Every explanation of these words says so.
    let (own_user, anyone) = unsafe { (Trust::own_user(), Trust::anyone()) };
    values.word("trust", [Trust::PROGRAM, Trust::NOBODY, own_user, anyone])
}

/// Splits `NAME@K`, where K is a number; an `@` elsewhere is part of a path.
fn name_and_number(target: &str) -> (&str, Option<u32>) {
    match target.rsplit_once('@').map(|(name, number)| (name, number.parse())) {
        Some((name, Ok(number))) => (name, Some(number)),
        _ => (target, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<LogSettings, AddressError> {
        LogSettings::parse(&text.parse()?)
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
            "window",
        ] {
            assert!(parse(&format!("log:tap?{wrong}")).is_err(), "{wrong}");
        }
    }
}

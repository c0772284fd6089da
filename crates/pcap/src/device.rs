//! Parses the names of devices: `burst:NAME`, followed by a worker's share and options.
//!
//! ```text
//! burst:tap                    all packets of the logs published as `tap`
//! burst:tap@2                  worker 2's share: log 2 of the name
//! burst:/run/x/tap             the publisher's socket by its path
//! burst:tap?lossless&start=oldest&trust=own
//! burst:ips?verdict=drop       packets wait, and those given to the program are dropped
//! burst:ips?verdict=pass&drops=/run/drops    those that the program writes about there are dropped
//! ```

use std::path::PathBuf;

use burstline_log::{Policy, Start, Verdict};
use burstline_share::{AttachConfig, Trust};

use crate::verdicts::Rule;

/// The prefix of our devices' names.
pub(crate) const PREFIX: &str = "burst:";

/// The possible options, for errors.
const KEYS: &str = "lossless, start=now|oldest, trust=nobody|own|anyone, follow=yes|no, \
                    verdict=pass|drop|reject|pass-flow, rest=pass|drop|reject|pass-flow, \
                    drops=FILE";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The published name, or the path of its socket.
    pub(crate) name: String,
    pub(crate) attach: AttachConfig,
    /// Whether to continue with the next publisher of the name.
    pub(crate) is_following: bool,
    /// The verdicts on packets that wait for this program; `None` if none wait.
    pub(crate) rule: Option<Rule>,
    /// The file where the program reports dropped packets: see [`Drops`](crate::drops::Drops).
    pub(crate) drops: Option<PathBuf>,
}

impl Device {
    /// Parses the text after [`PREFIX`], or describes the fault in one line.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (place, options) = text.split_once('?').unwrap_or((text, ""));
        let (name, log) = match place.rsplit_once('@') {
            Some((name, log)) => {
                let number = log.parse().map_err(|_| {
                    format!("{PREFIX}{text}: @{log}: expected a worker's number, e.g. @0")
                })?;
                (name, Some(number))
            }
            None => (place, None),
        };
        if name.is_empty() {
            return Err(format!(
                "{PREFIX}{text}: the name of a published log is missing; `burstline doctor logs` \
                 lists them"
            ));
        }
        let mut device = Self {
            name: name.to_owned(),
            attach: AttachConfig { log, ..AttachConfig::default() },
            is_following: true,
            rule: None,
            drops: None,
        };
        let mut rest = None;
        for option in options.split('&').filter(|option| !option.is_empty()) {
            device.take(option, &mut rest).ok_or_else(|| {
                format!("{PREFIX}{text}: unknown option {option:?}; there are: {KEYS}")
            })?;
        }
        match (&mut device.rule, rest) {
            (Some(rule), Some(rest)) => rule.rest = rest,
            (None, Some(_)) => {
                return Err(format!(
                    "{PREFIX}{text}: rest= is the verdict on packets that the filter rejects, but \
                     this program gives none: add verdict=pass, or leave rest= out"
                ));
            }
            (_, None) => {}
        }
        if device.rule.is_none() && device.drops.is_some() {
            return Err(format!(
                "{PREFIX}{text}: drops= says which packets to drop, but this program gives no \
                 verdicts: add verdict=pass, or leave drops= out"
            ));
        }
        device.attach.gives_verdicts = device.rule.is_some();
        Ok(device)
    }

    fn take(&mut self, option: &str, rest: &mut Option<Verdict<'static>>) -> Option<()> {
        let attach = &mut self.attach;
        match option.split_once('=') {
            Some(("verdict", word)) => {
                let given = Verdict::of_word(word)?;
                self.rule = Some(Rule { given, rest: Verdict::Pass });
                return Some(());
            }
            Some(("rest", word)) => {
                *rest = Some(Verdict::of_word(word)?);
                return Some(());
            }
            Some(("drops", path)) if !path.is_empty() => {
                self.drops = Some(path.into());
                return Some(());
            }
            _ => {}
        }
        match option {
            "lossless" => attach.policy = Policy::Lossless,
            "start=now" => attach.start = Start::Now,
            "start=oldest" => attach.start = Start::Oldest,
            "trust=nobody" => attach.trust = Trust::NOBODY,
            // SAFETY: the user who sets this option vouches for the publisher, as docs/sensors.md
            // requires.
            "trust=own" => attach.trust = unsafe { Trust::own_user() },
            // SAFETY: the user who sets this option vouches for every publisher, as docs/sensors.md
            // requires.
            "trust=anyone" => attach.trust = unsafe { Trust::anyone() },
            "follow=yes" => self.is_following = true,
            "follow=no" => self.is_following = false,
            _ => return None,
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_workers_and_options() {
        let plain = Device::parse("tap").unwrap();
        assert_eq!((plain.name.as_str(), plain.attach), ("tap", AttachConfig::default()));
        assert!(plain.is_following);
        let all = Device::parse("/run/x/tap@12?lossless&start=oldest&trust=own&follow=no").unwrap();
        assert_eq!(all.name, "/run/x/tap");
        assert_eq!(all.attach.log, Some(12));
        assert_eq!((all.attach.policy, all.attach.start), (Policy::Lossless, Start::Oldest));
        let anyone = Device::parse("tap?trust=anyone").unwrap().attach.trust;
        assert!(all.attach.trust != Trust::NOBODY && all.attach.trust != anyone);
        assert!(!all.is_following && all.rule.is_none());
    }

    #[test]
    fn a_program_in_line_has_a_verdict_for_each_packet() {
        for (text, given, rest) in [
            ("ips?verdict=drop", Verdict::Drop, Verdict::Pass),
            ("ips?rest=drop&verdict=pass", Verdict::Pass, Verdict::Drop),
            ("ips@1?verdict=reject&rest=pass-flow", Verdict::Reject, Verdict::PassFlow),
        ] {
            let device = Device::parse(text).unwrap();
            assert!(device.attach.gives_verdicts, "{text}");
            assert_eq!(device.rule, Some(Rule { given, rest }), "{text}");
        }
        assert!(!Device::parse("ips").unwrap().attach.gives_verdicts);
        let device = Device::parse("ips?verdict=pass&drops=/run/x/drops.json").unwrap();
        assert_eq!(device.drops, Some("/run/x/drops.json".into()));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, wanted) in [
            ("", "the name of a published log is missing"),
            ("@1", "the name of a published log is missing"),
            ("tap@", "@: expected a worker's number"),
            ("tap@-1", "@-1: expected a worker's number"),
            ("tap?fast", "unknown option \"fast\"; there are: lossless"),
            ("tap?verdict", "unknown option \"verdict\""),
            ("tap?verdict=replace", "unknown option \"verdict=replace\""),
            ("tap?rest=drop", "this program gives none: add verdict=pass"),
            ("tap?drops=/run/x", "this program gives no verdicts: add verdict=pass"),
            ("tap?verdict=pass&drops=", "unknown option \"drops=\""),
        ] {
            let error = Device::parse(text).unwrap_err();
            assert!(error.contains(wanted) && error.starts_with("burst:"), "{error}");
        }
    }
}

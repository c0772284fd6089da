//! The names of devices: `burst:NAME`, with a worker's share and options behind it.
//!
//! ```text
//! burst:tap                    all packets of the logs published as `tap`
//! burst:tap@2                  worker 2's share: log 2 of the name
//! burst:/run/x/tap             the publisher's socket by its path
//! burst:tap?lossless&start=oldest&trust=own
//! ```

use burstline_log::{Policy, Start};
use burstline_share::{AttachConfig, Trust};

/// What a name of ours begins with.
pub(crate) const PREFIX: &str = "burst:";

/// What can be said behind the name, for errors.
const KEYS: &str = "lossless, start=now|oldest, trust=nobody|own|anyone, follow=yes|no";

/// A device of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Device {
    /// The published name, or the path of its socket.
    pub(crate) name: String,
    pub(crate) attach: AttachConfig,
    /// Whether to go on with the next publisher of the name.
    pub(crate) is_following: bool,
}

impl Device {
    /// Reads what stands behind [`PREFIX`], or says in one line what is wrong with it.
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
        };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            device.take(option).ok_or_else(|| {
                format!("{PREFIX}{text}: unknown option {option:?}; there are: {KEYS}")
            })?;
        }
        Ok(device)
    }

    fn take(&mut self, option: &str) -> Option<()> {
        let attach = &mut self.attach;
        match option {
            "lossless" => attach.policy = Policy::Lossless,
            "start=now" => attach.start = Start::Now,
            "start=oldest" => attach.start = Start::Oldest,
            "trust=nobody" => attach.trust = Trust::NOBODY,
            // SAFETY: whoever says so on the command line vouches for the publisher: so it stands
            // in docs/sensors.md.
            "trust=own" => attach.trust = unsafe { Trust::own_user() },
            // SAFETY: as for `own`.
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
        assert_ne!(all.attach.trust, Trust::NOBODY);
        assert!(!all.is_following);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, wanted) in [
            ("", "the name of a published log is missing"),
            ("@1", "the name of a published log is missing"),
            ("tap@", "@: expected a worker's number"),
            ("tap@-1", "@-1: expected a worker's number"),
            ("tap?fast", "unknown option \"fast\"; there are: lossless"),
        ] {
            let error = Device::parse(text).unwrap_err();
            assert!(error.contains(wanted) && error.starts_with("burst:"), "{error}");
        }
    }
}

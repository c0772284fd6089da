//! Checks whether the target of an address exists yet, for callers that wait before opening it.

use std::path::Path;

use burstline_share::published_sockets;

use crate::open::LOG;
use crate::{Address, is_interface};

impl Address {
    /// Returns the missing target that a source would wait for: its interface, its file, or the log
    /// of its name. A name that a killed publisher left behind counts as present.
    pub fn absent(&self) -> Option<String> {
        let target = self.target();
        // A bare word may turn out to be either.
        if self.is_bare() {
            let is_there = is_interface(target) || Path::new(target).exists();
            return (!is_there).then(|| format!("interface or file {target}"));
        }
        if let Some((name, _)) = self.interface() {
            return (!is_interface(name)).then(|| format!("interface {name}"));
        }
        if let Some(name) = self.log_name() {
            return (!is_published(name)).then(|| format!("log {name}"));
        }
        let is_there = !self.is_file() || self.is_standard() || Path::new(target).exists();
        (!is_there).then(|| format!("file {target}"))
    }

    /// Returns the name of the log that it reads or publishes.
    pub fn log_name(&self) -> Option<&str> {
        let is_log = self.scheme() == LOG;
        is_log.then(|| self.target().split('@').next().unwrap_or_default())
    }
}

fn is_published(name: &str) -> bool {
    match name.contains('/') {
        true => Path::new(name).exists(),
        false => published_sockets().iter().any(|path| path.file_name() == Some(name.as_ref())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_and_what_is_not() {
        let absent = |text: &str| text.parse::<Address>().unwrap().absent();
        for there in ["lo", "afpacket:lo", "xdp:lo@0", "gen:", "-", "tap:unmade0", "Cargo.toml"] {
            assert_eq!(absent(there), None, "{there}");
        }
        for (gone, what) in [
            ("unplugged9", "interface or file unplugged9"),
            ("xdp:unplugged9@1", "interface unplugged9"),
            ("log:nobody-publishes-this@1", "log nobody-publishes-this"),
            ("log:/nowhere/tap", "log /nowhere/tap"),
            ("./gone.pcap", "file ./gone.pcap"),
        ] {
            assert_eq!(absent(gone).as_deref(), Some(what));
        }
    }
}

//! Parses the file of sensors.
//!
//! ```toml
//! config = "ssh_config"              # optional: ssh -F; beside this file, if relative
//!
//! [[sensor]]
//! name = "fra1"                      # letters, digits, dot, underscore, hyphen
//! host = "probe@fra1.example.net"    # or a name of ssh's own configuration
//! port = 22                          # optional
//! files = ["/var/rec"]               # as extract takes them
//! program = "burstline"              # optional: the program on that host
//! ```
//!
//! Invariants:
//! - S1: a name is a safe file name: it does not begin with a dot or a hyphen.
//! - S2: a host is neither an option of ssh nor shell syntax: its user and its name begin with a
//!   letter, a digit, or (the name) a bracket.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

/// Most characters of a name, and of a host.
const NAME_MOST: usize = 64;
const HOST_MOST: usize = 255;

/// A machine with recordings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// Its name here.
    pub name: String,
    /// Its host for ssh: `HOST` or `USER@HOST`.
    pub host: String,
    /// Port of its ssh server; `None` for ssh's configured port.
    pub port: Option<u16>,
    /// Recordings, folders and patterns on it.
    pub files: Vec<String>,
    /// Path of the program on it.
    pub program: String,
}

/// The contents of a file of sensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sensors {
    /// ssh's configuration; `None` for the user's own.
    pub config: Option<PathBuf>,
    /// The sensors in the order of the file, at least one.
    pub sensors: Vec<Sensor>,
}

/// Why a file of sensors cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SensorsError {
    /// It cannot be read.
    #[error("{path}: {error}")]
    Read {
        /// The file.
        path: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// Invalid text.
    #[error("{path}: line {line}, column {column}: {what}")]
    Text {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1, in characters.
        column: usize,
        /// The problem, and what is expected.
        what: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    config: Option<PathBuf>,
    #[serde(default)]
    sensor: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Spanned<String>,
    host: Spanned<String>,
    port: Option<Spanned<u16>>,
    files: Spanned<Vec<String>>,
    program: Option<Spanned<String>>,
}

/// A problem, and its byte offset.
struct Fault {
    at: usize,
    what: String,
}

impl Sensors {
    /// Reads a file.
    ///
    /// # Errors
    /// [`SensorsError`]: the file cannot be read, or its first problem.
    pub fn read(path: &Path) -> Result<Self, SensorsError> {
        let name = path.display().to_string();
        let text = burstline_sys::inode::read_text(path)
            .map_err(|error| SensorsError::Read { path: name.clone(), error })?;
        let mut sensors = Self::parse(&text).map_err(|Fault { at, what }| {
            let before = &text[..text.floor_char_boundary(at)];
            let line = before.matches('\n').count() + 1;
            let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count()) + 1;
            SensorsError::Text { path: name, line, column, what: what.replace('\n', " ") }
        })?;
        if let (Some(config), Some(folder)) = (&mut sensors.config, path.parent()) {
            *config = folder.join(&*config);
        }
        Ok(sensors)
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let file = toml::from_str::<File>(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            Fault { at, what: error.message().to_owned() }
        })?;
        let mut known = HashSet::new();
        for entry in &file.sensor {
            check(entry)?;
            if !known.insert(entry.name.get_ref().clone()) {
                let what = format!("a second sensor {:?}: each needs its own name", entry.name);
                return Err(fault(&entry.name, what));
            }
        }
        if file.sensor.is_empty() {
            let what = "no [[sensor]]: expected at least one, with name, host and files".to_owned();
            return Err(Fault { at: 0, what });
        }
        let sensor = |entry: Entry| Sensor {
            name: entry.name.into_inner(),
            host: entry.host.into_inner(),
            port: entry.port.map(Spanned::into_inner),
            files: entry.files.into_inner(),
            program: entry.program.map_or_else(|| "burstline".into(), Spanned::into_inner),
        };
        let sensors = file.sensor.into_iter().map(sensor).collect();
        Ok(Self { config: file.config, sensors })
    }
}

fn fault<T>(place: &Spanned<T>, what: String) -> Fault {
    Fault { at: place.span().start, what }
}

fn check(entry: &Entry) -> Result<(), Fault> {
    if !is_name(entry.name.get_ref()) {
        let what = format!(
            "name {:?}: expected 1 to {NAME_MOST} of A-Z a-z 0-9 . _ -, not starting with . or -",
            entry.name.get_ref()
        );
        return Err(fault(&entry.name, what));
    }
    if !is_host(entry.host.get_ref()) {
        let what = format!("host {:?}: {HOST_RULE}", entry.host.get_ref());
        return Err(fault(&entry.host, what));
    }
    if let Some(port) = entry.port.as_ref().filter(|port| *port.get_ref() == 0) {
        return Err(fault(port, "port 0: must be 1-65535; without it, ssh chooses".to_owned()));
    }
    let is_text = |text: &String| !text.is_empty() && !text.contains(char::is_control);
    if entry.files.get_ref().is_empty() || !entry.files.get_ref().iter().all(is_text) {
        let what = "files: expected one or more non-empty paths, no control characters".to_owned();
        return Err(fault(&entry.files, what));
    }
    if let Some(program) = &entry.program
        && !is_text(program.get_ref())
    {
        let what = "program: expected a non-empty path, no control characters".to_owned();
        return Err(fault(program, what));
    }
    Ok(())
}

/// S1.
fn is_name(name: &str) -> bool {
    let is_fine = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    (1..=NAME_MOST).contains(&name.len())
        && name.bytes().all(is_fine)
        && !name.starts_with(['.', '-'])
}

/// The rule of [`is_host`] in words.
pub const HOST_RULE: &str = "expected HOST or USER@HOST, each starting with a letter or digit, \
                             then A-Z a-z 0-9 . _ : % - [ ] (at most 255 in all); put options \
                             into ssh's configuration";

/// S2: returns whether this is a host, without options of ssh or shell syntax.
pub fn is_host(host: &str) -> bool {
    let is_fine = |letter: u8| letter.is_ascii_alphanumeric() || b"._:%-[]".contains(&letter);
    let is_part = |part: &str| part.starts_with(|first: char| first.is_ascii_alphanumeric());
    let (user, name) = host.split_once('@').unwrap_or(("x", host));
    host.len() <= HOST_MOST
        && is_part(user)
        && is_part(name.strip_prefix(['[', ':']).unwrap_or(name))
        && user.bytes().chain(name.bytes()).all(is_fine)
}

#[cfg(test)]
mod tests {
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    fn one(name: &str, host: &str) -> Result<Sensors, String> {
        let text = format!("[[sensor]]\nname = {name:?}\nhost = {host:?}\nfiles = [\"/rec\"]\n");
        Sensors::parse(&text).map_err(|fault| fault.what)
    }

    #[test]
    fn a_host_is_no_option_and_a_name_no_path() {
        for host in ["fra1", "probe@fra1.example.net", "10.0.0.1", "fe80::1%eth0", "a@[fe80::1]"] {
            assert!(one("fra1", host).is_ok(), "{host}");
        }
        for host in [
            "-oProxyCommand=touch x",
            "-oProxyCommand=x",
            "a@-oProxyCommand=x",
            "-l@fra1",
            "",
            "@fra1",
            "a@",
            "a b",
            "$(id)",
            "a;id",
            "a`id`",
            "a\nb",
            "a@b@c",
            "ssh://a",
            "é",
        ] {
            assert!(one("fra1", host).unwrap_err().starts_with("host "), "{host}");
        }
        for name in ["", "..", ".x", "-x", "a/b", "a b", "a\n", &"x".repeat(65)] {
            assert!(one(name, "fra1").unwrap_err().starts_with("name "), "{name}");
        }
    }

    #[test]
    fn what_is_wrong_has_its_place() {
        let folder = TemporaryFolder::create("burstline-sensors-").unwrap();
        let file = folder.path().join("sensors.toml");
        let good = "[[sensor]]\nname = \"a\"\nhost = \"h\"\nfiles = [\"/r\"]\n";
        for (text, wanted) in [
            ("", "line 1, column 1: no [[sensor]]"),
            (&format!("{good}{good}")[..], "line 6, column 8: a second sensor"),
            (&format!("{good}colour = 1\n"), "line 5, column 1: unknown field `colour`"),
            (&good.replace("[\"/r\"]", "[]"), "line 4, column 9: files"),
            (&format!("{good}port = 0\n"), "line 5, column 8: port 0: must be 1-65535"),
            (&format!("{good}port = 65536\n"), "line 5, column 8"),
            ("[[sensor]]\nname = 5\n", "line 2, column 8"),
        ] {
            std::fs::write(&file, text).unwrap();
            let error = Sensors::read(&file).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        std::fs::write(&file, format!("config = \"ssh\"\n{good}")).unwrap();
        let read = Sensors::read(&file).unwrap();
        assert_eq!(read.config, Some(file.with_file_name("ssh")));
    }
}

//! Parses `ssh:HOST,port=eth1,...`, which selects the generator and the cables.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use burstline_fleet::{HOST_RULE, Way, is_host};
use burstline_port::{Address, Role};
use burstline_wire::grammar::{Bounds, Quantity};

/// The prefix.
const SCHEME: &str = "ssh:";

/// Default name of the program.
const PROGRAM: &str = "burstline";
const CONNECT: Duration = Duration::from_secs(10);
const SILENCE: Duration = Duration::from_secs(30);

/// The keys, described in `docs/lab-on-two-machines.md`.
const KEYS: [&str; 8] = ["port", "to", "back", "from", "program", "config", "connect", "silence"];

/// A generator on another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// HOST or USER@HOST, as for ssh.
    pub host: String,
    /// The port that sends.
    pub port: Address,
    /// This machine's interface at the other end of its cable.
    pub to: String,
    /// The port that receives returning frames.
    pub back: Option<Address>,
    /// This machine's interface at the other end of that cable.
    pub from: Option<String>,
    /// The program name there.
    pub program: String,
    /// ssh's configuration file; `None` for the user's.
    pub config: Option<PathBuf>,
    /// Time limit for a connection.
    pub connect: Duration,
    /// Time limit for an expected line.
    pub silence: Duration,
}

/// A parse error.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// The prefix is missing.
    #[error("expected a generator, e.g. ssh:HOST,port=eth1")]
    Scheme,
    /// The host is invalid.
    #[error("host {0:?}: {HOST_RULE}")]
    Host(String),
    /// A key is unknown or repeated.
    #[error("`{0}`: expected KEY=VALUE, each key once; keys: {keys}", keys = KEYS.join(", "))]
    Key(String),
    /// The key `port` is missing.
    #[error("set port= to the interface the generator sends on, e.g. ssh:{0},port=eth1")]
    NoPort(String),
    /// A value is invalid.
    #[error("{key}={value}: {why}")]
    Value {
        /// Its key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The reason.
        why: String,
    },
}

impl Spec {
    /// Returns the ssh connection settings.
    pub(super) fn way(&self) -> Way<'_> {
        let (host, config) = (self.host.as_str(), self.config.as_deref());
        Way { host, port: None, config, connect: self.connect }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut words = text.strip_prefix(SCHEME).ok_or(SpecError::Scheme)?.split(',');
        let host = words.next().unwrap_or_default().to_owned();
        if !is_host(&host) {
            return Err(SpecError::Host(host));
        }
        let mut known: Vec<Word<'_>> = Vec::new();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let key = KEYS.into_iter().find(|key| *key == name);
            let is_twice = known.iter().any(|other| other.key == name);
            let key = key.filter(|_| !is_twice && !value.is_empty());
            let key = key.ok_or_else(|| SpecError::Key(word.to_owned()))?;
            known.push(Word { key, value });
        }
        let take = |key: &str| known.iter().find(|word| word.key == key).copied();
        let port = take("port").ok_or_else(|| SpecError::NoPort(host.clone()))?;
        let (port, port_interface) = port_of(port, Role::Sink)?;
        let back = take("back").map(|back| port_of(back, Role::Source)).transpose()?;
        let own = |key| take(key).map(interface).transpose();
        let from = own("from")?.or_else(|| back.as_ref().map(|(_, interface)| interface.clone()));
        Ok(Self {
            host,
            port,
            to: own("to")?.unwrap_or(port_interface),
            back: back.map(|(address, _)| address),
            from,
            program: take("program").map_or(PROGRAM, |word| word.value).to_owned(),
            config: take("config").map(|word| PathBuf::from(word.value)),
            connect: take("connect").map(time).transpose()?.unwrap_or(CONNECT),
            silence: take("silence").map(time).transpose()?.unwrap_or(SILENCE),
        })
    }
}

/// A key with its value.
#[derive(Clone, Copy)]
struct Word<'a> {
    key: &'static str,
    value: &'a str,
}

impl Word<'_> {
    fn wrong(&self, why: String) -> SpecError {
        SpecError::Value { key: self.key, value: self.value.to_owned(), why }
    }
}

/// Parses a remote port and its interface name. An interface named by a bare word may exist only
/// there.
fn port_of(word: Word<'_>, role: Role) -> Result<(Address, String), SpecError> {
    let wrong = |why: String| word.wrong(why);
    let address: Address = word.value.parse().map_err(|error| wrong(format!("{error}")))?;
    let address = if address.is_bare() { address.as_interface() } else { address };
    let name = address.interface().map(|(name, _)| name.to_owned());
    let name = name.ok_or_else(|| wrong("expected an interface, or xdp:NAME".to_owned()))?;
    let _ = interface(Word { value: &name, ..word })?;
    match address.resolved(role) {
        Err(error) if !error.is_about_machine() => Err(wrong(error.to_string())),
        _ => Ok((address, name)),
    }
}

/// Parses an interface name. Source: `dev_valid_name`: up to 15 bytes, no slash, colon or space.
fn interface(word: Word<'_>) -> Result<String, SpecError> {
    let value = word.value;
    let is_fine = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
    let is_name = value.len() < 16 && value.bytes().all(is_fine) && !value.starts_with('-');
    let wrong = || word.wrong("expected the name of an interface".to_owned());
    is_name.then(|| value.to_owned()).ok_or_else(wrong)
}

fn time(word: Word<'_>) -> Result<Duration, SpecError> {
    let read = Bounds::new(Quantity::Time, 1..=u64::MAX).read(word.value);
    read.map(Duration::from_nanos).map_err(|error| word.wrong(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_is_as_usual() {
        let spec: Spec = "ssh:probe@gen1,port=xdp:eth1".parse().unwrap();
        assert_eq!((spec.host.as_str(), spec.to.as_str()), ("probe@gen1", "eth1"));
        assert_eq!((spec.back, spec.from, spec.program.as_str()), (None, None, "burstline"));
        assert_eq!((spec.connect.as_secs(), spec.silence.as_secs()), (10, 30));
        let all = "ssh:h,port=a,to=b,back=c,from=d,program=/x y,config=/f,connect=2s,silence=500ms";
        let spec: Spec = all.parse().unwrap();
        let ends = (spec.to.as_str(), spec.from.as_deref(), spec.program.as_str());
        assert_eq!(ends, ("b", Some("d"), "/x y"));
        assert_eq!((spec.port.target(), spec.back.unwrap().target()), ("a", "c"));
        assert_eq!((spec.connect.as_secs(), spec.silence.as_millis()), (2, 500));
        let spec: Spec = "ssh:h,port=a,back=c".parse().unwrap();
        assert_eq!(spec.from.as_deref(), Some("c"));
    }

    #[test]
    fn nonsense_and_hostile_words_are_refused_in_a_line() {
        for (text, word) in [
            ("gen1,port=eth1", "ssh:HOST,port=eth1"),
            ("ssh:-oProxyCommand=x,port=eth1", "USER@HOST"),
            ("ssh:a;id,port=eth1", "USER@HOST"),
            ("ssh:h", "set port="),
            ("ssh:h,port=a,port=b", "`port=b`: expected KEY=VALUE, each key once"),
            ("ssh:h,port=", "`port=`"),
            ("ssh:h,eth1", "`eth1`: expected KEY=VALUE"),
            ("ssh:h,port=a,speed=1", "port, to, back"),
            ("ssh:h,port=null:", "an interface"),
            ("ssh:h,port=eth1$(id)", "port=eth1$(id)"),
            ("ssh:h,port=a,to=-x", "the name of an interface"),
            ("ssh:h,port=a,connect=soon", "connect=soon"),
        ] {
            let said = text.parse::<Spec>().unwrap_err().to_string();
            assert!(said.contains(word) && !said.contains('\n'), "{text}: {said}");
        }
    }
}

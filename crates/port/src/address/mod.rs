//! Port addresses: `SCHEME:ADDRESS[?key=value&...]`.
//!
//! Without a scheme, `-` and a path with a slash are files. Any other word is *bare*:
//! [`Address::resolved`] finds out whether it is a network interface or a file. Until then it
//! counts as a file if it contains a dot, and otherwise as an interface. The table of the scheme
//! ([`Key`]) lists the keys and their values. [`Values`] parses them by that table. A file name
//! with a colon or a question mark needs `file:` in front, and `%3A`, `%3F` inside.

pub(crate) mod bare;
mod keys;
pub(crate) mod near;
pub(crate) mod presence;
mod values;

use std::fmt;
use std::str::FromStr;

use crate::near::did_you_mean;
use crate::open::{self, SCHEMES};
pub use keys::{Key, Kind};
pub use values::Values;
#[cfg(test)]
pub(crate) use values::tests::keys_read_by;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    scheme: String,
    target: String,
    parameters: Vec<(String, String)>,
    is_bare: bool,
}

/// Why an address could not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The address is empty.
    #[error("empty port address: expected SCHEME:ADDRESS, e.g. file:a.pcap")]
    Empty,
    /// A parameter is not `key=value`.
    #[error("{address}: '{parameter}' is not key=value")]
    Parameter {
        /// The whole address.
        address: String,
        /// The part that is wrong.
        parameter: String,
    },
    /// A key that the scheme does not know.
    #[error(
        "{address}: {scheme}: has no key '{key}'{near}; its keys are {known} (write %3F for a '?' \
         in a name)"
    )]
    UnknownKey {
        /// The whole address.
        address: String,
        /// Its scheme.
        scheme: String,
        /// The key.
        key: String,
        /// The suggested key, in words, or empty.
        near: String,
        /// The known keys.
        known: String,
    },
    /// A target for a scheme that has none, such as `gen:`.
    #[error("{address}: {scheme}: takes only keys; did you mean {scheme}:?{target}?")]
    Target {
        /// The whole address.
        address: String,
        /// Its scheme.
        scheme: String,
        /// The target.
        target: String,
    },
    /// A value that the key does not take.
    #[error("{address}: {key}={value}: {reason}")]
    Value {
        /// The whole address.
        address: String,
        /// The key.
        key: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The name of an output requests something that is not supported.
    #[error("{address}: {reason}")]
    BadName {
        /// The whole address.
        address: String,
        /// What is wrong with the name.
        reason: String,
    },
    /// A word that names both an interface and a file.
    #[error("'{name}' is a network interface and a file: write afpacket:{name} or file:{name}")]
    Ambiguous {
        /// The word, with its parameters.
        name: String,
    },
    /// A word that names nothing that exists.
    #[error(
        "'{name}' is neither a network interface (there are: {present}) nor a file{near}{mend}"
    )]
    Unknown {
        /// The word.
        name: String,
        /// The suggested interface, in words, or empty.
        near: String,
        /// The existing interfaces.
        present: String,
        /// The alternative to write.
        mend: String,
    },
    /// The name of a VLAN that its interface does not have.
    #[error(
        "'{name}' is not a network interface, but {parent} is: ip link add link {parent} name \
         {name} type vlan id {number}; for a file write file:{name} or ./{name}"
    )]
    NoSuchVlan {
        /// The name.
        name: String,
        /// The interface.
        parent: String,
        /// The VLAN.
        number: u16,
    },
    /// A scheme that this program does not have.
    #[error("{address}: there is no port scheme '{scheme}'{near}; there are {known}")]
    UnknownScheme {
        /// The whole address.
        address: String,
        /// Its scheme.
        scheme: String,
        /// The suggested scheme, in words, or empty.
        near: String,
        /// The known schemes.
        known: String,
    },
}

impl AddressError {
    /// Whether the text is valid, and only what it names is missing.
    pub fn is_about_machine(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::NoSuchVlan { .. })
    }

    fn unknown_key(address: &Address, key: &str, keys: &[Key]) -> Self {
        let known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        Self::UnknownKey {
            address: address.text.clone(),
            scheme: address.scheme.clone(),
            key: key.to_owned(),
            near: did_you_mean(key, known.iter().copied()),
            known: if known.is_empty() { "none".into() } else { known.join(", ") },
        }
    }

    pub(crate) fn no_target(address: &Address) -> Self {
        let [scheme, target] = [address.scheme(), address.target()].map(str::to_owned);
        Self::Target { address: address.to_string(), scheme, target }
    }

    pub(crate) fn unknown_scheme(address: &Address) -> Self {
        let known: Vec<&str> = SCHEMES.iter().map(|scheme| scheme.name).collect();
        Self::UnknownScheme {
            address: address.text.clone(),
            scheme: address.scheme.clone(),
            near: did_you_mean(&address.scheme, known.iter().copied()),
            known: known.join(", "),
        }
    }
}

impl Address {
    /// Whether it is a word without a scheme, which may name an interface or a file.
    pub fn is_bare(&self) -> bool {
        self.is_bare
    }

    /// Returns this address with a scheme, once that is known.
    pub(crate) fn with_scheme(&self, scheme: &str) -> Self {
        Self { scheme: scheme.to_owned(), is_bare: false, ..self.clone() }
    }

    /// Returns the address without the parameters that are `unwanted`, and with an explicit scheme.
    #[must_use]
    pub fn without(&self, unwanted: impl Fn(&str) -> bool) -> Self {
        let parameters = self.parameters.iter().filter(|(key, _)| !unwanted(key)).cloned();
        self.of_parts(&self.target, parameters.collect())
    }

    /// Returns the address with one more parameter.
    pub(crate) fn with(&self, key: &str, value: &str) -> Self {
        let more = (key.to_owned(), value.to_owned());
        let parameters = self.parameters.iter().cloned().chain([more]);
        self.of_parts(&self.target, parameters.collect())
    }

    /// Returns an address of the same scheme with another target and other parameters.
    pub(crate) fn of_parts(&self, target: &str, parameters: Vec<(String, String)>) -> Self {
        let mut text = format!("{}:{}", self.scheme, escape(target));
        for (index, (key, value)) in parameters.iter().enumerate() {
            text.push(if index == 0 { '?' } else { '&' });
            text += &format!("{key}={}", escape(value));
        }
        let (scheme, target) = (self.scheme.clone(), target.to_owned());
        Self { text, scheme, target, parameters, is_bare: false }
    }

    /// Returns the scheme, without its colon.
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Returns the part between the scheme and the parameters, with `%XX` decoded.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// Returns the parameters, in order.
    pub fn parameters(&self) -> &[(String, String)] {
        &self.parameters
    }

    /// Returns an error about the value of `key`.
    pub fn bad_value(&self, key: &str, value: &str, reason: impl Into<String>) -> AddressError {
        AddressError::Value {
            address: self.text.clone(),
            key: key.into(),
            value: value.into(),
            reason: reason.into(),
        }
    }

    /// Returns the value of `key`; the last one if it occurs several times.
    pub fn parameter(&self, key: &str) -> Option<&str> {
        let mut backwards = self.parameters.iter().rev();
        backwards.find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.is_empty() {
            return Err(AddressError::Empty);
        }
        let (scheme, rest) = match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => (Some(scheme), rest),
            _ => (None, text),
        };
        let (target, query) = rest.split_once('?').unwrap_or((rest, ""));
        let is_bare = scheme.is_none() && target != "-" && !target.contains('/');
        let scheme = match scheme {
            Some(scheme) => scheme,
            None if !is_bare || target.contains('.') => open::FILE,
            None => open::INTERFACE,
        };
        let mut parameters = Vec::new();
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            let pair = parameter.split_once('=');
            let alone = || open::stands_alone(scheme, parameter).then_some((parameter, "yes"));
            let Some((key, value)) = pair.or_else(alone) else {
                let (address, parameter) = (text.into(), parameter.into());
                return Err(AddressError::Parameter { address, parameter });
            };
            parameters.push((key.to_owned(), unescape(value)));
        }
        let (scheme, target) = (scheme.to_owned(), unescape(target));
        Ok(Self { text: text.to_owned(), scheme, target, parameters, is_bare })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_scheme(word: &str) -> bool {
    !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-')
}

/// Escapes as `%XX` the characters that end a target or a value, and the percent sign.
pub(crate) fn escape(text: &str) -> String {
    text.replace('%', "%25").replace('?', "%3F").replace('&', "%26")
}

/// Decodes `%XX`; anything but two hexadecimal digits is left unchanged.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        match code.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> (String, String) {
        let address: Address = text.parse().unwrap();
        (address.scheme, address.target)
    }

    #[test]
    fn words_without_a_scheme() {
        assert_eq!(parts("eth0"), ("afpacket".into(), "eth0".into()));
        assert_eq!(parts("-"), ("file".into(), "-".into()));
        assert_eq!(parts("a.pcap"), ("file".into(), "a.pcap".into()));
        assert_eq!(parts("/tmp/x:y"), ("file".into(), "/tmp/x:y".into()));
        assert_eq!(parts("file:a%3Ab%zz"), ("file".into(), "a:b%zz".into()));
        assert_eq!(parts("gen:"), ("gen".into(), String::new()));
    }

    #[test]
    fn parameters_and_their_errors() {
        let address: Address = "gen:?size=64&seed=7&size=128".parse().unwrap();
        assert_eq!(address.parameter("size"), Some("128"));
        assert_eq!(address.parameter("flows"), None);
        let switch: Address = "log:tap?lossless&from=oldest".parse().unwrap();
        assert_eq!(switch.parameter("lossless"), Some("yes"));
        let error = AddressError::unknown_scheme(&"xpd:eth0".parse().unwrap()).to_string();
        assert!(
            error.contains("no port scheme 'xpd' (did you mean xdp?); there are file"),
            "{error}"
        );
        assert!(matches!("gen:?mark".parse::<Address>(), Err(AddressError::Parameter { .. })));
        assert!(matches!("gen:?seed".parse::<Address>(), Err(AddressError::Parameter { .. })));
        assert_eq!("".parse::<Address>(), Err(AddressError::Empty));
    }
}

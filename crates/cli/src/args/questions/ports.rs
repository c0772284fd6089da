//! `burstline ports`, and the help text about ports, generated from the schemes' tables.

use std::fmt::Write;

use burstline_port::{Key, SCHEMES, Scheme};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Command};

/// Width of a help text.
const WIDTH: usize = 100;

/// Indentation of continued lines.
const KEYS_AT: usize = 10;

/// List the kinds of ports and their keys
///
/// Each key with its values and its default: for sources, for sinks, and for bounce where packets
/// stay in place.
///
/// Example: burstline ports xdp
#[derive(Debug, Args)]
#[command(lazily = with_all)]
pub(crate) struct PortsArgs {
    /// Only this kind
    #[arg(value_name = "SCHEME", value_parser = scheme())]
    pub(crate) scheme: Option<&'static str>,
}

/// `Command::defer` under a name that the derive macro passes on.
trait Lazily {
    fn lazily(self, complete: fn(Command) -> Command) -> Self;
}

impl Lazily for Command {
    fn lazily(self, complete: fn(Command) -> Command) -> Self {
        self.defer(complete)
    }
}

/// Returns a parser for the names of schemes.
fn scheme() -> impl TypedValueParser<Value = &'static str> {
    let known = SCHEMES.iter().map(|scheme| PossibleValue::new(scheme.name).help(scheme.help));
    PossibleValuesParser::new(known).map(|name| {
        let found = SCHEMES.iter().find(|scheme| scheme.name == name);
        // The parser accepts no other name.
        found.map_or("", |scheme| scheme.name)
    })
}

/// Adds the long text only when help is printed, not at every start of the program.
fn with_all(command: Command) -> Command {
    command.after_long_help(all())
}

/// Returns the documentation of all schemes.
fn all() -> String {
    SCHEMES.iter().map(details).collect::<Vec<_>>().join("\n")
}

/// Returns the documentation of a scheme.
pub(crate) fn details(scheme: &Scheme) -> String {
    let mut text = format!("{}:{}\n", scheme.name, scheme.target);
    text += &wrapped("", scheme.help, 2);
    text += &format!("  Example: {}\n", scheme.example);
    for (roles, keys) in tables(scheme) {
        text += &format!("  {roles}:\n");
        for key in keys {
            text += &format!("    {}={}\n", key.name, key.shape());
            text += &wrapped("", &key.description(), KEYS_AT);
        }
    }
    text
}

/// Returns the keys of all schemes, a paragraph per role; [`details`] explains them.
pub(crate) fn outline() -> String {
    let mut text = String::new();
    for scheme in SCHEMES {
        for (roles, keys) in tables(scheme).into_iter() {
            let mut words = String::new();
            for (number, key) in keys.iter().enumerate() {
                let before = if number == 0 { "" } else { ", " };
                words.extend([before, key.name, "=", key.shape()]);
            }
            let head = format!("  {}: {roles}: ", scheme.name);
            text += &wrapped(&head, &words, KEYS_AT);
        }
    }
    text
}

/// Returns the keys of a scheme by role; roles with the same keys are merged.
fn tables(scheme: &Scheme) -> Vec<(String, &'static [Key])> {
    let roles = [
        ("to receive from", scheme.source_keys()),
        ("to send to", scheme.sink_keys()),
        ("to bounce", scheme.crossing_keys()),
    ];
    let mut tables: Vec<(String, &'static [Key])> = Vec::new();
    for (role, keys) in roles {
        let Some(keys) = keys.filter(|keys| !keys.is_empty()) else { continue };
        match tables.iter_mut().find(|(_, known)| std::ptr::eq(*known, keys)) {
            Some((roles, _)) => {
                // Writing to a string cannot fail.
                let _ = write!(roles, ", {role}");
            }
            None => tables.push((role.to_owned(), keys)),
        }
    }
    tables
}

/// Wraps words into lines: the first line begins with `head`, the others are indented by `indent`.
fn wrapped(head: &str, words: &str, indent: usize) -> String {
    let mut text = String::new();
    let mut line = if head.is_empty() { " ".repeat(indent) } else { head.to_owned() };
    for word in words.split_whitespace() {
        if line.len() + word.len() > WIDTH && line.trim() != "" {
            text += line.trim_end();
            text.push('\n');
            line = " ".repeat(indent);
        }
        line += word;
        line.push(' ');
    }
    text + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_every_scheme_is_in_both_texts() {
        let (all, outline) = (all(), outline());
        for scheme in SCHEMES {
            let here = details(scheme);
            assert!(all.contains(&here), "{}", scheme.name);
            for (_, keys) in tables(scheme) {
                for key in keys {
                    let said = format!("{}={}", key.name, key.shape());
                    assert!(here.contains(&said) && outline.contains(&said), "{said}");
                }
            }
        }
        let longest = all.lines().chain(outline.lines()).max_by_key(|line| line.len()).unwrap();
        assert!(longest.len() <= WIDTH, "{longest}");
    }

    #[test]
    fn roles_with_the_same_keys_stand_together() {
        let roles = |name: &str| {
            let scheme = SCHEMES.iter().find(|scheme| scheme.name == name).unwrap();
            tables(scheme).into_iter().map(|(roles, _)| roles).collect::<Vec<_>>()
        };
        assert_eq!(roles("dpdk"), ["to receive from, to send to, to bounce"]);
        assert_eq!(roles("xdp"), ["to receive from", "to send to", "to bounce"]);
        assert_eq!(roles("null"), [""; 0]);
    }
}

//! Converts tables to the arguments of each job.

use std::ops::Range;
use std::time::Duration;

use burstline_port::did_you_mean;
use clap::Command;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::super::keys::{self, Key, PORTS, Takes};
use super::super::policy::{Missing, Policy, Restart};
use super::Faults;
use crate::args::values;

/// A job with known keys whose arguments are not checked yet.
pub(super) struct Draft {
    pub(super) name: String,
    pub(super) at: Range<usize>,
    pub(super) verb: String,
    pub(super) entries: Vec<Entry>,
    pub(super) policy: Policy,
    /// Whether it has a fault already.
    pub(super) is_faulty: bool,
}

/// A key and the arguments that it stands for.
pub(super) struct Entry {
    pub(super) at: Range<usize>,
    /// The flag; empty for positional arguments.
    pub(super) flag: String,
    /// The values of the flag.
    pub(super) values: Vec<String>,
}

impl Entry {
    /// Returns the arguments as typed.
    pub(super) fn words(&self) -> impl Iterator<Item = String> {
        let bare = (self.values.is_empty()).then(|| self.flag.clone());
        let flag = &self.flag;
        bare.into_iter().chain(self.values.iter().map(move |value| match flag.is_empty() {
            true => value.clone(),
            false => format!("{flag}={value}"),
        }))
    }
}

/// Reads all jobs, in the order of the file.
pub(super) fn read(root: &DeTable<'_>, program: &Command, faults: &mut Faults<'_>) -> Vec<Draft> {
    let mut drafts = Vec::new();
    for (key, value) in root {
        if key.get_ref() != "job" {
            let near = did_you_mean(key.get_ref(), ["job"].into_iter());
            let name = key.get_ref();
            let what = format!("unknown table or key '{name}'{near}; a file has [job.NAME]");
            faults.add(&key.span(), what);
            continue;
        }
        let Some(jobs) = value.get_ref().as_table() else {
            faults.add(&value.span(), "'job' is a table for each job: [job.NAME]");
            continue;
        };
        for (name, job) in jobs {
            match job.get_ref().as_table() {
                Some(table) => drafts.extend(draft(name, table, program, faults)),
                None => faults.add(&name.span(), "a job is a table: [job.NAME], then its keys"),
            }
        }
    }
    if drafts.is_empty() && faults.found.is_empty() {
        faults.add(&(0..0), "no job: a file has a table [job.NAME] for each");
    }
    drafts.sort_by_key(|draft| draft.at.start);
    drafts
}

/// Reads one job, or returns `None` if its verb is unknown.
fn draft(
    name: &Spanned<std::borrow::Cow<'_, str>>,
    table: &DeTable<'_>,
    program: &Command,
    faults: &mut Faults<'_>,
) -> Option<Draft> {
    let before = faults.found.len();
    let at = name.span();
    let name = name.get_ref().to_string();
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_fit) {
        faults.add(&at, format!("the name '{name}': 1 to 64 letters, digits, '-', '_' and '.'"));
    }
    let verb = verb(&name, &at, table, program, faults)?;
    let command = program.find_subcommand(&verb)?;
    let mut draft =
        Draft { at, verb, entries: Vec::new(), policy: Policy::default(), is_faulty: false, name };
    for (key, value) in table {
        let read = match key.get_ref().as_ref() {
            "verb" => Ok(()),
            name if name != PORTS && keys::OWN.contains(&name) => {
                set_policy(&mut draft.policy, name, value.get_ref())
            }
            name => match keys::find(command, name) {
                Some(known) => entry(&known, key.span(), value.get_ref())
                    .map(|entry| draft.entries.extend(entry)),
                None => Err(unknown(command, name)),
            },
        };
        if let Err(what) = read {
            faults.add(&key.span(), format!("job {}: {}: {what}", draft.name, key.get_ref()));
        }
    }
    draft.is_faulty = faults.found.len() > before;
    draft.entries.sort_by_key(|entry| entry.at.start);
    Some(draft)
}

fn verb(
    name: &str,
    at: &Range<usize>,
    table: &DeTable<'_>,
    program: &Command,
    faults: &mut Faults<'_>,
) -> Option<String> {
    let verbs = keys::verbs(program);
    let there_are = verbs.join(", ");
    let Some(value) = table.get("verb") else {
        let what = format!("job {name}: no key 'verb': add verb = \"capture\" or another of: ");
        faults.add(at, format!("{what}{there_are}"));
        return None;
    };
    let found = value.get_ref().as_str().unwrap_or_default();
    if verbs.contains(&found) {
        return Some(found.to_owned());
    }
    let near = did_you_mean(found, verbs.into_iter());
    let what = format!("job {name}: verb: '{found}' is not a job{near}; there are: {there_are}");
    faults.add(&value.span(), what);
    None
}

fn unknown(command: &Command, name: &str) -> String {
    let all = keys::all(command);
    let near = did_you_mean(name, all.iter().map(String::as_str));
    let verb = command.get_name();
    format!("no such key of {verb}{near}; keys are the flags in burstline help {verb}")
}

/// Returns the arguments for a key, or `None` for a flag set to `false`.
fn entry(key: &Key, at: Range<usize>, value: &DeValue<'_>) -> Result<Option<Entry>, String> {
    let with = |values| Ok(Some(Entry { at: at.clone(), flag: key.flag.clone(), values }));
    match (key.takes, value) {
        (Takes::Nothing | Takes::One { is_optional: true }, DeValue::Boolean(true)) => with(vec![]),
        (Takes::Nothing | Takes::One { is_optional: true }, DeValue::Boolean(false)) => Ok(None),
        (Takes::Nothing, other) => Err(format!("takes true or false, not {}", kind(other))),
        (Takes::Several, DeValue::Array(values)) => {
            let values = values.iter().map(|value| scalar(value.get_ref()));
            let values = values.collect::<Result<Vec<_>, _>>()?;
            if values.is_empty() { Ok(None) } else { with(values) }
        }
        (Takes::One { .. }, DeValue::Array(values)) => {
            Err(format!("takes one value, not a list of {}", values.len()))
        }
        (_, value) => with(vec![scalar(value)?]),
    }
}

/// Returns a value as typed.
fn scalar(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Ok(number.as_str().to_owned()),
        DeValue::Float(number) => Ok(number.as_str().to_owned()),
        other => Err(format!("takes a text or a number, not {}", kind(other))),
    }
}

fn kind(value: &DeValue<'_>) -> String {
    match value {
        DeValue::Boolean(value) => format!("{value}"),
        DeValue::Integer(_) => "a number (numbers are in base 10)".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        other => format!("a {}", other.type_str()),
    }
}

fn set_policy(policy: &mut Policy, key: &str, value: &DeValue<'_>) -> Result<(), String> {
    let text = scalar(value)?;
    let span = || match values::span_ns(&text) {
        Ok(ns) => Ok(Duration::from_nanos(ns)),
        Err(error) => Err(format!("'{text}': {error}")),
    };
    let one_of = |words: &[&str]| {
        let near = did_you_mean(&text, words.iter().copied());
        format!("'{text}': one of {}{near}", words.join(", "))
    };
    match key {
        "restart" => {
            policy.restart = match text.as_str() {
                "never" => Restart::Never,
                "on-failure" => Restart::OnFailure,
                "always" => Restart::Always,
                _ => return Err(one_of(&["never", "on-failure", "always"])),
            }
        }
        "missing-port" => {
            policy.missing = match text.as_str() {
                "fail" => Missing::Fail,
                "wait" => Missing::Wait,
                _ => return Err(one_of(&["fail", "wait"])),
            }
        }
        "restart-limit" => {
            let limit = text.parse();
            policy.limit = limit.map_err(|_| format!("'{text}': a number, from 0"))?;
        }
        "restart-delay" => policy.delay = span()?,
        _ => policy.stop_timeout = span()?,
    }
    Ok(())
}

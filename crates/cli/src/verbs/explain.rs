//! `burstline explain`.

mod known;

use std::process::ExitCode;

use burstline_lab::scenario::doubts::KNOWN;
use burstline_port::{Loss, LossPlace, did_you_mean};
use serde_json::{Value, json};

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::view;
use known::{FAULTS, Known, NOTES};

/// A name, and what there is to say of it.
struct Entry {
    name: &'static str,
    /// What it is: a loss of some kind, or a doubt.
    what: String,
    means: String,
    /// What to do; empty for a doubt.
    remedy: &'static str,
}

impl Entry {
    fn of_loss(loss: Loss) -> Self {
        let place = match loss.place() {
            LossPlace::Interface => "on the interface or at its ring",
            LossPlace::Host => "in the host or in this program",
            LossPlace::Nowhere => "not missing",
        };
        let what = match loss.is_choice() {
            true => "a choice of yours, not a loss".to_owned(),
            false => format!("a loss ({}), {place}", loss.kind().name()),
        };
        let means = loss.help().trim().to_owned();
        Self { name: loss.name(), what, means, remedy: loss.remedy() }
    }

    fn of(known: &Known, what: &str) -> Self {
        let (means, remedy) = (known.means.to_owned(), known.remedy);
        Self { name: known.name, what: what.to_owned(), means, remedy }
    }

    fn text(&self) -> String {
        let mut text = format!("{}: {}\n  {}\n", self.name, self.what, self.means);
        if !self.remedy.is_empty() {
            text += &format!("  to do: {}\n", self.remedy);
        }
        text
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "what": self.what, "means": self.means, "to_do": self.remedy})
    }
}

fn entries() -> Vec<Entry> {
    let losses = Loss::ALL.iter().copied().map(Entry::of_loss);
    let doubts = KNOWN.iter().map(|doubt| Entry {
        name: doubt.name,
        what: "a doubt of the lab".to_owned(),
        means: doubt.when.to_owned(),
        remedy: "",
    });
    let notes = NOTES.iter().map(|note| Entry::of(note, "a note of a report"));
    let faults = FAULTS.iter().map(|fault| Entry::of(fault, "a fault: why the exit code is 1"));
    losses.chain(doubts).chain(notes).chain(faults).collect()
}

/// Says what a name means.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let entries = entries();
    let text = match &args.code {
        Some(code) => {
            // A note is also known by its text.
            let note = NOTES.iter().find(|note| code.contains(note.part));
            let name = note.map_or(code.as_str(), |note| note.name);
            let Some(entry) = entries.iter().find(|entry| entry.name == name) else {
                let names = entries.iter().map(|entry| entry.name);
                let near = did_you_mean(code, names);
                let what = format!(
                    "no loss, note, fault or doubt is called '{code}'{near}; see burstline explain"
                );
                return Err(Failure::usage(what));
            };
            if args.json { format!("{}\n", entry.json()) } else { entry.text() }
        }
        None if args.json => {
            format!("{}\n", Value::Array(entries.iter().map(Entry::json).collect()))
        }
        None => {
            entries.iter().map(|entry| format!("{:<20} {}\n", entry.name, entry.means)).collect()
        }
    };
    view::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

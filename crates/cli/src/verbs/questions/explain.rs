//! `burstline explain`.

mod known;

use std::process::ExitCode;

use burstline_lab::scenario::doubts::KNOWN;
use burstline_port::{Loss, LossPlace, did_you_mean};
use serde_json::{Value, json};

use crate::args::ExplainArgs;
use crate::failure::Failure;
use crate::view;
use known::{FAULTS, Known, LOST_RECORDS, WITHOUT_FLOW};

/// A name and its explanation.
struct Entry {
    name: &'static str,
    /// Its kind: a loss of some kind, a note, a doubt.
    what: String,
    means: String,
    /// How users can see it themselves.
    see: String,
    /// What to do.
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
        let name = loss.name();
        let see = format!(
            "the ledger (-v; ports[].lost.{name} in --json), burstline top, and with --metrics \
             burstline_lost_packets_total{{cause=\"{name}\"}}"
        );
        Self { name, what, means, see, remedy: loss.remedy() }
    }

    fn of(known: &Known, what: &str) -> Self {
        let Known { name, means, see, remedy, .. } = *known;
        Self { name, what: what.to_owned(), means: means.to_owned(), see: see.to_owned(), remedy }
    }

    fn text(&self) -> String {
        let Self { name, what, means, see, remedy } = self;
        format!("{name}: {what}\n  {means}\n  to see: {see}\n  to do: {remedy}\n")
    }

    fn json(&self) -> Value {
        let Self { name, what, means, see, remedy } = self;
        json!({"name": name, "what": what, "means": means, "to_see": see, "to_do": remedy})
    }
}

fn entries() -> Vec<Entry> {
    let losses = Loss::ALL.iter().copied().map(Entry::of_loss);
    let doubts = KNOWN.iter().map(|doubt| Entry {
        name: doubt.name,
        what: "a doubt of a lab record".to_owned(),
        means: doubt.when.to_owned(),
        see: "doubts of the record in --json; burstline lab run prints them below its table"
            .to_owned(),
        remedy: doubt.remedy,
    });
    let notes = known::notes().map(|note| Entry::of(note, "a note of a report"));
    let findings = known::findings().map(|found| Entry::of(found, "a finding of burstline doctor"));
    let faults = FAULTS.iter().map(|fault| Entry::of(fault, "a fault: why the exit code is 1"));
    let lost = LOST_RECORDS.iter().map(|lost| Entry::of(lost, "a loss of flow records"));
    let without = WITHOUT_FLOW.iter().map(|why| Entry::of(why, "a packet without a flow record"));
    let of_flows = lost.chain(without);
    losses.chain(of_flows).chain(doubts).chain(notes).chain(findings).chain(faults).collect()
}

/// Explains a name.
pub(crate) fn explain(args: &ExplainArgs) -> Result<ExitCode, Failure> {
    let entries = entries();
    let text = match &args.code {
        Some(code) => {
            // A note can also be given by its text.
            let by_name = |name: &str| entries.iter().find(|entry| entry.name == name);
            let by_text = || by_name(known::of_text(code)?.name);
            let Some(entry) = by_name(code).or_else(by_text) else {
                let names = entries.iter().map(|entry| entry.name);
                let near = did_you_mean(code, names);
                let what = format!(
                    "no loss, note, finding, fault or doubt is called '{code}'{near}; see \
                     burstline explain"
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
    view::say(&text)
}

//! Formats the table of claims as text for a terminal, as Markdown and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::{Claim, Committed, Document, Standing};
use crate::record::OLD_MEANS;

/// Text above the Markdown table.
const HEAD: &str = "\
# The five documents

What Burstline's five founding documents claim, and where each claim is shown here. Made by
`make documents` from `crates/lab/documents`, with the age of the records in `runs`; a test fails if
this page is not up to date, or if a row has no status or names something that does not exist.

- *run*: committed records below `runs` have each row that the claim needs, of contender and point,
  with the metric or stage that it is about: of `burstline lab run NAME` or `make billion`
  (*scenario*), or of `make bench` (*figure*). The command makes the record again.
- *shown*: the command prints it (*printed*), or a test asserts it (*file*).
- *model*: it is calculated or simulated.
- *not run because ...*: it was not run, and why.

No claim is *confirmed* here: the documents' machines are not ours.
";

/// An earlier tally, printed below the present one.
const BEFORE: &str = "\
Before *run* meant a committed record, at commit 0c6da5d5 of 2026-11-23, there were: 128 claims: 64
run, 0 shown, 17 model, 47 not run.
";

/// Formats the claims for a terminal, two to four lines each.
// Writing to a string cannot fail, so the results are ignored here.
pub fn text(documents: &[Document]) -> String {
    let mut text = String::new();
    for document in documents {
        let Document { id, title, by, basis, .. } = document;
        let _ = writeln!(text, "{id}  {title} ({by})");
        let _ = writeln!(text, "    {}\n    {basis}", tally(&document.claims));
        for note in &document.notes {
            let _ = writeln!(text, "    {note}");
        }
        text.push('\n');
        for claim in &document.claims {
            let figure = figure_of(claim);
            let _ = writeln!(text, "  {}: {}{figure}", claim.id, claim.claim);
            let (command, ours) = (command_of(claim), &claim.ours);
            let _ = match &claim.status {
                Standing::NotRun(_) => writeln!(text, "      {}{command}", claim.status),
                status => writeln!(text, "      {status}{command} -> {ours}"),
            };
            for note in [&claim.basis, &claim.note].into_iter().filter(|note| !note.is_empty()) {
                let _ = writeln!(text, "      {note}");
            }
        }
        text.push('\n');
    }
    text
}

/// Formats the claims for `docs/documents.md`. With the [committed](super::committed) records,
/// claims whose records are older than the code are marked.
pub fn markdown(documents: &[Document], records: Option<&[Committed]>) -> String {
    let is_old = |claim: &Claim| records.is_some_and(|records| claim.is_old(records));
    let mut all = documents.iter().flat_map(|document| &document.claims);
    let mut text = format!("{HEAD}\nAll documents: {}.\n{BEFORE}", tally(all.clone()));
    if all.any(is_old) {
        let _ = writeln!(text, "\n{OLD_MEANS}");
    }
    for document in documents {
        let Document { id, title, by, machine, basis, .. } = document;
        let _ = writeln!(text, "\n## {id}: {}\n", cell(title));
        let _ = writeln!(
            text,
            "{}. {}. Measured on: {}.\n",
            cell(by),
            tally(&document.claims),
            cell(machine)
        );
        let _ = writeln!(text, "Sizes and rates: {}.", cell(basis));
        for note in &document.notes {
            let _ = writeln!(text, "\n- {}", cell(note));
        }
        text += "\n| claim | the document | here | ours | status |\n|---|---|---|---|---|\n";
        for claim in &document.claims {
            let command = match claim.command.as_str() {
                "" => String::new(),
                command => format!("`{}`", command.replace('|', "\\|")),
            };
            let notes = [&claim.basis, &claim.note];
            let notes = notes.into_iter().filter(|note| !note.is_empty());
            let notes: String = notes.map(|note| format!("<br>*{}*", cell(note))).collect();
            let mark = if is_old(claim) { " †" } else { "" };
            let _ = writeln!(
                text,
                "| {} (`{}`){notes} | {} | {command} | {} | {}{mark} |",
                cell(&claim.claim),
                claim.id,
                cell(&claim.figure),
                cell(&claim.ours),
                cell(&claim.status.to_string()),
            );
        }
    }
    text
}

/// Formats documents and claims for programs; each claim names its document.
pub fn json(documents: &[Document]) -> Value {
    let about = documents.iter().map(|document| {
        json!({
            "id": document.id, "title": document.title, "by": document.by,
            "machine": document.machine, "basis": document.basis, "notes": document.notes,
        })
    });
    let claims = documents.iter().flat_map(|document| {
        document.claims.iter().map(|claim| {
            let word = |text: &str| if text.is_empty() { Value::Null } else { text.into() };
            json!({
                "document": document.id, "id": claim.id, "claim": claim.claim,
                "figure": word(&claim.figure), "command": word(&claim.command),
                "ours": word(&claim.ours), "status": claim.status.to_string(),
                "basis": if claim.basis.is_empty() { &document.basis } else { &claim.basis },
                "note": word(&claim.note),
            })
        })
    });
    json!({
        "command": "lab documents",
        "documents": about.collect::<Vec<_>>(),
        "claims": claims.collect::<Vec<_>>(),
    })
}

/// Counts claims by status.
fn tally<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> String {
    let all: Vec<&Claim> = claims.into_iter().collect();
    let count = |standing| all.iter().filter(|claim| claim.status == standing).count();
    let [run, shown, model] = [Standing::Run, Standing::Shown, Standing::Model].map(count);
    let not = all.len() - run - shown - model;
    format!("{} claims: {run} run, {shown} shown, {model} model, {not} not run", all.len())
}

fn figure_of(claim: &Claim) -> String {
    if claim.figure.is_empty() { String::new() } else { format!(": {}", claim.figure) }
}

fn command_of(claim: &Claim) -> String {
    if claim.command.is_empty() { String::new() } else { format!(": {}", claim.command) }
}

/// Escapes text for a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('*', "\\*").replace('\n', " ")
}

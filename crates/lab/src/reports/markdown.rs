//! Writes the report in Markdown: summary, tables, method and doubts, with links to chart files.

use std::fmt::Write;

use super::collect::{Collection, Entry};
use super::escape;
use super::files;
use super::numbers;
use super::summary;
use super::table;

/// Returns the report of a collection. `with_charts`: chart files are in the same folder.
// Writing to a string cannot fail, so the results are ignored here.
pub(super) fn page(collection: &Collection, with_charts: bool) -> String {
    let mut page = String::from("# Burstline lab report\n\n");
    facts(&mut page, &summary::origin(collection));
    let machines = summary::machines(collection);
    for (machine, scenarios) in &machines {
        if machines.len() > 1 {
            let _ = writeln!(page, "\n{}:\n", escape::markdown(&scenarios.join(", ")));
        }
        facts(&mut page, &summary::facts(machine));
    }
    if let Some(ratios) = summary::ratio_table(collection) {
        let _ = write!(
            page,
            "\n## Ours against others\n\nAbove 1 ours is better.\n\n{}",
            ratios.markdown()
        );
    }
    let mut lines = collection.problems.clone();
    for doubt in summary::doubts(collection) {
        lines.push(format!("{}: {} ({})", doubt.name, doubt.text, doubt.scenarios.join(", ")));
    }
    list(&mut page, "\n## What speaks against these figures\n\n", &lines);
    for entry in &collection.entries {
        experiment(&mut page, entry, with_charts);
    }
    page
}

fn experiment(page: &mut String, entry: &Entry, with_charts: bool) {
    let record = &entry.record;
    let words = [&record.title, &record.scenario, &record.about].map(|text| escape::markdown(text));
    let _ = writeln!(page, "\n## {}\n\n{}: {}\n", words[0], words[1], words[2]);
    let _ = writeln!(
        page,
        "{}, {}, {}, seed {}{}\n",
        escape::markdown(&record.command),
        escape::markdown(&record.started),
        numbers::seconds(record.elapsed_s),
        record.seed,
        if record.is_quick { ", quick run" } else { "" }
    );
    if with_charts {
        charts(page, entry);
    }
    page.push_str(&table::figures(record).markdown());
    list(page, "\n", &table::reasons(record));
    for (caption, stages) in table::stages(record) {
        let _ = write!(page, "\n### Where the time went: {caption}\n\n{}", stages.markdown());
    }
    let _ = write!(page, "\n### Who took part\n\n{}", table::contenders(record).markdown());
    if let Some(interfaces) = table::interfaces(record) {
        let _ = write!(page, "\n### Interfaces\n\n{}", interfaces.markdown());
    }
    list(page, "\n", &record.notes);
    let doubts: Vec<String> =
        record.doubts.iter().map(|doubt| format!("{}: {}", doubt.name, doubt.text)).collect();
    list(page, "\n### Doubts\n\n", &doubts);
}

/// Writes pictures in one line, so that as many fit side by side as the page permits. A file with
/// an unusual name is not linked.
fn charts(page: &mut String, entry: &Entry) {
    let is_plain =
        |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let names = files::of(entry).into_iter().map(|chart| chart.name);
    let title = escape::markdown(&entry.record.title);
    let links = names.filter(|name| is_plain(name)).map(|name| format!("![{title}]({name})"));
    let links: Vec<String> = links.collect();
    if !links.is_empty() {
        let _ = writeln!(page, "{}\n", links.join(" "));
    }
}

fn facts(page: &mut String, facts: &[(&str, String)]) {
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(page, "- {name}: {}", escape::markdown(value));
    }
}

fn list(page: &mut String, head: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.push_str(head);
    for line in lines {
        let _ = writeln!(page, "- {}", escape::markdown(line));
    }
}

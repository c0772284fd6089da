//! Writes the report as one HTML file that runs no script and fetches nothing.
//!
//! Its policy (Content-Security-Policy) forbids both, so a record cannot add them. Records are
//! stored at the end of their sections as blocks of JSON, in their original text.

use std::fmt::Write;

use crate::record::{Record, Status};

use super::canvas::both;
use super::collect::{Collection, Entry};
use super::drawn;
use super::escape;
use super::select;
use super::style;
use super::summary;
use super::table;

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// Returns the report of a collection.
pub(super) fn page(collection: &Collection) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <title>Burstline lab report</title>\n<style>{}</style>\n</head>\n<body>\n\
         <header><h1>Burstline lab report</h1></header>\n<main>\n",
        style::page()
    );
    summary(&mut page, collection);
    for (index, entry) in collection.entries.iter().enumerate() {
        experiment(&mut page, index + 1, entry);
    }
    page.push_str("</main>\n</body>\n</html>\n");
    page
}

// Writing to a string cannot fail, so the results are ignored here.
fn summary(page: &mut String, collection: &Collection) {
    page.push_str("<section aria-label=\"Summary\">\n");
    let machines = summary::machines(collection);
    let origin = summary::origin(collection);
    if let [(machine, _)] = &machines[..] {
        facts(page, &[origin, summary::facts(machine)].concat());
    } else {
        facts(page, &origin);
        for (machine, scenarios) in &machines {
            let _ = write!(page, "<h3>{}</h3>", escape::html(&scenarios.join(", ")));
            facts(page, &summary::facts(machine));
        }
    }
    page.push_str("<h2>What ran</h2>\n<ul>\n");
    for (index, entry) in collection.entries.iter().enumerate() {
        let record = &entry.record;
        let (title, state) = (escape::html(&record.title), summary::state(record));
        let scenario = escape::html(&record.scenario);
        let doubts = match record.doubts.len() {
            0 => String::new(),
            1 => ", 1 doubt".to_owned(),
            count => format!(", {count} doubts"),
        };
        let number = index + 1;
        let _ = writeln!(
            page,
            "<li><a href=\"#e{number}\">{title}</a> \
             <span class=\"soft\">{scenario}: {state}{doubts}</span></li>"
        );
    }
    page.push_str("</ul>\n");
    if let Some(ratios) = summary::ratio_table(collection) {
        page.push_str(
            "<h2>Ours against others</h2>\n<p class=\"small\">Medians over the points of an \
             experiment; above 1 ours is better. Below them the lowest and the highest of any \
             point.</p>\n",
        );
        page.push_str(&ratios.html());
    }
    let mut lines: Vec<String> =
        collection.problems.iter().map(|problem| escape::html(problem)).collect();
    let doubts = summary::doubts(collection);
    let names = select::distinct(doubts.iter().map(|doubt| doubt.name.as_str()));
    lines.extend(names.into_iter().map(|name| doubt_line(name, &doubts)));
    doubts_box(page, "What speaks against these figures", &lines);
    page.push_str(
        "<p class=\"small soft\">Bases of rates: l2 counts a frame without FCS; line counts FCS, \
         preamble and gap, too; payload only what an application sends. rho is per cent of a core \
         for each Gbit/s of line rate. Figures are medians; thin lines reach from the \
         smallest to the largest sample.</p>\n</section>\n",
    );
}

/// Formats all doubts of a name: one as a line, several folded. Each is also at its experiment.
fn doubt_line(name: &str, doubts: &[summary::SharedDoubt]) -> String {
    let doubts: Vec<_> = doubts.iter().filter(|doubt| doubt.name == name).collect();
    let line = |doubt: &&summary::SharedDoubt| {
        let scenarios = doubt.scenarios.join(", ");
        let words = [&doubt.text, &scenarios].map(|word| escape::html(word));
        format!("{} <span class=\"soft\">({})</span>", words[0], words[1])
    };
    let name = escape::html(name);
    if let [doubt] = doubts[..] {
        return format!("<b>{name}</b>: {}", line(&doubt));
    }
    let count: usize = doubts.iter().map(|doubt| doubt.scenarios.len()).sum();
    let lines: Vec<String> =
        doubts.iter().map(|doubt| format!("<li>{}</li>", line(doubt))).collect();
    format!(
        "<details><summary><b>{name}</b>: in {count} experiments</summary>\n<ul>{}</ul></details>",
        lines.join("\n")
    )
}

fn facts(page: &mut String, facts: &[(&str, String)]) {
    page.push_str("<dl class=\"facts\">\n");
    for (name, value) in facts.iter().filter(|(_, value)| !value.is_empty()) {
        let _ = writeln!(page, "<dt>{name}</dt><dd>{}</dd>", escape::html(value));
    }
    page.push_str("</dl>\n");
}

/// Writes a box of doubts; `lines` are HTML.
fn doubts_box(page: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    let _ = writeln!(page, "<div class=\"doubts\"><b>{title}</b>\n<ul>");
    for line in lines {
        let _ = writeln!(page, "<li>{line}</li>");
    }
    page.push_str("</ul></div>\n");
}

fn experiment(page: &mut String, number: usize, entry: &Entry) {
    let record = &entry.record;
    let title = escape::html(&record.title);
    let _ = writeln!(page, "<section id=\"e{number}\" aria-label=\"{title}\">\n<h2>{title}</h2>");
    let mut tags = vec![record.scenario.clone()];
    tags.extend(record.document.iter().map(|document| format!("document {document}")));
    if record.is_quick {
        tags.push("quick run".to_owned());
    }
    if record.rows.iter().any(|row| row.status == Status::Model) {
        tags.push("has figures of a model".to_owned());
    }
    let tags: Vec<String> = tags
        .iter()
        .map(|tag| format!("<span class=\"tag\">{}</span>", escape::html(tag)))
        .collect();
    let _ = writeln!(page, "<p>{}</p>\n<p>{}</p>", tags.join(" "), escape::html(&record.about));
    charts(page, number, record);
    let line = |doubt: &crate::record::Doubt| {
        format!("<b>{}</b>: {}", escape::html(&doubt.name), escape::html(&doubt.text))
    };
    let lines: Vec<String> = record.doubts.iter().map(line).collect();
    doubts_box(page, "Doubts", &lines);
    page.push_str("<h3>Figures</h3>\n");
    page.push_str(&table::figures(record).html());
    list(page, &table::reasons(record));
    stages(page, record);
    symbols(page, record);
    page.push_str("<h3>Method</h3>\n");
    let command = escape::html(&record.command);
    let (started, seed) = (escape::html(&record.started), record.seed);
    let took = super::numbers::seconds(record.elapsed_s);
    let _ = writeln!(
        page,
        "<p><code>{command}</code><br>\
         <span class=\"small soft\">{started}, {took}, seed {seed}</span></p>"
    );
    page.push_str(&table::contenders(record).html());
    page.extend(table::interfaces(record).map(|table| table.html()));
    list(page, &record.notes);
    let everything = table::everything(record).html();
    let _ = writeln!(
        page,
        "<details class=\"raw\"><summary>Every figure, with quartiles</summary>\n\
         {everything}</details>"
    );
    let (file, json) = (escape::html(&entry.file), escape::json_block(entry.text.trim()));
    let _ = writeln!(
        page,
        "<p class=\"small soft\">The whole record, with every sample, is in this page as JSON: \
         <code>script#record-{number}</code>, made from {file}.</p>\n\
         <script type=\"application/json\" id=\"record-{number}\">\n{json}\n</script>\n</section>"
    );
}

/// Writes a table for each account of the CPU time.
fn stages(page: &mut String, record: &Record) {
    let accounts = table::stages(record);
    if accounts.is_empty() {
        return;
    }
    page.push_str(
        "<h3>Where the time went</h3>\n<p class=\"small\">rho: per cent of a core for each Gbit/s \
         of line rate; below it per cent of a core. Several tables are several accounts of the \
         same time.</p>\n",
    );
    for (caption, stages) in &accounts {
        let (caption, stages) = (escape::html(caption), stages.html());
        let _ = writeln!(page, "<p class=\"small soft\">{caption}</p>\n{stages}");
    }
}

fn symbols(page: &mut String, record: &Record) {
    let Some(symbols) = table::symbols(record) else { return };
    let _ = writeln!(
        page,
        "<details class=\"raw\"><summary>What ran, by samples</summary>\n\
         <p class=\"small\">Functions by name; where a program has no names, the file.</p>\n\
         {}</details>",
        symbols.html()
    );
}

fn list(page: &mut String, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    page.push_str("<ul class=\"small\">\n");
    for line in lines {
        let _ = writeln!(page, "<li>{}</li>", escape::html(line));
    }
    page.push_str("</ul>\n");
}

/// Writes the pictures of the record, and a note if its own chart has none.
fn charts(page: &mut String, number: usize, record: &Record) {
    let sets = drawn::sets(record);
    if !sets.iter().any(|set| set.suffix.is_empty()) {
        page.push_str("<p class=\"soft\">Nothing to draw: no row has this figure.</p>\n");
    }
    for set in &sets {
        let pictures: Vec<String> = set
            .figures
            .iter()
            .enumerate()
            .map(|(index, figure)| {
                let id = format!("e{number}{}p{index}", set.suffix);
                let caption = escape::html(&figure.caption);
                let picture = both(|width| figure.draw(width, &format!("{id}{}", width.class())));
                format!("<figure><figcaption>{caption}</figcaption>\n{picture}</figure>\n")
            })
            .collect();
        let many = if pictures.len() > 1 { " many" } else { "" };
        let _ = writeln!(page, "<div class=\"panels{many}\">\n{}</div>", pictures.concat());
        if set.left_out > 0 {
            let count = set.left_out;
            let _ =
                writeln!(page, "<p class=\"soft\">{count} more panels are in the table only.</p>");
        }
    }
}

//! Which test was seen to run each `unsafe` block: `cargo run -p xtask -- watched ...`.
//!
//! `scripts/unsafe-blocks` calls it twice. [`tests`] lists the tests of the page for it to run,
//! each on its own and with coverage. [`report`] reads the coverage and lists every block with the
//! test that ran it. A block that ran under no test of its file's row is a finding, unless the page
//! excuses it.
//!
//! ```text
//!  docs/unsafe.md --tests--> script: a run and an export of coverage for each test
//!  sources, docs/unsafe.md, exports --report--> a line for each block, findings
//! ```

mod blocks;
mod coverage;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::finding::Finding;
use crate::tested::{self, PAGE, Row};
use crate::tree::Tree;
use blocks::Block;
use coverage::Coverage;

/// Lists the tests that the page names, a line each: crate, program, a regular expression for the
/// harness's name, and the name on the page. The program is `lib`, one of `tests/`, or `pytest`.
pub(crate) fn tests(tree: &Tree) -> String {
    let rows = tree.file(PAGE).map(|page| tested::rows(&page.text)).unwrap_or_default();
    let mut lines: Vec<String> = rows.iter().flat_map(Row::full_tests).filter_map(line).collect();
    lines.sort();
    lines.dedup();
    lines.concat()
}

fn line(test: String) -> Option<String> {
    if let Some((path, function)) = test.split_once(".py::") {
        let folder = path.split('/').nth(1)?;
        return Some(format!("{folder}\tpytest\t{function}\t{test}\n"));
    }
    let (path, function) = test.split_once(".rs::")?;
    let mut parts: Vec<&str> = path.strip_prefix("crates/")?.split('/').collect();
    if matches!(parts.last(), Some(&("mod" | "lib" | "main"))) {
        parts.pop();
    }
    let (program, module) = match parts[..] {
        [_, "src", ref module @ ..] => ("lib", module),
        [_, "tests", program, ref module @ ..] => (program, module),
        _ => return None,
    };
    let module = module.join("::");
    let name = format!("({module}::)?([a-z_]*tests::)?{function}");
    Some(format!("{}\t{program}\t{name}\t{test}\n", parts[0]))
}

/// Reads what the script found in `folder`: `tests.tsv`, a line for each test that it ran, of a
/// number, an outcome and the name on the page; `NUMBER.json`, its coverage; and `left-out.tsv`,
/// crates and why they were not built.
pub(crate) fn report(tree: &Tree, folder: &Path) -> Result<Report, String> {
    let read = |name: &str| {
        let path = folder.join(name);
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    let (mut runs, mut findings) = (Vec::new(), Vec::new());
    for line in read("tests.tsv")?.lines() {
        let [number, outcome, test] = fields(line)?;
        if outcome == "ok" {
            let coverage = Coverage::read(&read(&format!("{number}.json"))?, tree.root())?;
            runs.push((test.to_owned(), coverage));
        } else {
            let what = format!("`{test}` {outcome} (0 blocks seen)");
            findings.push(Finding::new(PAGE, 1, what, "a test must pass to be a witness"));
        }
    }
    let left_out = read("left-out.tsv")?;
    let left_out = left_out.lines().map(fields::<2>).collect::<Result<Vec<_>, _>>()?;
    let left_out = left_out.iter().map(|[name, why]| (*name, *why)).collect();
    Ok(judge(tree, &runs, &left_out, findings))
}

fn fields<const N: usize>(line: &str) -> Result<[&str; N], String> {
    let fields: Vec<&str> = line.split('\t').collect();
    fields.try_into().map_err(|_| format!("not {N} fields: {line}"))
}

/// What was seen of every block, and what is wrong with it.
pub(crate) struct Report {
    lines: Vec<String>,
    /// Blocks by what was seen of them.
    counts: BTreeMap<&'static str, usize>,
    pub(crate) findings: Vec<Finding>,
}

impl fmt::Display for Report {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(to, "{line}"))?;
        let all: usize = self.counts.values().sum();
        let counts = self.counts.iter().map(|(kind, count)| format!("{count} {kind}"));
        writeln!(to, "{all} blocks: {}", counts.collect::<Vec<_>>().join(", "))
    }
}

/// An entry of the page's list of blocks that no test runs.
struct Excuse<'a> {
    line: usize,
    place: &'a str,
    blocks: usize,
    why: &'a str,
    used: usize,
}

/// Returns the rows of three cells whose second is a number: `` `PATH::FUNCTION` ``, how many
/// blocks of the function did not run, and why.
fn excuses(page: &str) -> Vec<Excuse<'_>> {
    page.lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            let [_, place, blocks, why, _] = cells[..] else { return None };
            let (place, blocks) = (place.trim_matches('`'), blocks.parse().ok()?);
            Some(Excuse { line: index + 1, place, blocks, why, used: 0 })
        })
        .collect()
}

fn judge(
    tree: &Tree,
    runs: &[(String, Coverage)],
    left_out: &BTreeMap<&str, &str>,
    mut findings: Vec<Finding>,
) -> Report {
    let page = tree.file(PAGE).map_or("", |page| &page.text);
    let (rows, mut excuses) = (tested::rows(page), excuses(page));
    let (mut lines, mut counts) = (Vec::new(), BTreeMap::new());
    for block in blocks::of(tree) {
        let named: Vec<String> =
            rows.iter().filter(|row| row.covers(&block.path)).flat_map(Row::full_tests).collect();
        let ran = |(test, coverage): &&(String, Coverage)| {
            named.contains(test) && coverage.has_run(&block)
        };
        let witnesses: Vec<&str> = runs.iter().filter(ran).map(|(test, _)| &**test).collect();
        let excuse = excuses.iter_mut().find(|excuse| excuse.place == block.place());
        let why_not = left_out.get(crate_of(&block.path));
        let (kind, text) = match (&witnesses[..], why_not, excuse) {
            ([first, rest @ ..], ..) => ("run", seen(first, rest.len())),
            ([], Some(why), _) => ("not watched", format!("not watched: {why}")),
            ([], None, Some(excuse)) => {
                excuse.used += 1;
                ("excused", format!("not run: {}", excuse.why))
            }
            ([], None, None) => {
                findings.push(unseen(&block, runs));
                ("not run", "not run".to_owned())
            }
        };
        *counts.entry(kind).or_default() += 1;
        lines.push(format!("{block}  {text}"));
    }
    let is_watched = |excuse: &&Excuse<'_>| !left_out.contains_key(crate_of(excuse.place));
    let watched = excuses.iter().filter(is_watched);
    for excuse in watched.filter(|excuse| excuse.used != excuse.blocks) {
        let Excuse { line, place, blocks, used, .. } = excuse;
        let what = format!("{used} blocks of `{place}` did not run, not {blocks}");
        findings.push(Finding::new(PAGE, *line, what, "correct the entry, or remove it"));
    }
    Report { lines, counts, findings }
}

/// Returns the folder below `crates/` that a path is in.
fn crate_of(path: &str) -> &str {
    path.split('/').nth(1).unwrap_or_default()
}

fn seen(first: &str, others: usize) -> String {
    match others {
        0 => first.to_owned(),
        _ => format!("{first} (+{others})"),
    }
}

fn unseen(block: &Block, runs: &[(String, Coverage)]) -> Finding {
    let elsewhere = runs.iter().find(|(_, coverage)| coverage.has_run(block));
    let others = match elsewhere {
        Some((test, _)) => format!("but `{test}` did"),
        None => "nor any other of the page".to_owned(),
    };
    let what = format!("no test of its row ran a block of `{}` (0 runs), {others}", block.function);
    Finding::new(&block.path, block.line, what, "name or write a test that runs it")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "fn f() {\n    unsafe { a() };\n\
                            if x {\n        unsafe { b() }\n    }\n}\n\
                        #[cfg(test)]\nmod tests {\n    #[test]\n    fn runs() {}\n}\n";

    fn tree(page: &str) -> Tree {
        Tree::of(&[("crates/log/src/a.rs", CODE), ("crates/lab/src/b.rs", CODE), (PAGE, page)])
    }

    /// Judges two runs: of a test of the row, and of another one that also ran the second block.
    fn judged(page: &str, count: u64) -> Report {
        let run = |second: u64| {
            let segments = format!("[1,1,1,true,true,false],[3,8,{second},true,true,false]");
            let path = "/nonexistent/crates/log/src/a.rs";
            let file = format!(r#"{{"filename":"{path}","segments":[{segments}]}}"#);
            let text = format!(r#"{{"data":[{{"files":[{file}]}}]}}"#);
            Coverage::read(&text, Path::new("/nonexistent")).unwrap()
        };
        let runs = [
            ("crates/log/src/a.rs::runs".to_owned(), run(count)),
            ("crates/log/src/c.rs::far".to_owned(), run(1)),
        ];
        let left_out = BTreeMap::from([("lab", "it is not built")]);
        judge(&tree(page), &runs, &left_out, Vec::new())
    }

    #[test]
    fn tests_are_listed_with_their_program_and_module() {
        let page = "## `log`\n| `src/a.rs` | `src/a.rs::runs`, `src/b/tests.rs::x`, `make loom` |\n\
                    | `src/b.rs` | `src/a.rs::runs`, `tests/log.rs::y`, `tests/s/mod.rs::z` |\n";
        let lines = tests(&tree(page));
        let fields: Vec<Vec<&str>> = lines.lines().map(|l| l.split('\t').collect()).collect();
        assert_eq!(
            fields[0],
            ["log", "lib", "(a::)?([a-z_]*tests::)?runs", "crates/log/src/a.rs::runs"]
        );
        assert_eq!(fields[1][..3], ["log", "lib", "(b::tests::)?([a-z_]*tests::)?x"]);
        assert_eq!(fields[2][..3], ["log", "log", "(::)?([a-z_]*tests::)?y"]);
        assert_eq!(fields[3][..3], ["log", "s", "(::)?([a-z_]*tests::)?z"]);
        assert_eq!(fields.len(), 4);
        let page = "## `python`\n| `src/a.rs` | `tests/test_a.py::test_b` |\n";
        let line = "python\tpytest\ttest_b\tcrates/python/tests/test_a.py::test_b\n";
        assert_eq!(tests(&tree(page)), line);
    }

    #[test]
    fn a_block_needs_a_test_of_its_row() {
        let page = "## `log`\n| `src/a.rs` | `src/a.rs::runs` |\n";
        let whole = judged(page, 1);
        assert!(whole.findings.is_empty(), "{:?}", whole.findings);
        let text = whole.to_string();
        assert!(text.contains("crates/lab/src/b.rs:4 f  not watched: it is not built"), "{text}");
        assert!(text.contains("a.rs:4 f  crates/log/src/a.rs::runs\n"), "{text}");
        assert!(text.ends_with("4 blocks: 2 not watched, 2 run\n"), "{text}");
        let short = judged(page, 0);
        assert_eq!(short.findings.len(), 1);
        let what = short.findings[0].to_string();
        assert!(what.starts_with("crates/log/src/a.rs:4: no test of its row"), "{what}");
        assert!(what.contains("`crates/log/src/c.rs::far` did"), "{what}");
    }

    #[test]
    fn an_excuse_is_for_so_many_blocks_that_did_not_run() {
        let page = |blocks| {
            let excuse = format!("| `crates/log/src/a.rs::f` | {blocks} | no such card |");
            format!("## `log`\n| `src/a.rs` | `src/a.rs::runs` |\n\n## Not run\n{excuse}\n")
        };
        let excused = judged(&page(1), 0);
        assert!(excused.findings.is_empty(), "{:?}", excused.findings);
        assert!(excused.to_string().contains("a.rs:4 f  not run: no such card"));
        assert_eq!(judged(&page(2), 0).findings.len(), 1);
        assert_eq!(judged(&page(1), 1).findings.len(), 1);
        let of_lab = page(1).replace("crates/log/src/a.rs::f", "crates/lab/src/b.rs::f");
        assert!(judged(&of_lab, 1).findings.is_empty(), "it is not watched");
    }
}

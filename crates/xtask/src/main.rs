//! The house rules as a program: `cargo run -p xtask -- check`.
//!
//! `cargo run -p xtask -- book FOLDER` collects the pages of the book: see `book`.
//!
//! `cargo run -p xtask -- watched tests | report FOLDER` is for `scripts/unsafe-blocks`: see
//! `watched`.
//!
//! Each module checks one family of rules. It reads the tree as git lists it (tracked files and new
//! ones that are not ignored). It returns findings, one line each: the place, the problem with its
//! number, and the fix.
//!
//! | module | rule |
//! |---|---|
//! | `layers` | dependencies point down only |
//! | `unsafety` | `unsafe` only in the crates that may have it, each with its argument |
//! | `tested` | each file with `unsafe` names the tests that run it |
//! | `atomics` | atomics only in the crates whose orderings are modelled |
//! | `size` | lines, functions, files and folders stay small |
//! | `skips` | no test prints why it cannot run and returns |
//! | `leftovers` | nothing unfinished, and no mention of a folder outside the repository |
//! | `prose` | no phrases in printed text that read as translated |
//! | `sentences` | no sentence of a page or a comment is longer than 25 words |
//! | `named` | what a page names in the sources is there |
//! | `links` | relative links in Markdown have existing targets |
//! | `book` | each page of `docs/` is in the book, and its links lead to pages and headings |
//!
//! The modules `rust`, `metadata` and `tree` only read. `rust` blanks comments and literals
//! and matches braces; these rules need no more of a parser.
#![forbid(unsafe_code)]

mod atomics;
mod book;
mod finding;
mod layers;
mod leftovers;
mod links;
mod named;
mod prose;
mod reading;
mod sentences;
mod size;
mod skips;
mod tested;
mod unsafety;
mod watched;

use reading::{metadata, rust, tree};

use std::path::Path;
use std::process::ExitCode;

use finding::Finding;
use metadata::Metadata;
use tree::Tree;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["check"] => check().map(|(files, findings)| report(files, &findings)),
        ["book", folder] => write_book(Path::new(folder)),
        ["watched", "tests"] => Tree::read().map(|tree| {
            print!("{}", watched::tests(&tree));
            ExitCode::SUCCESS
        }),
        ["watched", "report", folder] => report_watched(Path::new(folder)),
        _ => Err("usage: xtask check | book FOLDER | watched tests | watched report FOLDER".into()),
    };
    done.unwrap_or_else(|reason| {
        eprintln!("xtask: {reason}");
        ExitCode::from(2)
    })
}

/// Collects the pages of the book in a folder.
fn write_book(folder: &Path) -> Result<ExitCode, String> {
    let pages = book::write(&Tree::read()?, folder)?;
    println!("xtask book: {pages} pages in {}", folder.display());
    Ok(ExitCode::SUCCESS)
}

/// Prints which test was seen to run which `unsafe` block; findings go to standard error.
fn report_watched(folder: &Path) -> Result<ExitCode, String> {
    let report = watched::report(&Tree::read()?, folder)?;
    print!("{report}");
    for finding in &report.findings {
        eprintln!("{finding}");
    }
    Ok(if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs every rule. Returns the number of files read and the findings, sorted by place.
fn check() -> Result<(usize, Vec<Finding>), String> {
    let tree = Tree::read()?;
    let workspace = Metadata::read(tree.root())?;
    let mut findings = Vec::new();
    findings.extend(layers::check(&workspace, &tree));
    findings.extend(unsafety::check(&workspace, &tree));
    findings.extend(tested::check(&tree));
    findings.extend(atomics::check(&tree));
    findings.extend(size::check(&tree));
    findings.extend(skips::check(&tree));
    findings.extend(leftovers::check(&tree));
    findings.extend(prose::check(&tree));
    findings.extend(sentences::check(&tree));
    findings.extend(named::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(book::check(&tree));
    findings.sort();
    Ok((tree.files().len(), findings))
}

/// Prints the findings and one closing line.
fn report(files: usize, findings: &[Finding]) -> ExitCode {
    for finding in findings {
        println!("{finding}");
    }
    println!("xtask check: {files} files read, {} findings", findings.len());
    if findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

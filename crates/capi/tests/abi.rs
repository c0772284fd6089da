//! Checks that programs compiled against the last release's header still run.
//!
//! `include/burstline.abi` lists what that header promised, one per line: functions with their
//! types, constants with their values, fields with their offsets, sizes of structs. Each line must
//! hold for the current header. Additions are fine, except a field in a struct whose size is
//! compiled into programs. `make abi`, at a release, regenerates the file.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use burstline::{
    ABI_VERSION, BurstView, DescWords, FactsWords, Flow, Options, PacketToWrite, PortName,
    PublishOptions, Statistics, WriterStatistics,
};

/// Structs that may grow at their end: their first field says how much of them a program knows.
const SIZED: [&str; 4] = [
    "burstline_options",
    "burstline_publish_options",
    "burstline_statistics",
    "burstline_writer_statistics",
];

fn include(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include").join(name)
}

/// Returns the header without comments, one declaration or preprocessor line per line.
fn declarations(header: &str) -> Vec<String> {
    let mut text = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        text += before;
        rest = comment.split_once("*/").expect("comments end").1;
    }
    text += rest;
    let text = text.replace("\\\n", " ");
    let mut lines = Vec::new();
    let mut open = String::new();
    for line in text.lines().map(|line| line.split("//").next().unwrap_or_default().trim()) {
        if line.starts_with('#') {
            lines.push(line.to_owned());
            continue;
        }
        open += " ";
        open += line;
        if line.ends_with([';', '{', '}', ',']) {
            lines.push(open.split_whitespace().collect::<Vec<_>>().join(" "));
            open.clear();
        }
    }
    lines
}

fn promises(header: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let (mut structure, mut fields, mut prototype) = (None::<String>, 0, String::new());
    for line in declarations(header) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match (&structure, &words[..]) {
            (_, ["#define", name, value @ ..]) if !value.is_empty() && !name.contains('(') => {
                found.insert(format!("constant {name} = {}", value.join(" ")));
            }
            (_, [first, ..]) if first.starts_with('#') => {}
            (None, ["struct", name, "{"]) => (structure, fields) = (Some((*name).into()), 0),
            (Some(_), [first, ..]) if first.starts_with('}') => structure = None,
            (Some(name), _) => {
                found.insert(format!("field {name} {fields}: {line}"));
                fields += 1;
            }
            (None, [name, "=", value]) => {
                found.insert(format!("constant {name} = {}", value.trim_end_matches(',')));
            }
            // A function's parameters may span several lines, and an inline function has a body.
            (None, _) if line.contains('(') || !prototype.is_empty() => {
                prototype += &line;
                if line.ends_with([';', '{']) {
                    let text = prototype.trim_end_matches([';', '{', ' ']).replace(",", ", ");
                    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
                    let name = text.split('(').next().unwrap_or_default();
                    let is_ours = name.contains("burstline_");
                    let is_function = text.ends_with(')') && !text.starts_with("return");
                    if is_ours && is_function && !text.contains(" = ") {
                        found.insert(format!("function {text}"));
                    }
                    prototype.clear();
                }
            }
            _ => {}
        }
    }
    for (name, bytes) in [
        ("burstline_burst", size_of::<BurstView>()),
        ("burstline_desc", size_of::<DescWords>()),
        ("burstline_facts", size_of::<FactsWords>()),
        ("burstline_flow", size_of::<Flow>()),
        ("burstline_options", size_of::<Options>()),
        ("burstline_packet_to_write", size_of::<PacketToWrite>()),
        ("burstline_port", size_of::<PortName>()),
        ("burstline_publish_options", size_of::<PublishOptions>()),
        ("burstline_statistics", size_of::<Statistics>()),
        ("burstline_writer_statistics", size_of::<WriterStatistics>()),
    ] {
        found.insert(format!("size {name} {bytes}"));
    }
    found
}

fn broken(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Vec<String> {
    let grows = |line: &str| {
        SIZED.iter().any(|name| {
            let mut words = line.split(' ');
            words.next() == Some("size") && words.next() == Some(name)
        })
    };
    let gone = before.difference(now).filter(|line| !grows(line));
    let grown = now.difference(before).filter(|line| {
        let name = line.strip_prefix("field ").and_then(|rest| rest.split(' ').next());
        let is_old = |name: &str| before.iter().any(|l| l.starts_with(&format!("size {name} ")));
        name.is_some_and(|name| is_old(name) && !SIZED.contains(&name))
    });
    gone.map(|line| format!("gone: {line}"))
        .chain(grown.map(|line| format!("programs do not know: {line}")))
        .collect()
}

#[test]
fn what_the_last_release_promised_is_so() {
    let header = fs::read_to_string(include("burstline.h")).unwrap();
    let (now, path) = (promises(&header), include("burstline.abi"));
    if env::var_os("WRITE_ABI").is_some() {
        let lines: Vec<&str> = now.iter().map(String::as_str).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        return;
    }
    let before = fs::read_to_string(&path).unwrap();
    let before: BTreeSet<String> = before.lines().map(str::to_owned).collect();
    let version = format!("constant BURSTLINE_ABI_VERSION = {ABI_VERSION}");
    assert!(now.contains(&version), "{version}");
    if before.contains(&version) {
        let broken = broken(&before, &now);
        assert!(broken.is_empty(), "raise BURSTLINE_ABI_VERSION, or do without:\n{broken:#?}");
    }
}

#[test]
fn a_change_that_breaks_programs_is_seen() {
    let header = fs::read_to_string(include("burstline.h")).unwrap();
    let before = promises(&header);
    for (kind, least) in [("function", 30), ("constant", 35), ("field", 60), ("size", 10)] {
        let found = before.iter().filter(|line| line.starts_with(kind)).count();
        assert!(found >= least, "{found} lines {kind}");
    }
    let changed = |from: &str, to: &str| {
        assert!(header.contains(from), "{from}");
        broken(&before, &promises(&header.replacen(from, to, 1)))
    };
    assert!(changed("uint32_t burstline_abi_version(void)", "void gone(void)").len() == 1);
    assert!(changed("uint64_t timeout_ns,", "uint32_t timeout_ns,").len() == 1);
    assert!(changed("BURSTLINE_STATUS_END = 2", "BURSTLINE_STATUS_END = 3").len() == 1);
    assert!(
        changed("#define BURSTLINE_FLAG_MERGED 4", "#define BURSTLINE_FLAG_MERGED 5").len() == 1
    );
    assert!(changed("uint64_t ticket;", "uint64_t ticket;\n    int more;").len() == 1);
    assert!(changed("uint32_t verdicts;", "uint32_t verdicts;\n    uint32_t more;").is_empty());
    assert!(changed("uint32_t window;", "uint64_t window;").len() == 1);
    let added =
        "#define BURSTLINE_NEW 1\nuint32_t burstline_new(int x);\nconst char *burstline_version";
    assert!(changed("const char *burstline_version", added).is_empty());
}

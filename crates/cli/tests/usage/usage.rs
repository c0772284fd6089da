//! Help, completions, and errors of invalid command lines.

use std::fs;

use crate::support::{Directory, REAL, run, run_json, run_with_code};

/// Runs a command that must fail with one line that contains all of `words`.
fn assert_complaint(arguments: &[&str], code: i32, words: &[&str]) {
    let run = run(arguments);
    assert_eq!(run.code, Some(code), "{arguments:?}: {}", run.stderr);
    assert!(run.stdout.is_empty(), "{arguments:?}: {}", run.stdout);
    assert!(run.stderr.starts_with("burstline: "), "{arguments:?}: {}", run.stderr);
    assert_eq!(run.stderr.lines().count(), 1, "{arguments:?}: {}", run.stderr);
    for word in words {
        assert!(run.stderr.contains(word), "{arguments:?}: '{word}' is not in {}", run.stderr);
    }
}

#[test]
fn help_has_examples_and_ends_with_success() {
    for verb in ["count", "capture"] {
        let long = run_with_code(&[verb, "--help-all"], 0);
        assert!(long.stdout.contains("Examples:") && long.stdout.contains("--pool-node"), "{verb}");
        assert_eq!(run(&["help", verb]).stdout, long.stdout, "{verb}");
        let short = run(&[verb, "--help"]);
        assert!(short.code == Some(0) && short.stdout.len() < long.stdout.len() / 2, "{verb}");
        assert!(
            short.stdout.contains("--help-all") && short.stdout.contains("--packets"),
            "{verb}"
        );
        assert!(!short.stdout.contains("--pool-node"), "{verb}: {}", short.stdout);
        assert_eq!(run(&[verb, "-h"]).stdout, short.stdout, "{verb}");
    }
    let short = run(&["capture", "--help"]).stdout;
    let short = short.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in ["files:N keeps the newest N files", "a margin of 2 MiB"] {
        assert!(short.contains(word), "{word}: {short}");
    }
    let short = run(&["--help"]).stdout;
    assert!(short.lines().count() < 44 && short.contains("--help-all"), "{short}");
    let all = run_with_code(&["--help-all"], 0);
    for word in ["gen:", "afpacket:", "xdp:", "direction=", "fd=", "mode=auto|native|generic"] {
        assert!(all.stdout.contains(word), "{word}");
    }
    let version = run(&["--version"]);
    let line = concat!("burstline ", env!("CARGO_PKG_VERSION"), " (");
    assert!(
        version.stdout.starts_with(line) && version.stdout.ends_with(")\n"),
        "{}",
        version.stdout
    );
    let whole = run(&["version"]);
    let begin = format!("{}\n", version.stdout.trim());
    assert!(whole.stdout.starts_with(&begin), "{}", whole.stdout);
    let object = run_json(&["version"], 0);
    assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
    assert!(object["features"].is_array() && object["libraries"].is_object(), "{object}");
    assert_eq!(run(&[]).code, Some(2));
}

#[test]
fn what_can_be_said_of_ports_is_told_wherever_one_looks() {
    let keys = ["busy_poll=N", "wait_ms=MS", "segment=SIZE", "trust=program|nobody|own|anyone"];
    let (all, page) = (run(&["ports"]), run(&["man"]));
    let (outline, help) = (run(&["--help-all"]), run(&["help", "ports"]));
    for text in [&all.stdout, &outline.stdout, &help.stdout, &page.stdout] {
        for key in keys {
            assert!(text.contains(key), "{key}: {text}");
        }
    }
    let one = run(&["ports", "xdp"]);
    assert!(one.code == Some(0) && all.stdout.contains(&one.stdout), "{}", one.stdout);
    let wanted = "Frames in the memory of a queue, a power of two, 64-1048576 [default: 4096]";
    assert!(one.stdout.contains(wanted) && !one.stdout.contains("nicsim"), "{}", one.stdout);
    assert_complaint(&["ports", "xpd"], 2, &["'xpd'", "xdp"]);
    let script = run(&["completions", "bash"]).stdout;
    for words in ["file set afpacket xdp dpdk tap vhost memif log", "udp tcp mix", "yes no"] {
        assert!(script.contains(words), "{words}");
    }
}

#[test]
fn a_size_is_the_same_in_a_flag_and_in_an_address() {
    for source in ["nicsim:?fifo=64m&loop=8&source=gen:?packets=8", "gen:?packets=1k&size=1k"] {
        let counted = run(&["count", source, "--packets", "8", "--snaplen", "64k"]);
        assert_eq!(counted.code, Some(0), "{source}: {}", counted.stderr);
    }
    assert_complaint(&["count", "nicsim:?fifo=much"], 2, &["fifo=much", "k, m or g", "e.g. 64m"]);
    assert_complaint(&["count", "log:tap?wait=5"], 2, &["wait=5", "ms, s, m or h", "e.g. 500ms"]);
}

#[test]
fn completions_and_the_man_page_come_from_the_same_flags() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(&["completions", shell]);
        assert!(script.code == Some(0) && script.stdout.contains("lossless"), "{shell}");
    }
    let page = run(&["man"]);
    assert!(page.code == Some(0) && page.stdout.starts_with(".ie"), "{}", page.stdout);
    for word in ["duration", "lossless", "keep", "Examples", "DOCTOR PORTS", "probe"] {
        assert!(page.stdout.contains(word), "{word}");
    }
    let one = run(&["man", "doctor", "ports"]);
    assert!(one.code == Some(0) && one.stdout.contains("probe"), "{}", one.stdout);
    assert!(one.stdout.contains("burstline\\-doctor\\-ports \\- Which ports"), "{}", one.stdout);
    assert!(!one.stdout.contains("lossless"), "of no other verb: {}", one.stdout);
}

#[test]
fn a_folder_gets_a_manual_page_for_each_verb() {
    let directory = Directory::new("usage-man");
    let folder = directory.file("man1");
    let written = run(&["man", "--into", &folder]);
    assert_eq!((written.code, written.stdout.as_str()), (Some(0), ""), "{}", written.stderr);
    let names = fs::read_dir(&folder).unwrap();
    let names: Vec<_> =
        names.map(|name| name.unwrap().file_name().into_string().unwrap()).collect();
    for verb in ["", "-count", "-capture", "-doctor", "-doctor-logs", "-man", "-lab-rfc2544"] {
        assert!(names.contains(&format!("burstline{verb}.1")), "{verb}: {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("help") || name.contains("balance-")));
    for name in names {
        let path = format!("{folder}/{name}");
        // mandoc and man are not installed everywhere; groff's syntax is easy to check here.
        let page = fs::read_to_string(&path).unwrap();
        for part in [".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n"] {
            assert!(page.contains(part), "{name}: {part}: {page}");
        }
    }
    assert_complaint(&["man", "--into", "/dev/null/x"], 1, &["/dev/null/x", "Not a directory"]);
}

#[test]
fn a_wrong_value_is_named_with_what_is_allowed() {
    for (flag, value, words) in [
        ("--packets", "ten", &["'ten'", "--packets", "k, M, G or T", "e.g. 10k"][..]),
        ("--packets", "0", &["'0'", "must be 1 or more"]),
        ("--duration", "10", &["'10'", "ms, s, m or h", "e.g. 500ms"]),
        ("--snaplen", "512k", &["'512k'", "must be 0-524287"]),
        ("--hash", "md5", &["'md5'", "none, five-tuple, ip, inner, vlan, rss", "byte:N"]),
        ("--cores", "0,x", &["`x`", "4-7"]),
        ("--cores", "8191", &["8191", "may not use"]),
        ("--node", "one", &["'one'", "auto"]),
        ("--priority", "fifo:100", &["'fifo:100'", "fifo:1 to fifo:99"]),
        ("--poll", "lazy", &["'lazy'", "busy, adaptive, interrupt"]),
        ("--stats", "1 s", &["'1 s'"]),
    ] {
        assert_complaint(&["count", REAL, flag, value], 2, words);
    }
    for (flag, value, words) in [
        ("--format", "tar", &["'tar'", "segmented", "pcap-ns"][..]),
        ("--pages", "3m", &["'3m'", "auto, 1g, 2m, thp, 4k"]),
        ("--buffer", "much", &["'much'", "k, m or g"]),
        ("--buffer", "4k", &["4096", "--buffer"]),
        ("--segment", "3k", &["3072", "power of two"]),
    ] {
        assert_complaint(&["capture", REAL, "-w", "-", flag, value], 2, words);
    }
}

#[test]
fn an_incomplete_command_line_says_what_is_missing() {
    assert_complaint(&["count"], 2, &["<SOURCE>"]);
    assert_complaint(&["capture", REAL], 2, &["--write <FILE>"]);
    assert_complaint(&["capture", REAL, "-w", ""], 2, &["--write"]);
    assert_complaint(&["count", REAL, "--buffer", "1m"], 2, &["--buffer"]);
    assert_complaint(&["doctor", "ports", "no-such-one"], 1, &["'no-such-one'", "lo"]);
}

#[test]
fn a_slip_of_the_finger_gets_the_word_that_was_meant() {
    for (words, code, meant) in [
        (&["conut", REAL][..], 2, "'conut' (did you mean count?)"),
        (&["doctor", "prots"], 2, "'prots' (did you mean ports?)"),
        (&["count", REAL, "--pakets", "3"], 2, "'--pakets' found (did you mean --packets?)"),
        (&["count", REAL, "--poll", "bsuy"], 2, "(did you mean busy?)"),
        (&["ports", "xpd"], 2, "(did you mean xdp?)"),
        (&["man", "captrue"], 2, "no verb 'captrue' (did you mean capture?); there are: count, "),
        (&["count", "-i", "lp"], 1, "no interface 'lp' (did you mean lo?); there are: "),
        (&["count", "lp"], 1, ") nor a file (did you mean lo?)"),
        (&["doctor", "ports", "lp"], 1, "no interface 'lp' (did you mean lo?)"),
        (&["count", REAL, "upd", "port", "53"], 2, "does not begin a filter (did you mean udp?)"),
    ] {
        assert_complaint(words, code, &[meant]);
    }
}

#[test]
fn sources_that_cannot_be() {
    assert_complaint(&["count", "foo:bar"], 2, &["'foo'", "file", "gen"]);
    assert_complaint(&["count", "xpd:eth0"], 2, &["'xpd' (did you mean xdp?)"]);
    assert_complaint(&["count", "gen:?sise=64"], 2, &["'sise' (did you mean size?)", "flows"]);
    assert_complaint(&["count", "gen:?size=1"], 2, &["size=1"]);
    assert_complaint(&["count", ""], 2, &["empty"]);
    assert_complaint(&[&["count"][..], &["gen:?packets=1"; 257]].concat(), 2, &["257", "256"]);
    assert_complaint(&["count", "/no/such/file"], 1, &["/no/such/file", "No such file"]);
    assert_complaint(&["count", "/"], 1, &["/"]);
    assert_complaint(&["count", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 1, &["Cargo"]);
    assert_complaint(&["count", "gen:", "gen:", "gen:", "--cores", "0"], 2, &["3 threads"]);
}

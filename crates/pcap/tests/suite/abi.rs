//! Tests that programs linked with libpcap, or compiled with its headers, find everything here.
//! Compares with this machine's libpcap, and those of Debian 12 and 13 (`scripts/libpcap`).

use std::collections::BTreeSet;
use std::fs;
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use burstline_skip::skip;

use crate::common::{Folder, is_there, library, run, target};

// The library's definitions, which are compared with the headers.
#[path = "../../src/abi.rs"]
#[allow(dead_code, unreachable_pub)] // a part is compared
mod declared;

use declared::{BpfProgram, Instruction, Interface, PacketHeader, Stat, Timeval};

/// Returns where `scripts/setup sensors` installs the libpcap of a release. If it is missing, the
/// test is counted as skipped.
fn fetched_or_skip(release: &str) -> Option<PathBuf> {
    let root = target().join("libpcap").join(release);
    if root.is_dir() {
        return Some(root);
    }
    skip(format!("libpcap of {release} is not fetched: scripts/setup sensors"));
    None
}

fn in_root(root: &Path) -> PathBuf {
    let folder = format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH);
    root.join(folder).join("libpcap.so.0.8")
}

fn names(library: &Path) -> BTreeSet<String> {
    let mut command = Command::new("nm");
    let said = run(command.args(["-D", "--defined-only"]).arg(library), 0);
    said.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect()
}

fn assert_has_every_function_of(real: &Path) {
    if !real.exists() || !is_there("nm") {
        return skip("libpcap0.8 or nm is not installed");
    }
    let (ours, theirs) = (names(&library()), names(real));
    assert!(theirs.len() > 90, "it is a libpcap: {theirs:?}");
    // A table of the real library that no header declares: ours would replace it.
    let missing: Vec<_> =
        theirs.difference(&ours).filter(|name| name.as_str() != "eproto_db").collect();
    assert!(missing.is_empty(), "{missing:?}");
    let besides: Vec<_> = ours.difference(&theirs).map(String::as_str).collect();
    // Other additional names might clash with a program's.
    assert_eq!(besides, ["burstline_pcap_replace", "burstline_pcap_verdict"]);
}

#[test]
fn every_function_of_libpcap_is_there() {
    assert_has_every_function_of(&in_root(Path::new("/")));
}

#[test]
fn every_function_of_debian_12_is_there() {
    let Some(root) = fetched_or_skip("bookworm") else { return };
    assert_has_every_function_of(&in_root(&root));
}

#[test]
fn every_function_of_debian_13_is_there() {
    let Some(root) = fetched_or_skip("trixie") else { return };
    assert_has_every_function_of(&in_root(&root));
}

/// Returns claims about the headers that must hold: offsets and sizes of fields, and numbers.
fn claims() -> Vec<String> {
    macro_rules! fields {
        ($theirs:literal, $ours:ty, $($their_field:literal: $field:ident),*) => {
            [
                format!("sizeof(struct {}) == {}", $theirs, size_of::<$ours>()),
                $(format!("offsetof(struct {}, {}) == {}", $theirs, $their_field,
                    offset_of!($ours, $field))),*
            ]
        };
    }
    let structs = [
        &fields!("timeval", Timeval, "tv_sec": seconds, "tv_usec": rest)[..],
        &fields!("pcap_pkthdr", PacketHeader, "ts": time, "caplen": captured, "len": length),
        &fields!("pcap_stat", Stat, "ps_recv": received, "ps_drop": dropped,
            "ps_ifdrop": interface_dropped),
        &fields!("bpf_insn", Instruction, "code": code, "jt": jt, "jf": jf, "k": k),
        &fields!("bpf_program", BpfProgram, "bf_len": count, "bf_insns": instructions),
        &fields!("pcap_if", Interface, "next": next, "name": name, "description": description,
            "addresses": addresses, "flags": flags),
    ];
    let up = "(PCAP_IF_UP | PCAP_IF_RUNNING | PCAP_IF_CONNECTION_STATUS_NOT_APPLICABLE)";
    let numbers = [
        ("PCAP_ERRBUF_SIZE", declared::ERRBUF_BYTES as i64),
        ("PCAP_ERROR", declared::ERROR.into()),
        ("PCAP_ERROR_BREAK", declared::ERROR_BREAK.into()),
        ("PCAP_ERROR_NOT_ACTIVATED", declared::ERROR_NOT_ACTIVATED.into()),
        ("PCAP_ERROR_ACTIVATED", declared::ERROR_ACTIVATED.into()),
        ("PCAP_ERROR_NO_SUCH_DEVICE", declared::ERROR_NO_SUCH_DEVICE.into()),
        ("PCAP_ERROR_RFMON_NOTSUP", declared::ERROR_RFMON_NOTSUP.into()),
        ("PCAP_ERROR_PERM_DENIED", declared::ERROR_PERM_DENIED.into()),
        ("PCAP_ERROR_TSTAMP_PRECISION_NOTSUP", declared::ERROR_TSTAMP_PRECISION_NOTSUP.into()),
        ("PCAP_WARNING_TSTAMP_TYPE_NOTSUP", declared::WARNING_TSTAMP_TYPE_NOTSUP.into()),
        ("PCAP_TSTAMP_PRECISION_MICRO", declared::PRECISION_MICRO.into()),
        ("PCAP_TSTAMP_PRECISION_NANO", declared::PRECISION_NANO.into()),
        ("PCAP_TSTAMP_HOST", declared::TSTAMP_HOST.into()),
        ("PCAP_D_INOUT", declared::DIRECTION_BOTH.into()),
        (up, declared::IF_UP_RUNNING.into()),
    ];
    let numbers = numbers.map(|(name, number)| format!("{name} == {number}"));
    [structs.concat(), numbers.to_vec()].concat()
}

/// Compiles the claims with the headers of a release.
fn assert_headers_say_the_same(release: &str) {
    let Some(root) = fetched_or_skip(release) else { return };
    let Some(folder) = Folder::with(&["cc"], "rust") else { return };
    let asserts = claims()
        .into_iter()
        .map(|claim| format!("_Static_assert({claim}, \"{claim}\");\n"))
        .collect::<String>();
    let source = format!("#include <pcap.h>\n#include <stddef.h>\n{asserts}");
    fs::write(folder.at("headers.c"), source).unwrap();
    // The release's headers, not this machine's.
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-H", "-fsyntax-only"]).arg("-I").arg(root.join("usr/include"));
    let output = compiler.arg(folder.at("headers.c")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let header = root.join("usr/include/pcap/pcap.h");
    assert!(said.contains(header.to_str().unwrap()), "{said}");
}

#[test]
fn structs_and_numbers_are_those_of_debian_12() {
    assert_headers_say_the_same("bookworm");
}

#[test]
fn structs_and_numbers_are_those_of_debian_13() {
    assert_headers_say_the_same("trixie");
}

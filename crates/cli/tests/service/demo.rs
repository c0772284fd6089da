//! The demonstration: its counts agree, and it leaves nothing behind.

use std::fs;
use std::process::Command;

use crate::support::{Directory, PROGRAM, Run, command, is_root, started};
use burstline_skip::skip;

#[test]
fn the_demonstration_ends_well_and_cleans_up() {
    let directory = Directory::new("demo");
    let run: Run = command(&["demo"]).env("TMPDIR", &directory.0).output().unwrap().into();
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for word in ["All counts agree.", "udp", "tcp", "1,544,700"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    if run.stdout.contains("1. Live") {
        assert!(run.stdout.contains("got 100 of 100 datagrams"), "{}", run.stdout);
        let has_xdp = run.stdout.contains("got 0 of 100 datagrams");
        assert!(has_xdp || run.stdout.contains("Without xdp: "), "{}", run.stdout);
    } else {
        assert!(run.stdout.contains("No live ports here: "), "{}", run.stdout);
    }
    assert!(run.stdout.ends_with("unaccounted 0\n"), "{}", run.stdout);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn without_rights_it_says_so_in_a_line_and_shows_the_rest() {
    let directory = Directory::new("demo-user");
    // Root without capabilities, if the tests run as root.
    let mut user = Command::new("setpriv");
    user.args(["--securebits", "+noroot", "--bounding-set", "-all", PROGRAM, "demo"]);
    let mut user = if is_root() { user } else { command(&["demo"]) };
    let output = user.env("TMPDIR", &directory.0).output();
    let run: Run = match started("setpriv", "test", output) {
        Ok(output) => output.into(),
        Err(reason) => return skip(reason),
    };
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    let reason = run.stdout.lines().find(|line| line.contains("No live ports here"));
    assert!(reason.is_some_and(|line| line.contains("unshare -Urn")), "{}", run.stdout);
    assert!(run.stdout.contains(" 149 = "), "{}", run.stdout);
    assert!(run.stdout.ends_with("unaccounted 0\n"), "{}", run.stdout);
}

#[test]
fn without_room_it_says_so_and_cleans_up_too() {
    let run: Run = command(&["demo"]).env("TMPDIR", "/no/such/place").output().unwrap().into();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("/no/such/place"), "{}", run.stderr);
}

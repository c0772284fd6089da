//! The demonstration: its counts agree, and it leaves nothing behind.

mod support;

use std::fs;

use support::{Directory, Run, command};

#[test]
fn the_demonstration_ends_well_and_cleans_up() {
    let directory = Directory::new("demo");
    let run: Run = command(&["demo"]).env("TMPDIR", &directory.0).output().unwrap().into();
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    for word in ["All counts agree.", "149", "udp", "tcp", "1,544,700"] {
        assert!(run.stdout.contains(word), "{word}: {}", run.stdout);
    }
    assert!(run.stdout.ends_with("unaccounted 0\n"), "{}", run.stdout);
    assert_eq!(fs::read_dir(&directory.0).unwrap().count(), 0);
}

#[test]
fn without_room_it_says_so_and_cleans_up_too() {
    let run: Run = command(&["demo"]).env("TMPDIR", "/no/such/place").output().unwrap().into();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("/no/such/place"), "{}", run.stderr);
}

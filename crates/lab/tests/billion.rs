//! Runs `scripts/billion` with a program in place of ours, and looks at what it leaves.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use burstline_sys::temporary::TemporaryFolder;

/// Prints what the script reads of a record. It loses packets above 500,000 a second.
const PROGRAM: &str = r#"#!/bin/sh
lost=0
if [ "$5" -gt 500000 ]; then lost=12; fi
offered=$(awk -v rate="$5" 'BEGIN { print rate / 1e6 }')
printf '{"lost":{"unit":"packets","median":%s.0},' "$lost"
printf '"offered_mpps":{"unit":"Mpps","median":%s}}\n' "$offered"
"#;

#[test]
fn the_trials_that_found_a_rate_stand_beside_its_record() {
    let folder = TemporaryFolder::create("burstline-billion-").unwrap();
    let program = folder.file("program");
    fs::write(&program, PROGRAM).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/billion");
    let mut script = Command::new(script);
    script.arg(&program).arg(folder.path()).env("TRIAL_S", "1").env("HIGHEST", "1000000");
    let output = script.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for scenario in ["dna-bounce", "dna-capture"] {
        let list = folder.file(&format!("{scenario}-trials.txt"));
        let list = fs::read_to_string(&list).unwrap_or_else(|error| panic!("{list}: {error}"));
        let lines: Vec<&str> = list.lines().collect();
        assert!(lines[0].contains(&format!("{scenario}.toml: trials")), "{list}");
        let passed = "500000 a second for 1 s: 0 lost, 0.5 million a second offered: passed";
        let failed = "750000 a second for 1 s: 12 lost, 0.75 million a second offered: failed";
        assert_eq!(lines[1..3], [passed, failed]);
        let last = "507812 a second for 1 s: 12 lost, 0.507812 million a second offered: failed";
        let found = "the highest rate without loss: 500000 a second";
        assert_eq!((lines.len(), &lines[7..]), (9, &[last, found][..]));
    }
}

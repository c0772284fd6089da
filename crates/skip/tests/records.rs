//! What a test that is skipped writes for `scripts/test`.
#![forbid(unsafe_code)]

use std::path::Path;
use std::process::Command;
use std::{env, fs, process, thread};

use burstline_skip::{RECORDS, skip, test_name, without};

mod others {
    use super::*;

    /// Not a test of its own: the test below runs it in another process.
    #[test]
    #[ignore = "another test runs it"]
    fn it_reports() {
        without("no judge");
        skip("no card:\nbuy one");
    }
}

#[test]
fn a_record_bears_its_programs_and_its_tests_name() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records-{}", process::id()));
    // Two threads: the tests of one thread have no name.
    let arguments = ["--exact", "others::it_reports", "--ignored", "--test-threads=2"];
    let program = env::current_exe().unwrap();
    let done = Command::new(program).args(arguments).env(RECORDS, &file).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    let records = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let wanted = "partly\trecords::others::it_reports\tno judge\n\
                  skipped\trecords::others::it_reports\tno card: buy one\n";
    assert_eq!(records, wanted);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(said.contains("skipped: others::it_reports: no card: buy one\n"), "{said}");
}

#[test]
fn a_thread_without_a_name_is_not_taken_for_a_test() {
    assert!(thread::spawn(test_name).join().is_err());
}

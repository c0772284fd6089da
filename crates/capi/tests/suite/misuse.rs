//! Mistakes of C programs, and the effect of a panic inside the library.

use burstline_skip::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{Directory, Talker};
use crate::installed::{Installed, Link, library, panicking_library, repository, run, with_tools};

/// Flags for AddressSanitizer in programs that load the library, which is compiled without it.
const SANITIZER: [&str; 2] = ["-fsanitize=address", "-fno-omit-frame-pointer"];

fn program(library: &Installed, name: &str, directory: &Directory, flags: &[&str]) -> PathBuf {
    let source = repository().join(format!("crates/capi/tests/programs/{name}.c"));
    library.compile(&source, directory.path(), Link::Shared, flags)
}

/// Runs a program on a name with 1,000 published packets.
fn beside_a_publisher(library: &Installed, program: &Path, directory: &Directory) -> String {
    let name = directory.name("tap");
    let mut publisher = Talker::role("publisher", &[&name, "1", "1000"]);
    publisher.hear("epoch");
    let said = run(library.command(program).arg(&name));
    publisher.end();
    said
}

/// Returns whether AddressSanitizer is available and detects a read past an allocation.
fn has_sanitizer(directory: &Directory) -> bool {
    let source = directory.path().join("overrun.c");
    let text = "#include <stdlib.h>\n\
                int main(int count, char **words) {\n\
                (void)words; char *room = calloc(4, 1); return room[4 * count]; }\n";
    std::fs::write(&source, text).unwrap();
    let program = directory.path().join("overrun");
    let mut compiler = Command::new("cc");
    compiler.args(SANITIZER).arg("-o").arg(&program).arg(&source);
    let is_there = compiler.output().is_ok_and(|output| output.status.success());
    is_there && {
        let output = Command::new(&program).output().unwrap();
        String::from_utf8_lossy(&output.stderr).contains("heap-buffer-overflow")
    }
}

#[test]
fn misuse_is_a_status_and_not_a_fault() {
    let Some(directory) = with_tools() else { return };
    let program = program(library(), "misuse", &directory, &[]);
    assert_eq!(beside_a_publisher(library(), &program, &directory), "misused\n");
}

/// The publisher accepts the correct verdicts and no others.
#[test]
fn misused_verdicts_are_a_status_and_no_packets_fate() {
    let Some(directory) = with_tools() else { return };
    let program = program(library(), "verdicts", &directory, &[]);
    let name = directory.name("ips");
    let mut publisher = Talker::role("inline_publisher", &[&name, "900"]);
    publisher.hear("epoch");
    let worker = Talker::start(library().command(&program).arg(&name));
    let taken = publisher.hear("taken");
    publisher.end();
    assert_eq!(worker.end(), "judged\n");
    assert_eq!(taken, "passed 800 dropped 100 other 0");
}

#[test]
fn misuse_is_none_to_address_sanitizer() {
    let Some(directory) = with_tools() else { return };
    if !has_sanitizer(&directory) {
        return skip("cc has no address sanitizer");
    }
    let program = program(library(), "misuse", &directory, &SANITIZER);
    assert_eq!(beside_a_publisher(library(), &program, &directory), "misused\n");
}

#[test]
fn panics_stop_at_the_border() {
    let Some(directory) = with_tools() else { return };
    let program = program(panicking_library(), "panics", &directory, &[]);
    let said = beside_a_publisher(panicking_library(), &program, &directory);
    assert_eq!(said, "10 panics\n");
}

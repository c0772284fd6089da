//! Tests a C program that uses a handle as programs do, and in some ways they should not.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::Stdio;

use crate::common::{DEVICE, Folder, compiled, run};
use crate::traffic::mix;

fn calls(case: &str, packets: usize) {
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "calls") else { return };
    // These open and close before a publisher notices.
    let readers = usize::from(!["misuse", "list"].contains(&case));
    let publishing = folder.publish(mix(packets), readers);
    let mut command = folder.preloaded(program.to_str().unwrap());
    let said = run(command.args([case, DEVICE]).arg(packets.to_string()), 0);
    publishing.end();
    assert_eq!(said, "fine\n");
}

#[test]
fn a_loop_gives_every_packet_and_ends_with_the_log() {
    calls("loop", 20_000);
}

#[test]
fn next_ex_gives_every_packet() {
    calls("next", 20_000);
}

#[test]
fn a_descriptor_says_when_there_are_packets() {
    calls("select", 20_000);
}

#[test]
fn a_callback_may_break_ask_and_filter() {
    calls("callback", 2_000);
}

#[test]
fn a_callback_may_close_the_handle() {
    calls("close", 2_000);
}

#[test]
fn two_threads_with_one_handle_are_an_error_and_no_fault() {
    calls("threads", 20_000);
}

#[test]
fn a_snapshot_length_cuts_and_0_does_not() {
    calls("snaplen", 2_000);
}

#[test]
fn filters_may_change_while_packets_come() {
    calls("filters", 20_000);
}

#[test]
fn a_child_of_a_fork_leaves_its_parent_alone() {
    calls("fork", 20_000);
}

#[test]
fn a_child_of_a_fork_reads_by_a_handle_of_its_own() {
    calls("child", 2_000);
    calls("select-child", 2_000);
    calls("descent", 2_000);
}

#[test]
fn misuse_is_an_error_and_no_fault() {
    calls("misuse", 100);
}

#[test]
fn a_list_of_devices_has_published_names() {
    calls("list", 100);
}

/// Packets received and missed by the program add up to those that the publisher wrote.
#[test]
fn stats_have_what_was_overwritten() {
    let packets = 60_000;
    let folder = Folder::new();
    let Some(program) = compiled(&folder, "calls") else { return };
    let publishing = folder.publish(mix(packets), 1);
    let mut command = folder.preloaded(program.to_str().unwrap());
    command.args(["lapped", "burst:tap?start=oldest"]).arg(packets.to_string());
    let mut live = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(live.stdout.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert_eq!(line, "reading\n");
    publishing.wait_until_written();
    writeln!(live.stdin.take().unwrap()).unwrap();
    line.clear();
    said.read_to_string(&mut line).unwrap();
    assert_eq!(line, "fine\n");
    assert!(live.wait().unwrap().success());
    publishing.end();
}

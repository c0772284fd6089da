//! Tests the library with real programs, and with a C program that does what programs may do.

mod abi;
mod calls;
mod common;
mod dumps;
mod faults;
mod mad;
mod programs;
#[path = "../../../share/tests/share/scribbler.rs"]
mod scribbler;
mod suricata;
mod suricata_said;
mod table;
mod traffic;
mod verdicts;
mod watchers;

//! Interfaces that are missing, deleted or changed; missing privileges; sudden death.

use std::time::Instant;

use burstline_port::{OpenOptions, PortError, PortState};
use burstline_testbed::{Bed, BedError, FAR, Frames, NEAR, Program};

use crate::common::Got;
use crate::help::{
    PATIENCE, check_closed, drain_into, lend_until, notes, open_far, rename_far, send, try_open,
};

const CHILD: &str = "BURSTLINE_TEST_ADDRESS";

/// Runs the test [`the_child`] on the far host, through `wrapper`.
fn start_child(bed: &Bed, wrapper: &[&str], address: &str) -> Result<Program, BedError> {
    let program = std::env::current_exe().unwrap();
    let test = ["--exact", "faults::the_child", "--ignored", "--nocapture"];
    let all = [wrapper, &[program.to_str().unwrap()], &test].concat();
    bed.far.start(all[0], &all[1..], &[(CHILD, address)])
}

/// Not a test: other tests run it in another process.
#[test]
#[ignore = "others run it"]
fn the_child() {
    let Ok(address) = std::env::var(CHILD) else { return };
    match crate::common::source(&address, &OpenOptions::default()) {
        Ok(port) => {
            println!("opened {}", port.info().name);
            loop {
                std::thread::park();
            }
        }
        Err(error) => println!("refused {error}"),
    }
}

fn promiscuity(bed: &Bed) -> String {
    let text = bed.far.command("ip", &["-details", "link", "show", FAR]).unwrap();
    let mut words = text.split_whitespace().skip_while(|word| *word != "promiscuity");
    words.nth(1).unwrap().to_owned()
}

#[test]
fn an_interface_that_is_not_there_is_an_error_with_those_that_are() {
    let Some(bed) = Bed::or_skip() else { return };
    for name in ["eth7", "", "a-name-that-is-longer-than-any"] {
        let address = format!("afpacket:{name}");
        let error = try_open(&bed.far, &address, OpenOptions::default()).err().unwrap();
        assert_eq!(error.to_string(), format!("no interface '{name}'; there are: lo, {FAR}"));
    }
}

#[test]
fn without_privilege_the_error_has_the_mend() {
    let Some(bed) = Bed::or_skip() else { return };
    let nobody = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"];
    let child = start_child(&bed, &nobody, &format!("afpacket:{FAR}")).unwrap();
    let (succeeded, text) = child.finish().unwrap();
    let mend = "refused packet sockets need CAP_NET_RAW: sudo setcap cap_net_raw+ep /";
    assert!(succeeded && text.contains(mend), "{text}");
}

#[test]
fn a_deleted_interface_ends_the_port_with_its_ledger_closed() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "retire_ms=100");
    let sent = send(&bed, &Frames::new(100, 60));
    bed.far.command("ip", &["link", "delete", FAR]).unwrap();
    let mut all: Vec<Got> = Vec::new();
    let outcome = lend_until(&mut *port, &mut all, |_, _| false);
    assert!(matches!(outcome, Err(PortError::InterfaceGone { ref interface }) if interface == FAR));
    check_closed(&*port, sent, all.len() as u64);
    assert_eq!(all.len() as u64, sent);
    let state = port.lend(&mut burstline_log::Scratch::new(), 1).unwrap().state;
    assert_eq!(state, PortState::Ended);
}

#[test]
fn an_interface_that_is_down_or_renamed_is_noted_and_comes_back() {
    let Some(bed) = Bed::or_skip() else { return };
    let mut port = open_far(&bed, "");
    let mut all = Vec::new();
    rename_far(&bed, &mut *port, &mut all);
    for (state, note) in [("down", "w9 has no carrier"), ("up", "w9 has a carrier again")] {
        bed.near.command("ip", &["link", "set", NEAR, state]).unwrap();
        lend_until(&mut *port, &mut all, |_, port| notes(port).contains(note)).unwrap();
    }
    let sent = send(&bed, &Frames::new(100, 60));
    drain_into(&mut *port, &mut all);
    check_closed(&*port, sent, sent);
}

#[test]
fn nothing_is_left_after_sigkill() {
    let Some(bed) = Bed::or_skip() else { return };
    for (query, expected) in [("", "1"), ("?promisc=off", "0")] {
        let address = format!("afpacket:{FAR}{query}");
        let mut child = start_child(&bed, &["env"], &address).unwrap();
        assert!(child.wait_for("opened afpacket:").unwrap());
        assert_eq!(promiscuity(&bed), expected);
        child.kill();
        // Another program that looks at it in /proc may keep its memory, and so its ring.
        let start = Instant::now();
        while promiscuity(&bed) != "0" {
            assert!(start.elapsed() < PATIENCE, "{query}");
        }
    }
}

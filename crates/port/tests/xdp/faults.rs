//! Interfaces that are missing, taken, deleted or changed.

use burstline_log::Scratch;
use burstline_port::{OpenOptions, Port, PortError, PortState};
use burstline_testbed::{Bed, FAR, Frames};
use burstline_wire::headers::LinkType;
use burstline_xdp::XdpInterface;
use burstline_xdp::bpf::{
    Assembler, Link, Program, ProgramOptions, Register, XdpMode, attached_program, xdp_action,
};

use crate::help::{
    MODES, bed_or_skip, check_closed, drain, drain_into, lend_until, numbers, open_far, rename_far,
    send_to, try_open, under_load,
};

/// Returns why an address of the far host cannot be opened.
fn refusal(bed: &Bed, address: &str) -> String {
    try_open(&bed.far, address, OpenOptions::default()).err().expect(address).to_string()
}

/// Returns the number of the XDP program on the far end.
fn program_id(bed: &Bed) -> Option<u32> {
    let attached = bed.far.run(|| {
        let index = XdpInterface::by_name(FAR).unwrap().link.index;
        attached_program(index).unwrap()
    });
    attached.map(|attached| attached.program_id)
}

#[test]
fn an_interface_or_queue_that_is_not_there_is_an_error_with_those_that_are() {
    let Some(bed) = bed_or_skip() else { return };
    for name in ["eth7", "", "a-name-that-is-longer-than-any"] {
        let text = refusal(&bed, &format!("xdp:{name}"));
        assert_eq!(text, format!("no interface '{name}'; there are: lo, {FAR}"));
    }
    let text = refusal(&bed, &format!("xdp:{FAR}@1"));
    let expected = "v1 has 1 receive queues, numbered from 0; there is no queue 1";
    assert_eq!(text, expected);
    let text = refusal(&bed, &format!("xdp:{FAR}@{}", u32::MAX));
    assert_eq!(text, expected.replace("queue 1", &format!("queue {}", u32::MAX)));
    let text = refusal(&bed, &format!("xdp:{FAR}?copy=zero"));
    assert_eq!(text, "v1: its driver cannot write into our memory; use copy=copy or copy=auto");
    assert_eq!(program_id(&bed), None);
}

#[test]
fn a_queue_or_an_interface_that_is_taken_is_named_with_the_mend() {
    let Some(bed) = bed_or_skip() else { return };
    let port = open_far(&bed, "native", "");
    let text = refusal(&bed, &format!("xdp:{FAR}"));
    assert_eq!(text, "v1@0 is in use by another XDP socket; to see whose: ss --xdp -p");
    // The first one is unaffected.
    let sent = send_to(&bed, &*port, &Frames::new(100, 60));
    check_closed_in_flight(&*port, sent);
    drop(port);
    // A program just started by another test may still hold its descriptors.
    assert_eq!(program_id(&bed), None);

    let (link, id) = bed.far.run(|| {
        let mut code = Assembler::new();
        code.mov(Register::R0, xdp_action::PASS).exit();
        let code = code.finish().unwrap();
        let program = Program::load(&code, &ProgramOptions::default()).unwrap();
        let index = XdpInterface::by_name(FAR).unwrap().link.index;
        let link = Link::attach_xdp(&program, index, XdpMode::Generic).unwrap();
        (link, attached_program(index).unwrap().unwrap().program_id)
    });
    for mode in ["auto", "native", "generic"] {
        let text = refusal(&bed, &format!("xdp:{FAR}?mode={mode}"));
        let expected = format!("XDP program {id} is attached, and it accepts no other");
        assert!(text.contains(&expected) && text.contains("xdp off"), "{mode}: {text}");
    }
    drop(link);
    drop(open_far(&bed, "native", ""));
    assert_eq!(program_id(&bed), None);
}

fn check_closed_in_flight(port: &dyn Port, sent: u64) {
    let account = port.account();
    let now = (account.offered, account.in_flight, account.lost.total());
    assert_eq!(now, (sent, sent, 0));
}

#[test]
fn a_deleted_interface_ends_the_port_with_its_ledger_closed() {
    for mode in MODES {
        let Some(bed) = bed_or_skip() else { return };
        let mut port = open_far(&bed, mode, "");
        let sent = send_to(&bed, &*port, &Frames::new(100, 60));
        bed.far.command("ip", &["link", "delete", FAR]).unwrap();
        let mut all = Vec::new();
        let outcome = lend_until(&mut *port, &mut all, |_, _| false);
        let is_named =
            matches!(outcome, Err(PortError::InterfaceGone { ref interface }) if interface == FAR);
        assert!(is_named, "{outcome:?}");
        assert!(numbers(&all).into_iter().eq(0..sent));
        check_closed(&*port, sent, sent);
        let state = port.lend(&mut Scratch::new(), 1).unwrap().state;
        assert_eq!(state, PortState::Ended);
    }
}

#[test]
fn an_interface_that_is_down_or_renamed_is_noted_and_comes_back() {
    for mode in MODES {
        let Some(bed) = bed_or_skip() else { return };
        let mut port = open_far(&bed, mode, "");
        let first = send_to(&bed, &*port, &Frames::new(100, 60));
        let mut all = Vec::new();
        rename_far(&bed, &mut *port, &mut all);
        let sent = send_to(&bed, &*port, &Frames { first, ..Frames::new(100, 60) });
        drain_into(&mut *port, &mut all);
        assert!(numbers(&all).into_iter().eq(0..first + sent), "{mode}");
        check_closed(&*port, first + sent, first + sent);
    }
}

#[test]
fn a_quick_restart_under_traffic_works_every_time() {
    let Some(bed) = bed_or_skip() else { return };
    under_load(&bed, || {
        for round in 0..20 {
            let mut port = open_far(&bed, MODES[round % 2], "");
            let mut all = Vec::new();
            lend_until(&mut *port, &mut all, |all, _| all.len() > 100).unwrap();
            if round % 3 == 0 {
                // Dropped without finishing, as by a program that exits.
                continue;
            }
            drain_into(&mut *port, &mut all);
            let account = port.account();
            let accounted = all.len() as u64 + account.lost.total();
            assert_eq!((account.offered, account.in_flight), (accounted, 0), "round {round}");
        }
    });
    assert_eq!(program_id(&bed), None);
}

#[test]
fn nothing_is_left_after_the_end() {
    let Some(bed) = bed_or_skip() else { return };
    for mode in MODES {
        let mut port = open_far(&bed, mode, "");
        assert!(program_id(&bed).is_some());
        let sent = send_to(&bed, &*port, &Frames::new(10, 60));
        assert_eq!(drain(&mut *port).len() as u64, sent);
        assert_eq!(program_id(&bed), None, "finished, and not dropped yet");
        drop(port);
        drop(open_far(&bed, mode, ""));
        assert_eq!(program_id(&bed), None);
    }
}

/// A tunnel's frames start with IP.
#[test]
fn what_frames_begin_with_is_the_interfaces() {
    let Some(bed) = bed_or_skip() else { return };
    let ip = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        bed.far.command("ip", &words).unwrap();
    };
    ip("tuntap add tun0 mode tun");
    ip("link set tun0 up");
    let options = OpenOptions::default();
    drop(try_open(&bed.far, "xdp:tun0", options.clone()).unwrap());
    let entries = options.table.entries_from(0);
    assert_eq!(entries.iter().map(|entry| entry.link).collect::<Vec<_>>(), [LinkType::RAW]);
}

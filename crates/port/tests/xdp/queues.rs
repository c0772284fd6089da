//! Several receive queues: a port each, all behind one program.

use burstline_log::Scratch;
use burstline_port::{Loss, Port, PortState};
use burstline_testbed::{Amount, Bed, Frames, Injector, InjectorOptions};

use crate::help::{
    MODES, bed_or_skip, check_closed, check_lost, drain, numbers, open, open_all, wait_for,
};

/// Injects numbered frames into one queue of the far end's `w1`.
fn inject(bed: &Bed, queue_index: u32, frames: &Frames) {
    let options = InjectorOptions { queue_index, ..InjectorOptions::numbered("w1", frames) };
    let count = frames.count;
    let injected = bed.far.run(move || {
        Injector::new(&options).unwrap().inject(Amount::Frames(count), Some(100_000)).unwrap()
    });
    assert_eq!(injected.offered, count);
}

fn end(ports: &mut [Box<dyn Port>]) {
    for port in ports {
        while port.lend(&mut Scratch::new(), 64).unwrap().state != PortState::Ended {}
    }
}

#[test]
fn each_queue_is_a_port_with_a_ledger_of_its_own() {
    let Some(bed) = bed_or_skip("each_queue_is_a_port_with_a_ledger_of_its_own") else { return };
    bed.connect_queues("w0", "w1", 1500, 4).unwrap();
    for mode in MODES {
        let mut ports = open_all(&bed, &format!("xdp:w1?mode={mode}"));
        let names: Vec<&str> = ports.iter().map(|port| port.info().name.as_str()).collect();
        assert_eq!(names, ["xdp:w1@0", "xdp:w1@1", "xdp:w1@2", "xdp:w1@3"]);
        for (queue, count) in (0..4).zip([100, 200, 300, 400]) {
            inject(&bed, queue, &Frames::new(count, 60));
        }
        for (port, count) in ports.iter_mut().zip([100, 200, 300, 400]) {
            wait_for(&**port, count);
            assert!(numbers(&drain(&mut **port)).into_iter().eq(0..count), "{mode}");
            check_closed(&**port, count, count);
        }
        end(&mut ports);
    }
}

#[test]
fn what_comes_by_a_queue_without_a_socket_reaches_the_host() {
    let test = "what_comes_by_a_queue_without_a_socket_reaches_the_host";
    let Some(bed) = bed_or_skip(test) else { return };
    bed.connect_queues("w0", "w1", 1500, 4).unwrap();
    for mode in MODES {
        let mut taking = open(&bed.far, &format!("xdp:w1@0?mode={mode}"));
        let mut host = open(&bed.far, "afpacket:w1?direction=in");
        inject(&bed, 0, &Frames::new(500, 60));
        inject(&bed, 2, &Frames { first: 1_000, ..Frames::new(700, 60) });
        wait_for(&*taking, 500);
        assert_eq!(drain(&mut *taking).len(), 500);
        wait_for(&*host, 700);
        assert!(numbers(&drain(&mut *host)).into_iter().eq(1_000..1_700), "{mode}");
    }
}

#[test]
fn a_port_that_has_finished_leaves_its_packets_to_the_host() {
    let Some(bed) = bed_or_skip("a_port_that_has_finished_leaves_its_packets_to_the_host") else {
        return;
    };
    bed.connect_queues("w0", "w1", 1500, 2).unwrap();
    for mode in MODES {
        let mut ports = open_all(&bed, &format!("xdp:w1?mode={mode}"));
        inject(&bed, 0, &Frames::new(50, 60));
        let mut host = open(&bed.far, "afpacket:w1?direction=in");
        ports[0].finish().unwrap();
        // The program is still there for the other queue, and passes these.
        inject(&bed, 0, &Frames { first: 50, ..Frames::new(70, 60) });
        wait_for(&*ports[0], 120);
        check_lost(&*ports[0], Loss::Passed, 70);
        wait_for(&*host, 70);
        assert!(numbers(&drain(&mut *host)).into_iter().eq(50..120), "{mode}");
        assert!(numbers(&drain(&mut *ports[0])).into_iter().eq(0..50), "{mode}");
        check_closed(&*ports[0], 120, 50);
        // What is passed after the end is none of the port's any more.
        inject(&bed, 0, &Frames::new(30, 60));
        check_closed(&*ports[0], 120, 50);
        inject(&bed, 1, &Frames::new(40, 60));
        wait_for(&*ports[1], 40);
        assert_eq!(drain(&mut *ports[1]).len(), 40);
    }
}

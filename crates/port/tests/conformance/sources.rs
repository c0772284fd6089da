//! Properties of every source.

use burstline_log::Scratch;
use burstline_port::PortState;

use crate::backends::{PACKETS, sources};
use crate::common::{Folder, Got, check_ledger, drain_by_lending, drain_by_receiving, log};

#[test]
fn lending_and_receiving_deliver_the_same_whatever_the_budget() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        let drained = |budget| drain_by_lending(&mut *(backend.open)(), budget);
        let reference = backend.comparable(drained(u64::MAX));
        let budgets: &[u64] = if backend.is_slow { &[7] } else { &[1, 7, 1024] };
        for &budget in budgets {
            // Random idling depends on the calls, and so do the drops.
            if backend.name == "idle" {
                continue;
            }
            let lent = backend.comparable(drained(budget));
            assert!(lent == reference, "{}: lend {budget}", backend.name);
            let received = drain_by_receiving(&mut *(backend.open)(), budget, 64 << 10, 8);
            let received = backend.comparable(received);
            assert!(received == reference, "{}: receive {budget}", backend.name);
        }
    }
}

#[test]
fn what_was_lent_can_be_lent_again_and_is_the_same() {
    let folder = Folder::new();
    let mut able = 0;
    for backend in sources(&folder) {
        let (mut port, mut scratch) = ((backend.open)(), Scratch::new());
        let is_able = port.lent(&mut scratch).is_some();
        able += usize::from(is_able);
        let mut is_over = !is_able;
        while !is_over {
            let lent = port.lend(&mut scratch, 300).unwrap();
            is_over = lent.state == PortState::Ended;
            let first: Vec<Got> = lent.burst.packets().map(|packet| Got::new(&packet)).collect();
            for _ in 0..2 {
                let again = port.lent(&mut scratch).unwrap();
                let again: Vec<Got> = again.packets().map(|packet| Got::new(&packet)).collect();
                assert!(again == first, "{}", backend.name);
            }
        }
    }
    assert!(able >= 15, "{able} backends can");
}

#[test]
fn every_packet_is_delivered_or_lost_by_name() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        let mut port = (backend.open)();
        let delivered = drain_by_lending(&mut *port, 100).len() as u64;
        let account = port.account();
        assert_eq!(account.offered, PACKETS, "{}", backend.name);
        assert_eq!(delivered + account.lost.total(), PACKETS, "{}", backend.name);
        assert_eq!((account.in_flight, account.is_damaged), (0, false), "{}", backend.name);
        let is_lossy = ["drops", "idle"].contains(&backend.name.as_str());
        assert_eq!(account.lost.total() > 0, is_lossy, "{}", backend.name);
    }
}

#[test]
fn a_log_that_is_full_loses_nothing_and_keeps_the_order() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        if backend.name == "idle" {
            continue;
        }
        let reference = drain_by_lending(&mut *(backend.open)(), 7);
        let received = drain_by_receiving(&mut *(backend.open)(), u64::MAX, 4096, 3);
        let is_same = backend.comparable(received) == backend.comparable(reference);
        assert!(is_same, "{}", backend.name);
    }
}

#[test]
fn a_packet_that_the_log_refused_can_be_lent() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        let mut port = (backend.open)();
        let (_log, mut writer, mut reader) = log(4096, 3);
        let mut delivered = 0;
        loop {
            let received = port.receive(&mut writer, u64::MAX).unwrap();
            delivered += received.packets;
            check_ledger(&*port, delivered);
            if received.state == PortState::Blocked {
                let mut scratch = Scratch::new();
                let lent = port.lend(&mut scratch, 5).unwrap();
                delivered += lent.burst.len() as u64;
                check_ledger(&*port, delivered);
                writer.publish();
                while reader.next_burst().is_some() {}
            }
            if received.state == PortState::Ended {
                break;
            }
        }
        let lost = port.account().lost.total();
        assert_eq!(delivered + lost, PACKETS, "{}", backend.name);
    }
}

#[test]
fn a_budget_is_kept_exactly_and_no_more_is_taken_in() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        if backend.is_live || ["drops", "idle"].contains(&backend.name.as_str()) {
            continue;
        }
        for limit in [1, 7, 1024, PACKETS] {
            let (mut port, mut scratch) = ((backend.open)(), Scratch::new());
            let mut left = limit;
            while left > 0 {
                left -= port.lend(&mut scratch, left).unwrap().burst.len() as u64;
            }
            let account = port.account();
            let now = (account.offered, account.in_flight);
            assert_eq!(now, (limit, 0), "{}: lend {limit}", backend.name);
            let mut port = (backend.open)();
            let (_log, mut writer, mut reader) = log(64 << 10, 8);
            let mut left = limit;
            while left > 0 {
                left -= port.receive(&mut writer, left).unwrap().packets;
                writer.publish();
                while reader.next_burst().is_some() {}
            }
            let account = port.account();
            let now = (account.offered, account.in_flight);
            assert_eq!(now, (limit, 0), "{}: receive {limit}", backend.name);
            assert_eq!(port.receive(&mut writer, 0).unwrap().packets, 0);
        }
    }
}

#[test]
fn a_source_that_ended_stays_so() {
    let folder = Folder::new();
    for backend in sources(&folder) {
        let mut port = (backend.open)();
        drain_by_lending(&mut *port, u64::MAX);
        let (account, mut scratch) = (port.account(), Scratch::new());
        let (_log, mut writer, _reader) = log(4096, 3);
        let mut ends = 0;
        // The idling one may report that first.
        for _ in 0..50 {
            let lent = port.lend(&mut scratch, 5).unwrap();
            assert!(lent.burst.is_empty(), "{}", backend.name);
            let state = lent.state;
            assert!(matches!(state, PortState::Ended | PortState::Idle), "{}", backend.name);
            let received = port.receive(&mut writer, 5).unwrap();
            assert_eq!(received.packets, 0, "{}", backend.name);
            ends += u32::from(received.state == PortState::Ended);
        }
        assert!(ends > 0, "{}", backend.name);
        assert_eq!(port.account(), account, "{}", backend.name);
    }
}

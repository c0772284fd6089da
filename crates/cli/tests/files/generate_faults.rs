//! Faults while packets are sent, and an end at any moment: the ledger is exact.

use crate::support::live::{Live, wait_until};
use crate::support::{Directory, PROGRAM, assert_closed, is_root, last_object, other_or_skip};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, NEAR};
use serde_json::Value;

/// Starts a `generate` on the near host that sends through one of its interfaces.
fn start(bed: &Bed, directory: &Directory, flags: &str) -> Live {
    Live::start_on(&bed.near, directory, &format!("generate {flags}"))
}

/// Waits until an interval reports delivered packets.
fn wait_until_it_sends(sender: &Live) {
    wait_until("it sends", || {
        let text = sender.text();
        let last = text.lines().rfind(|line| line.contains("\"interval\""));
        last.is_some_and(|line| !line.contains("\"delivered\":0,"))
    });
}

/// Waits for its end, and returns its success and its closed report.
fn end(sender: Live) -> (bool, Value) {
    let (is_success, report) = sender.end();
    assert_eq!(report["total"]["in_flight"], 0, "{report}");
    (is_success, report)
}

/// Returns the sinks that send through the near end.
fn sinks() -> Vec<&'static str> {
    if is_root() { vec!["afpacket", "xdp"] } else { vec!["afpacket"] }
}

#[test]
fn an_interrupt_at_top_speed_leaves_nothing_in_flight() {
    let Some(bed) = Bed::or_skip() else { return };
    for sink in sinks() {
        let directory = Directory::new(&format!("generate-stop-{sink}"));
        let before = bed.far.counts(FAR).received;
        let sender = start(&bed, &directory, &format!("-o {sink}:{NEAR}"));
        wait_until_it_sends(&sender);
        sender.interrupt();
        let (is_success, report) = end(sender);
        assert!(is_success, "{sink}: {report}");
        let arrived = bed.far.counts(FAR).received - before;
        assert_eq!(report["total"]["delivered"], arrived, "{sink}: {report}");
    }
}

#[test]
fn a_peer_that_is_deleted_ends_it_by_name() {
    for sink in sinks() {
        let Some(bed) = Bed::or_skip() else { return };
        let directory = Directory::new(&format!("generate-gone-{sink}"));
        let sender = start(&bed, &directory, &format!("-o {sink}:{NEAR} --rate 20k"));
        wait_until_it_sends(&sender);
        // Deleting one end of a veth pair removes the other.
        bed.far.command("ip", &["link", "delete", FAR]).unwrap();
        let (is_success, report) = end(sender);
        let error = report["errors"][0].as_str().unwrap_or_default();
        assert!(!is_success && error.contains("is gone"), "{sink}: {report}");
    }
}

#[test]
fn a_link_that_is_down_for_seconds_costs_packets_by_name_and_it_goes_on() {
    let Some(bed) = Bed::or_skip() else { return };
    for sink in sinks() {
        let directory = Directory::new(&format!("generate-down-{sink}"));
        let sender = start(&bed, &directory, &format!("-o {sink}:{NEAR} --rate 20k"));
        wait_until_it_sends(&sender);
        bed.near.command("ip", &["link", "set", NEAR, "down"]).unwrap();
        wait_until("losses are printed", || sender.text().contains("\"link_down\":"));
        bed.near.command("ip", &["link", "set", NEAR, "up"]).unwrap();
        let before = bed.far.counts(FAR).received;
        wait_until("it sends again", || bed.far.counts(FAR).received > before + 1000);
        sender.interrupt();
        let (_, report) = end(sender);
        assert!(report["total"]["lost"]["link_down"].as_u64() > Some(0), "{sink}: {report}");
        assert_eq!(report["errors"].as_array().map_or(0, Vec::len), 0, "{sink}: {report}");
    }
}

#[test]
fn what_is_longer_than_the_mtu_or_a_frame_is_counted_and_told() {
    let Ok(bed) = Bed::with_mtu(9000) else {
        let _ = Bed::or_skip();
        return;
    };
    // Losing everything is a failure, which the shell hides.
    let generate = |flags: &str| {
        let script = format!("{PROGRAM} generate {flags} || true");
        bed.near.command("sh", &["-c", &script]).unwrap()
    };
    let sent = |flags: &str| {
        let report = last_object(&generate(&format!("{flags} --rate 10k --json")));
        assert_closed(&report);
        let of = |value: &Value| value.as_u64().unwrap_or(0);
        (of(&report["total"]["delivered"]), of(&report["total"]["lost"]["too_long"]))
    };
    // Half of these fit: an XDP socket's frame has 2048 or 4096 bytes.
    let packets = "--packets 100 --size 1000,9018 --order cycle";
    assert_eq!(sent(&format!("-o {NEAR} {packets}")), (100, 0));
    if is_root() {
        let (delivered, too_long) = sent(&format!("-o xdp:{NEAR} {packets}"));
        assert!(delivered > 20 && too_long > 20 && delivered + too_long == 100, "{delivered}");
        assert_eq!(sent(&format!("-o xdp:{NEAR}?frame=4096 --packets 9 --size 4000")), (9, 0));
        let told = generate(&format!("-o xdp:{NEAR} --packets 3 --size 4000"));
        assert!(told.ends_with("3 of 3 packets lost (too_long), 0 unaccounted\n"), "{told}");
    }
    bed.near.command("ip", &["link", "set", NEAR, "mtu", "600"]).unwrap();
    for sink in sinks() {
        assert_eq!(sent(&format!("-o {sink}:{NEAR} --packets 50 --size 1000")), (0, 50), "{sink}");
    }
}

#[test]
fn who_may_not_inject_is_told_what_it_takes() {
    let job = [PROGRAM, "generate", "-o", "inject:lo", "--packets", "10"];
    // Root of a user namespace has no rights on the machine.
    let words = [&["-Urn"], &job[..]].concat();
    let Some(refused) = other_or_skip("unshare", &words) else { return };
    if refused.stderr.contains("unshare") {
        return skip(format!("no user namespaces here: {}", refused.stderr));
    }
    let is_told = refused.stderr.contains("cap_bpf,cap_net_admin,cap_sys_admin+ep");
    assert!(refused.code == Some(1) && is_told, "{}", refused.stderr);
    assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
}

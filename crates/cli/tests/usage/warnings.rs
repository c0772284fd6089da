//! A port that takes packets away warns when it opens, and names the fix.

use crate::support::{PROGRAM, is_root, last_object, other};
use burstline_skip::skip;
use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Host, NEAR};

/// A program that accepts nothing, as printed by `tcpdump -ddd`.
const NOTHING: &str = "'1\n6 0 0 0\n'";

/// Returns a job's standard error.
fn said(host: &Host, job: &str) -> Vec<String> {
    let script = format!("{PROGRAM} {job} --duration 10ms 2>&1 > /dev/null");
    let said = host.command("sh", &["-c", &script]).unwrap();
    said.lines().map(str::to_owned).collect()
}

fn report(host: &Host, job: &str) -> serde_json::Value {
    let script = format!("{PROGRAM} {job} --duration 10ms --json 2> /dev/null");
    last_object(&host.command("sh", &["-c", &script]).unwrap())
}

/// Returns a bed if tests may take packets.
fn bed() -> Option<Bed> {
    if !is_root() {
        skip("xdp: needs root");
        return None;
    }
    Bed::or_skip()
}

#[test]
fn an_address_that_hears_nothing_any_more_is_warned_of() {
    let Some(bed) = bed() else { return };
    let warning = format!(
        "the host does not receive packets for {FAR_ADDRESS} ({FAR}) while xdp: takes all packets \
         of {FAR}: --only EXPR takes some of them, or use an interface without an address"
    );
    let line = format!("burstline: warning: {warning}");
    for job in [format!("count xdp:{FAR}"), format!("bounce xdp:{FAR} null:")] {
        assert!(said(&bed.far, &job).contains(&line), "{job}: {:?}", said(&bed.far, &job));
        let report = report(&bed.far, &job);
        let notes = report["notes"].as_array().unwrap();
        assert_eq!(notes.iter().filter(|note| **note == *warning).count(), 1, "{job}: {report}");
    }
    // Nothing is taken, or not everything.
    let some = format!("count xdp:{FAR} --only {NOTHING}");
    for job in [some, format!("count {FAR}"), format!("count xdp:{FAR} --quiet")] {
        let said = said(&bed.far, &job);
        assert!(!said.iter().any(|line| line.contains("warning")), "{job}: {said:?}");
        assert!(!job.contains("--quiet") || said.is_empty(), "{job}: {said:?}");
    }
    let doctor = bed.far.command("sh", &["-c", &format!("{PROGRAM} doctor ports; :")]).unwrap();
    assert!(doctor.contains(&format!("does not receive packets for {FAR_ADDRESS}")), "{doctor}");
}

#[test]
fn checksums_that_nobody_adds_are_warned_of_where_packets_are_sent_on() {
    let Some(bed) = bed() else { return };
    for [one, other] in [["a0", "a1"], ["b0", "b1"]] {
        let pair = ["link", "add", one, "type", "veth", "peer", "name", other];
        bed.near.command("ip", &pair).unwrap();
        for end in [one, other] {
            bed.near.command("ip", &["link", "set", end, "up"]).unwrap();
        }
    }
    let about = |job: &str| -> Vec<String> {
        let said = said(&bed.near, job).into_iter();
        said.filter(|line| line.contains("ethtool -K ")).collect()
    };
    let both = ["a", "b"].map(|end| {
        format!(
            "burstline: warning: packets from {end}1, the other end of {end}0, lack TCP and UDP \
             checksums, and xdp: adds none: TCP hangs until ethtool -K {end}1 tx off"
        )
    });
    assert_eq!(about("bounce xdp:a0 xdp:b0 --both"), both);
    // Only the port that takes packets matters: packets leaving by b0 are unchanged.
    for job in ["bounce xdp:a0 xdp:b0", "bounce xdp:a0 b0", "capture xdp:a0 -o b0"] {
        assert_eq!(about(job), both[..1], "{job}");
    }
    let nothing_is_sent = ["count xdp:a0", "capture xdp:a0 -w /dev/null", "bounce xdp:a0 null:"];
    for job in nothing_is_sent.into_iter().chain(["bounce a0 xdp:b0"]) {
        assert_eq!(about(job), [""; 0], "{job}");
    }
    // If the other end cannot be inspected, the warning names it.
    let far = about(&format!("bounce xdp:{NEAR} xdp:a0"));
    let end = format!("the other end of {NEAR} ({FAR}, in another network namespace)");
    assert!(far.len() == 1 && far[0].contains(&end), "{far:?}");
    assert!(far[0].ends_with(&format!("run there ethtool -K {FAR} tx off")), "{far:?}");
    if other("ethtool", &["--version"]).is_some() {
        bed.near.command("ethtool", &["-K", "a1", "tx", "off"]).unwrap();
        assert_eq!(about("bounce xdp:a0 xdp:b0 --both"), both[1..]);
    }
}

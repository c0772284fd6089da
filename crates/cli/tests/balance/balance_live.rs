//! Workers that are network interfaces. Needs root, or `unshare -Urn`; otherwise skipped.

use crate::support::Directory;
use crate::support::live::{Live, send_frames, wait_until};
use burstline_testbed::{Bed, FAR};

const FRAMES: u64 = 20_000;

#[test]
fn a_worker_whose_interface_is_deleted_loses_its_own_packets() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("balance-live");
    for worker in ["w0", "w1"] {
        let other = format!("{worker}p");
        let link = ["link", "add", worker, "type", "veth", "peer", "name", &other];
        bed.far.command("ip", &link).unwrap();
        for end in [worker, &other] {
            bed.far.command("ip", &["link", "set", end, "up"]).unwrap();
        }
    }
    let job =
        format!("balance '{FAR}?direction=in' --workers 2 --hash round-robin -o 'afpacket:w{{k}}'");
    let live = Live::start(&bed, &directory, &job);
    let came = |worker: &str| bed.far.counts(worker).received;
    let [before, before_1] = ["w0p", "w1p"].map(came);
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    wait_until("half of the frames came to each worker", || {
        came("w0p") - before >= FRAMES / 2 && came("w1p") - before_1 >= FRAMES / 2
    });
    bed.far.command("ip", &["link", "del", "w1"]).unwrap();
    assert_eq!(send_frames(&bed, FRAMES), FRAMES);
    wait_until("half of the others too", || came("w0p") - before >= FRAMES);
    live.interrupt();
    let (is_success, report) = live.end();
    assert!(!is_success, "a sink broke: {report}");
    let workers = &report["balance"]["groups"][0]["workers"];
    assert_eq!(
        (&workers[0]["offered"], &workers[0]["delivered"]),
        (&FRAMES.into(), &FRAMES.into())
    );
    let lost = workers[1]["lost"]["link_down"].as_u64().unwrap();
    assert!((1..=FRAMES / 2).contains(&lost), "{report}");
    assert_eq!((&workers[1]["offered"], &workers[1]["unaccounted"]), (&FRAMES.into(), &0.into()));
}

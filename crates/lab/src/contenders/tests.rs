use super::*;

#[test]
fn names_are_one_each_and_every_work_has_somebody() {
    let mut names = names();
    names.sort_unstable();
    let before = names.len();
    names.dedup();
    assert_eq!(names.len(), before);
    for work in Work::ALL {
        assert!(all().any(|adapter| adapter.works().contains(&work)), "{work}");
    }
}

/// The adapters check the sums of packets that were handed over, and the numbers of merged and
/// spread ones; a wrong one is an error.
#[test]
fn programs_on_dpdk_itself_run_here_or_say_how_to_build_them() {
    for (name, work, case) in [
        ("dpdk-pipeline", Work::Pipeline, None),
        ("dpdk-pipeline-by-driver", Work::Pipeline, None),
        ("dpdk-merge", Work::Merge, Some("idle")),
        ("dpdk-merge", Work::Merge, Some("one-core")),
        ("dpdk-spread", Work::Spread, Some("2")),
    ] {
        let adapter = named(name).unwrap();
        if let Err(why) = can_do(adapter, work) {
            assert!(why.contains("make dpdk") && !cfg!(feature = "dpdk"), "{why}");
            continue;
        }
        let mpps = short_turn(adapter, work, case).figures["mpps"].value;
        assert!(mpps > 0.0, "{name} {case:?}: {mpps}");
    }
}

/// A record has to show in which pages the packets of each side were.
#[test]
fn contenders_with_packets_in_this_process_say_their_pages() {
    for (name, work, case) in [
        ("burstline-pipeline", Work::Pipeline, None),
        ("scattered-pool", Work::Pipeline, None),
        ("scattered-lean", Work::Pipeline, None),
        ("bare-layout", Work::Pipeline, None),
        ("bare-movement", Work::Pipeline, None),
        ("burstline-spread-copy", Work::Spread, Some("2")),
        ("scattered-spread", Work::Spread, Some("2")),
        ("burstline-gen", Work::Make, None),
        ("sensor-contiguous", Work::Match, Some("0+1")),
        ("sensor-scattered", Work::Match, Some("1+1")),
    ] {
        let adapter = named(name).unwrap();
        if let Err(why) = can_do(adapter, work) {
            assert!(work == Work::Match, "{name}: {why}"); // needs Hyperscan
            continue;
        }
        let sample = short_turn(adapter, work, case);
        let page = sample.page.unwrap_or_else(|| panic!("{name} says no pages"));
        assert_eq!(sample.figures["page_bytes"].value, page.bytes() as f64, "{name}");
    }
}

/// A side that takes more frames than were injected is an error of its adapter.
#[test]
#[cfg(feature = "dpdk")]
fn live_frames_come_through_drivers_of_dpdk_and_of_ours() {
    if burstline_testbed::Bed::or_skip().is_none() {
        return;
    }
    for (name, work) in [
        ("dpdk-pipeline", Work::PipelineLive),
        ("burstline-pipeline", Work::PipelineLive),
        ("dpdk-merge-ordered", Work::MergeLive),
        ("burstline-merge", Work::MergeLive),
    ] {
        let sample = short_turn(named(name).unwrap(), work, None);
        let mpps = sample.figures["mpps"].value;
        assert!(mpps > 0.0, "{name}: {mpps}");
    }
}

/// The pieces of the next test, in a process of their own: they start EAL without huge pages.
#[test]
#[cfg(feature = "dpdk")]
#[ignore = "another test runs it"]
fn pieces_in_a_process() {
    for piece in [
        "merge-log",
        "merge-mbuf",
        "merge-mbuf-ordered",
        "log-turns-60",
        "mbuf-turns-60",
        "log-driver-turns-60",
        "mbuf-driver-turns-60",
        "spread-copy",
        "spread-share",
        "spread-mbuf",
    ] {
        assert_eq!(do_rounds(piece, 2), Some(Ok(())), "{piece}");
    }
    assert_eq!(do_rounds("mbuf-turns-59", 2), None, "too short for a packet");
}

/// Pieces whose instructions valgrind counts; a packet or an mbuf that is missing is an error.
#[test]
#[cfg(feature = "dpdk")]
fn pieces_whose_instructions_are_counted_run_whole() {
    let name = "contenders::tests::pieces_in_a_process";
    let mut pieces = std::process::Command::new(std::env::current_exe().unwrap());
    let done = pieces.args([name, "--exact", "--ignored"]).output().unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
fn memory_is_touched_in_order_and_in_none() {
    for name in ["pages-4k", "layout-contiguous", "layout-shuffled"] {
        let sample = short_turn(named(name).unwrap(), Work::Touch, None);
        assert!(sample.figures["packets"].value >= f64::from(PACKETS), "{name}");
    }
}

/// Few packets: these tests are not optimised.
const PACKETS: u32 = 1 << 13;

/// Runs a contender for a few packets.
fn short_turn(adapter: &dyn Adapter, work: Work, case: Option<&str>) -> Sample {
    let cores = burstline_sys::affinity::allowed_cores().unwrap();
    let places = Places { generator: cores[0], contender: vec![cores[cores.len() - 1]] };
    let stop = Arc::new(AtomicBool::new(false));
    let searches = Searches::default();
    let job =
        Job { case, packets: Some(PACKETS.into()), ..Job::new(work, places, &stop, &searches) };
    // On a separate thread, because it pins its thread.
    measure(adapter, &job).unwrap()
}

#[test]
fn who_looks_at_no_address_is_a_bounce_beside_switches() {
    for work in [Work::Switch, Work::Latency] {
        let all = all().filter(|adapter| adapter.works().contains(&work));
        let (bounces, switches): (Vec<_>, Vec<_>) =
            all.partition(|adapter| role(*adapter, work).is_some());
        let names = |all: Vec<&dyn Adapter>| all.iter().map(|a| a.name()).collect::<Vec<_>>();
        assert_eq!(names(bounces), ["burstline-xdp", "testpmd"]);
        let all = ["burstline-switch", "linux-bridge", "ovs-userspace", "ovs-dpdk"];
        assert_eq!(names(switches), all);
    }
    assert_eq!(role(named("testpmd").unwrap(), Work::Bounce), None, "there it is the work");
}

/// Neither our program nor our library is beside this test.
#[test]
fn a_missing_part_of_our_own_build_is_an_error_by_itself() {
    let has_parts = |name| named(name).unwrap().has_parts();
    assert!(has_parts("suricata-burst").unwrap_err().contains("is missing: cargo build"));
    assert_eq!(has_parts("suricata-afpacket"), Ok(()));
}

#[test]
fn who_cannot_do_a_work_says_what_it_can() {
    let testpmd = named("testpmd").unwrap();
    let said = can_do(testpmd, Work::Balance).unwrap_err();
    assert_eq!(
        said,
        "testpmd does not do balance, only count, bounce, switch, latency, generate, duplex, \
         rfc2544"
    );
    assert!(named("snort").is_none());
}

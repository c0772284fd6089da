//! Tests that run another process: without privileges, and until sudden death.

use std::fs;
use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_port::{OpenOptions, Source};
use burstline_testbed::{Bed, FAR, Frames, Program};

use crate::help::{MODES, bed_or_skip, drain, open_far, send_to, under_load};

const CHILD: &str = "BURSTLINE_TEST_ADDRESS";

/// Longer than all other tests of this program take. Each of them may use huge pages.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs the test [`the_child`] on the far host, through `wrapper`.
fn start_child(bed: &Bed, wrapper: &[&str], address: &str) -> Program {
    let program = std::env::current_exe().unwrap();
    let test = ["--exact", "death::the_child", "--ignored", "--nocapture"];
    let all = [wrapper, &[program.to_str().unwrap()], &test].concat();
    bed.far.start(all[0], &all[1..], &[(CHILD, address)]).unwrap()
}

/// Not a test: other tests run it in another process.
#[test]
#[ignore = "others run it"]
fn the_child() {
    let Ok(address) = std::env::var(CHILD) else { return };
    match crate::common::source(&address, &OpenOptions::default()) {
        Ok(mut port) => {
            println!("opened {}", port.info().name);
            take_for_ever(&mut *port);
        }
        Err(error) => println!("refused {error}"),
    }
}

fn take_for_ever(port: &mut dyn Source) {
    let (mut scratch, mut has_some) = (Scratch::new(), false);
    loop {
        let lent = port.lend(&mut scratch, 100).unwrap();
        if !has_some && !lent.burst.is_empty() {
            has_some = true;
            println!("it has some");
        }
    }
}

#[test]
fn without_privilege_the_error_has_the_mend() {
    let Some(bed) = bed_or_skip() else { return };
    let refusal = |bounds: &str, query: &str| {
        let wrapper = ["setpriv", "--bounding-set", bounds, "--inh-caps", "-all"];
        let child = start_child(&bed, &wrapper, &format!("xdp:{FAR}?{query}"));
        let (succeeded, text) = child.finish().unwrap();
        assert!(succeeded, "{text}");
        text
    };
    let capabilities =
        "sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw,cap_ipc_lock+ep /";
    let able = "-all,+net_raw,+net_admin,+bpf";
    let fewer = "or cap_ipc_lock for this program, or frames=N with fewer";
    for (bounds, query, reason, mend) in [
        ("-all", "", "refused XDP sockets need CAP_NET_RAW", capabilities),
        ("-all,+net_raw", "frames=64", "not permitted", capabilities),
        // Rights are checked first: without them a higher limit does not help.
        ("-all,+net_raw", "frames=65536", "not permitted", capabilities),
        (able, "frames=65536", "no memory for 134217728 bytes of frames", fewer),
    ] {
        let text = refusal(bounds, query);
        assert!(text.contains(reason) && text.contains(mend), "{text}");
    }
}

/// Returns the number of free huge pages.
fn free_huge_pages() -> u64 {
    let list = fs::read_to_string("/proc/meminfo").unwrap();
    let of = |name| {
        let line = list.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok()).unwrap_or(0)
    };
    of("HugePages_Free:") - of("HugePages_Rsvd:")
}

#[test]
fn nothing_is_left_after_sigkill_under_load_and_the_next_start_works() {
    let Some(bed) = bed_or_skip() else { return };
    let free_before = free_huge_pages();
    under_load(&bed, || {
        for round in 0..6 {
            let address = format!("xdp:{FAR}?mode={}", MODES[round % 2]);
            let mut child = start_child(&bed, &["env"], &address);
            assert!(child.wait_for("it has some").unwrap(), "round {round}");
            child.kill();
            let text = bed.far.command("ip", &["-details", "link", "show", FAR]).unwrap();
            assert!(!text.contains("xdp"), "{text}");
        }
    });
    let start = Instant::now();
    // Other tests may use some at the moment.
    while free_huge_pages() < free_before {
        assert!(start.elapsed() < PATIENCE, "{} of {free_before}", free_huge_pages());
        std::thread::yield_now();
    }
    let mut port = open_far(&bed, "native", "");
    let sent = send_to(&bed, &*port, &Frames::new(100, 60));
    assert_eq!(drain(&mut *port).len() as u64, sent);
}

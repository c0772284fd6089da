//! Cost of the driver, in instructions. Prints, and asserts the documented limits:
//! `cargo test --release -p burstline-nicsim --test cost -- --ignored --nocapture`

#![forbid(unsafe_code)]

use std::process::Command;

use burstline_nicsim::experiment::{Forwarding, Reception};
use burstline_nicsim::pcie::Bus;
use burstline_nicsim::{Mode, Settings};
use burstline_skip::skip;

/// A 64-byte frame without its FCS.
const LENGTH: usize = 60;
/// Packets per step of the device: what the driver finds in one poll.
const BATCH: u64 = 256;

/// Runs device and driver in turns.
fn run(work: &str, mode: Mode, steps: u64) {
    let settings = Settings::new(mode, Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap());
    let settings = Settings { ring: 1024, log_bytes: 16 << 20, ..settings };
    let frames: Vec<Vec<u8>> = (0..1024).map(|number| vec![number as u8; LENGTH]).collect();
    let cost = if work == "receive" {
        let mut reception = Reception::new(&settings, &frames).unwrap();
        (0..steps).for_each(|_| reception.step());
        reception.cost
    } else {
        let mut forwarding = Forwarding::new(&settings, &frames).unwrap();
        (0..steps).for_each(|_| forwarding.step());
        forwarding.cost
    };
    assert_eq!(cost.packets, steps * BATCH);
}

/// Tells a copy of this program what to run.
const TASK: &str = "BURSTLINE_NICSIM_COST_TASK";

#[test]
#[ignore = "run it in release mode, by name; needs valgrind"]
fn instructions_of_a_packet() {
    if let Ok(task) = std::env::var(TASK) {
        let words: Vec<&str> = task.split(',').collect();
        return run(words[0], Mode::named(words[1]).unwrap(), words[2].parse().unwrap());
    }
    for work in ["receive", "forward"] {
        let mut baseline = None;
        for mode in Mode::ALL {
            let [Some(few), Some(more)] = [10, 110].map(|steps| instructions(work, mode, steps))
            else {
                return skip("valgrind is not installed");
            };
            let one = (more - few) as f64 / (100 * BATCH) as f64;
            let ratio = one / *baseline.get_or_insert(one);
            println!(
                "{work:<8} {mode:<10} {one:6.1} instructions a packet, {ratio:.3} of writeback"
            );
            let most = match mode {
                Mode::Inline if work == "receive" => 0.8,
                Mode::Contiguous if work == "receive" => 0.3,
                _ => 1.0,
            };
            assert!(ratio <= most, "at most {most} was promised");
        }
    }
}

/// Returns the instructions of the driver's part in a run of this program under callgrind.
fn instructions(work: &str, mode: Mode, steps: u32) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(format!("--toggle-collect=*{work}_part*"))
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--test-threads=1", "instructions_of_a_packet"])
        .env(TASK, format!("{work},{mode},{steps}"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :")).expect(&text);
    line.rsplit(' ').next()?.parse().ok()
}

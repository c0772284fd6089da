//! What the driver costs, and what keeping packets costs. Prints, asserts nothing about time:
//! `cargo test --release -p burstline-nicsim --test cost -- --ignored --nocapture`

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_nicsim::pcie::Bus;
use burstline_nicsim::{Assembly, Carousel, Mode, Receiver, Room, Sending, Settings};

/// A 64-byte frame without its FCS.
const LENGTH: usize = 60;
/// Packets of a step of the device: what the driver finds at a poll.
const BATCH: u64 = 256;

fn card(mode: Mode) -> Assembly {
    let settings = Settings::new(mode, Bus::new("3.0x8".parse().unwrap(), 256, 512).unwrap());
    let settings = Settings { ring: 1024, log_bytes: 16 << 20, ..settings };
    let frames: Vec<Vec<u8>> = (0..1024).map(|number| vec![number as u8; LENGTH]).collect();
    let wire = Carousel::new(frames.iter().map(|frame| &frame[..]));
    let room = Room::create(&settings, true, false).unwrap();
    Assembly::new(&settings, room, (Box::new(wire), Sending::Nothing), 0, None)
}

/// Receives and counts.
#[inline(never)]
fn driver_part(receiver: &mut Receiver, scratch: &mut Scratch) -> (u64, u64) {
    let burst = receiver.lend(scratch, 1024);
    let bytes = burst.worklist().iter().map(|desc| u64::from(desc.length())).sum();
    (burst.len() as u64, bytes)
}

/// Runs device and driver in turns. Returns the packets.
fn run(card: &mut Assembly, steps: u64) -> u64 {
    let (mut scratch, mut packets, mut bytes) = (Scratch::new(), 0, 0);
    for _ in 0..steps {
        card.device.step();
        let (more, more_bytes) = driver_part(&mut card.receivers[0], black_box(&mut scratch));
        packets += more;
        bytes += more_bytes;
    }
    assert_eq!((packets, bytes), (steps * BATCH, steps * BATCH * LENGTH as u64));
    packets
}

/// Says to a copy of this program which mode to run.
const TASK: &str = "BURSTLINE_NICSIM_COST_TASK";

#[test]
#[ignore = "a measurement: run it in release mode, by name; needs valgrind"]
fn instructions_of_a_packet() {
    if let Ok(task) = std::env::var(TASK) {
        let (mode, steps) = task.split_once(',').unwrap();
        let mode = Mode::ALL.into_iter().find(|known| known.name() == mode).unwrap();
        run(&mut card(mode), steps.parse().unwrap());
        return;
    }
    let mut baseline = None;
    for mode in Mode::ALL {
        let [Some(few), Some(more)] = [10, 110].map(|steps| instructions(mode, steps)) else {
            println!("left out: valgrind is not installed");
            return;
        };
        let one = (more - few) as f64 / (100 * BATCH) as f64;
        let baseline = *baseline.get_or_insert(one);
        println!("{mode:<10} {one:6.1} instructions a packet, {:.3} of write-back", one / baseline);
    }
}

/// Instructions of `driver_part` in a run of this program under callgrind.
fn instructions(mode: Mode, steps: u32) -> Option<u64> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg("--toggle-collect=*driver_part*")
        .arg(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", "--test-threads=1", "instructions_of_a_packet"])
        .env(TASK, format!("{mode},{steps}"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = text.lines().find(|line| line.contains("Collected :")).expect(&text);
    line.rsplit(' ').next()?.parse().ok()
}

/// An application keeps one packet in `every`, the last `KEPT` of them.
const KEPT: usize = 256;

#[test]
#[ignore = "a measurement: run it in release mode, by name"]
fn memory_and_rate_of_keeping_one_packet_in_k() {
    println!("kept are the last {KEPT} of one packet in k, of {LENGTH} bytes");
    println!("{:>6} {:<22} {:>12} {:>16}", "k", "mode", "ns a packet", "bytes a kept one");
    for every in [1, 4, 16, 64, 256, 1024] {
        for mode in [Mode::Writeback, Mode::Inline] {
            let (ns, kept, buffers) = keep_buffers(mode, every);
            let bytes = buffers as f64 * 2048.0 / kept.max(1) as f64;
            println!("{every:>6} {:<22} {ns:>12.1} {bytes:>16.0}", mode.name());
        }
        let (ns, bytes) = keep_segments(every);
        println!("{every:>6} {:<22} {ns:>12.1} {bytes:>16.0}", "contiguous, segments");
        let ns = keep_copies(every);
        println!("{every:>6} {:<22} {ns:>12.1} {LENGTH:>16}", "contiguous, copied out");
    }
}

const STEPS: u64 = 4000;

/// Time of the driver's part, with `keep` for each packet that is kept.
fn timed(mode: Mode, mut part: impl FnMut(&mut Receiver, &mut Scratch)) -> f64 {
    let (mut card, mut scratch, mut time) = (card(mode), Scratch::new(), Duration::ZERO);
    for _ in 0..STEPS {
        card.device.step();
        let start = Instant::now();
        part(&mut card.receivers[0], &mut scratch);
        time += start.elapsed();
    }
    time.as_secs_f64() * 1e9 / card.receivers[0].taken() as f64
}

fn keep_buffers(mode: Mode, every: u64) -> (f64, usize, usize) {
    let (mut number, mut kept) = (0, std::collections::VecDeque::new());
    let ns = timed(mode, |receiver, scratch| {
        let burst = receiver.lend(scratch, 1024);
        let mut wanted = Vec::new();
        for desc in burst.worklist().iter().rev() {
            number += 1;
            if number % every == 0 {
                wanted.push(desc.offset());
            }
        }
        let driver = receiver.scattered().unwrap();
        for at in wanted {
            kept.extend(driver.keep(at));
        }
        while kept.len() > KEPT {
            driver.let_go(kept.pop_front().unwrap());
        }
    });
    (ns, kept.len(), kept.len())
}

fn keep_copies(every: u64) -> f64 {
    let (mut number, mut kept) = (0, std::collections::VecDeque::new());
    timed(Mode::Contiguous, |receiver, scratch| {
        for packet in receiver.lend(scratch, 1024).packets() {
            number += 1;
            if number % every == 0 {
                kept.push_back(packet.bytes().to_vec());
            }
        }
        while kept.len() > KEPT {
            kept.pop_front();
        }
    })
}

/// Keeps whole segments: of those, a reader can hold so many as its window has.
fn keep_segments(every: u64) -> (f64, f64) {
    let packets_of_segment = (256 << 10) / (64 + 16);
    let ns = timed(Mode::Contiguous, |receiver, scratch| {
        black_box(driver_part(receiver, scratch));
    });
    // 256 kept packets, one in `every`, lie in so many segments.
    let segments = (KEPT as u64 * every).div_ceil(packets_of_segment).max(1);
    (ns, (segments * (256 << 10)) as f64 / KEPT as f64)
}

//! Counts instructions of programs over net_null, independent of the load of the machine. The count
//! is the difference between a short and a longer run under callgrind. Also times the copy into a
//! log.

use burstline_log::{Log, LogConfig, Scratch};
use burstline_port::PortError;
use burstline_sys::{affinity, clock};

use super::{ours, run, testpmd};
use crate::contenders::{self, Job, tried};
use crate::instructions::{CALLGRIND, NOT_COUNTED, counted};
use crate::ours::SEGMENT_BYTES;
use crate::programs::{Memory, Totals};

/// Packet sizes for which the copy is timed.
const SIZES: [usize; 3] = [64, 256, 1514];
const LOG_BYTES: usize = 2 << 20;

/// Counts the instructions per packet of both programs.
fn of_a_packet(job: &Job<'_>) -> String {
    // Off, because valgrind makes its own system calls on the program's threads.
    let valgrind = format!("env BURSTLINE_CONFINE=off valgrind {}", CALLGRIND.join(" "));
    let ours = ours(job);
    let ours = slope([2_000_000, 10_000_000].map(|packets| {
        let said = run(&format!("{valgrind} {ours} --packets {packets}")).ok()?;
        Some((counted(&said.0)? as f64, packets as f64))
    }));
    // The best setting found.
    let setting = tried("testpmd-null", job).unwrap_or_default();
    let setting = setting.split('"').nth(1).unwrap_or_default();
    let peer = testpmd(job, setting);
    let peer = slope([6, 16].map(|seconds| {
        let said = peer.run_for(seconds, Memory::Small, &valgrind).ok()?;
        Some((counted(&said)? as f64, Totals::parse(&said).ok()?.received as f64))
    }));
    match (ours, peer) {
        (Some(ours), Some(peer)) => {
            format!("instructions a packet, driver included: ours {ours:.0}, peer {peer:.0}")
        }
        _ => NOT_COUNTED.to_owned(),
    }
}

fn slope([few, more]: [Option<(f64, f64)>; 2]) -> Option<f64> {
    let (few, more) = (few?, more?);
    (more.1 > few.1).then(|| (more.0 - few.0) / (more.1 - few.1))
}

/// Returns the instructions per packet. For counting programs, also the cost of the copy into a log
/// by size, on one core and without a reader.
pub(crate) fn about_programs(job: &Job<'_>) -> Result<Vec<String>, String> {
    let mut lines = vec![of_a_packet(job)];
    if job.case != Some("count") {
        return Ok(lines);
    }
    #[cfg(feature = "dpdk")]
    crate::rivals::dpdk::start()?;
    // If this fails, the kernel chooses the core.
    let _ = affinity::pin_to(job.places.contender[0]);
    let mut said = Vec::new();
    for (number, bytes) in SIZES.into_iter().enumerate() {
        let mut port = contenders::open(&format!("dpdk:net_null{},size={bytes}", 16 + number))?;
        let config = LogConfig {
            name: "rtc".to_owned(),
            bytes: LOG_BYTES,
            segment_bytes: SEGMENT_BYTES,
            ..LogConfig::default()
        };
        let (_log, mut writer) = Log::create(config).map_err(|error| error.to_string())?;
        let mut scratch = Scratch::new();
        let lent_ns = ns_a_packet(&mut || Ok(port.lend(&mut scratch, 64)?.burst.len() as u64))?;
        let copied_ns = ns_a_packet(&mut || {
            let received = port.receive(&mut writer, 64)?;
            writer.publish();
            Ok(received.packets)
        })?;
        said.push(format!("{bytes} bytes {lent_ns:.1} and {copied_ns:.1}"));
    }
    lines.push(format!("ns a packet, lent and received into a log: {}", said.join(", ")));
    Ok(lines)
}

fn ns_a_packet(poll: &mut dyn FnMut() -> Result<u64, PortError>) -> Result<f64, String> {
    const PACKETS: u64 = 8 << 20;
    let (start_ns, mut packets) = (clock::monotonic_ns(), 0);
    while packets < PACKETS {
        packets += poll().map_err(|error| error.to_string())?;
    }
    Ok((clock::monotonic_ns() - start_ns) as f64 / packets as f64)
}

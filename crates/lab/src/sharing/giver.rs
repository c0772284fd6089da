//! The other process of an inline bounce: passes every packet of one of its logs.

use burstline_log::Verdict;
use burstline_share::{AttachConfig, Follower, Next, Trust};
use burstline_sys::clock;
use rustix::process::{Signal, set_parent_process_death_signal};

/// The option that makes this program pass packets.
pub const GIVER_OPTION: &str = "--as-giver";
/// Makes it poll all the time.
pub(crate) const BUSY: &str = "busy";
/// Its message when it has its seat.
pub(crate) const GIVING: &str = "giving";

/// Its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Packets passed.
    pub(crate) packets: u64,
    /// CPU time since the first packet, in ns.
    pub(crate) cpu_ns: u64,
}

impl Given {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let (packets, cpu_ns) = line.trim().split_once(' ')?;
        Some(Self { packets: packets.parse().ok()?, cpu_ns: cpu_ns.parse().ok()? })
    }
}

/// Passes packets until the log ends: `SOCKET LOG [busy]`. A busy one never sleeps.
///
/// # Errors
/// A sentence for the user.
pub fn serve(arguments: &[String]) -> Result<(), String> {
    let (socket, log, timeout_ns) = match arguments {
        [socket, log] => (socket, log, u64::MAX),
        [socket, log, word] if word == BUSY => (socket, log, 0),
        _ => return Err(format!("expected a socket, a log and `{BUSY}`")),
    };
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let log: u32 = log.parse().map_err(|_| format!("`{log}` is not the number of a log"))?;
    let config = AttachConfig {
        log: Some(log),
        gives_verdicts: true,
        trust: Trust::PROGRAM,
        ..AttachConfig::default()
    };
    let mut follower = Follower::open(socket, &config, false).map_err(|error| error.to_string())?;
    println!("{GIVING}");
    let (mut packets, start_ns) = (0, clock::thread_cpu_ns());
    loop {
        let next = follower.next(timeout_ns, || false).map_err(|error| error.to_string())?;
        let held = match next {
            Next::Burst { held, .. } => held,
            Next::End => break,
            _ => continue,
        };
        let verdicts = follower.verdicts(log).ok_or("the log takes no verdicts")?;
        let burst = held.burst();
        let first = burst.first_packet();
        for number in first..first + burst.len() as u64 {
            verdicts.give(number, Verdict::Pass).map_err(|error| error.to_string())?;
        }
        packets += burst.len() as u64;
    }
    println!("{packets} {}", clock::thread_cpu_ns() - start_ns);
    Ok(())
}

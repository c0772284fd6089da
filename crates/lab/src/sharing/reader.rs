//! The other process: reads a log as its arguments say, and prints its account.

use std::hint::spin_loop;
use std::io::{self, BufRead, Write};

use burstline_log::{Burst, Policy};
use burstline_share::{AttachConfig, Attachment, Feed, Trust};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::clock;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::traffic;

/// Its message when it has its seat.
pub(super) const ATTACHED: &str = "attached";
/// Sleep time of a lossy reader that finds nothing.
const SLEEP_NS: u64 = 1_000_000;
/// Empty polls of a lossless reader before it checks whether the writer is alive.
const LOOKS: u32 = 1 << 20;

/// A reader's account since the previous run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Packets read.
    pub delivered: u64,
    /// Packets overwritten before they were read.
    pub missed: u64,
    /// Sum of its work on them.
    pub sum: u64,
    /// Time when it had read all, by the clock that all processes share.
    pub end_ns: u64,
}

impl Account {
    pub(super) fn parse(line: &str) -> Option<Self> {
        let fields: Result<Vec<u64>, _> = line.split(' ').map(str::parse).collect();
        let [delivered, missed, sum, end_ns] = fields.ok()?[..] else { return None };
        Some(Self { delivered, missed, sum, end_ns })
    }

    fn line(&self) -> String {
        let Self { delivered, missed, sum, end_ns } = self;
        format!("{delivered} {missed} {sum} {end_ns}")
    }
}

/// Reads until standard input ends: `SOCKET POLICY CORE`.
///
/// # Errors
/// A sentence for the user.
pub fn serve(arguments: &[String]) -> Result<(), String> {
    let [socket, policy, core] = arguments else {
        return Err("expected a socket, a policy and a core".to_owned());
    };
    // Even a stopped reader must die with bench.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let is_lossless = policy == "lossless";
    let core: u32 = core.parse().map_err(|_| format!("`{core}` is not a core"))?;
    let _ = affinity::pin_to(CoreId(core)); // if this fails, the kernel chooses
    let policy = if is_lossless { Policy::Lossless } else { Policy::Lossy };
    // The writer is this program, too.
    let config = AttachConfig { policy, trust: Trust::PROGRAM, ..AttachConfig::default() };
    let mut attachment = Attachment::open(socket, &config).map_err(|error| error.to_string())?;
    println!("{ATTACHED}");
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let numbers = line.split_once(' ').and_then(|(until, packets)| {
            Some((until.parse().ok()?, packets.parse::<u64>().ok().filter(|&some| some > 0)?))
        });
        let (until, packets) = numbers.ok_or_else(|| format!("not a run: `{line}`"))?;
        let account = read_until(&mut attachment, is_lossless, until, packets)?;
        println!("{}", account.line());
        io::stdout().flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Reads until `until` packets since the log's start are delivered or missed, in runs of `packets`.
/// A lossless reader polls all the time, as the one in the same process does; a lossy one sleeps.
fn read_until(
    attachment: &mut Attachment,
    is_lossless: bool,
    until: u64,
    packets: u64,
) -> Result<Account, String> {
    let Attachment { readers, link, .. } = attachment;
    let [reader] = &mut readers[..] else { return Err("more than one log".to_owned()) };
    let (before, mut sum, mut looks) = (reader.statistics(), 0_u64, 0);
    let seen = |reader: &Feed| reader.statistics().delivered + reader.statistics().missed;
    while seen(reader) < until {
        if let Some(burst) = reader.next_burst() {
            sum = sum.wrapping_add(work(&burst, packets)?);
            continue;
        }
        looks += 1;
        if is_lossless {
            spin_loop();
        } else {
            reader.wait(SLEEP_NS);
        }
        if (!is_lossless || looks % LOOKS == 0) && link.is_gone() {
            return Err("the writer has gone".to_owned());
        }
    }
    let (end_ns, after) = (clock::monotonic_ns(), reader.statistics());
    let (delivered, missed) = (after.delivered - before.delivered, after.missed - before.missed);
    Ok(Account { delivered, missed, sum, end_ns })
}

/// Does the consumer's work on a burst, and checks that its first packet is the expected one. A
/// reader that misses packets has no sum to compare.
fn work(burst: &Burst<'_>, packets: u64) -> Result<u64, String> {
    let (first, found) = (burst.first_packet(), burst.packet(0));
    let counter = (first % packets) as u32;
    let (hash, time_ns) = (found.desc().hash(), found.time_ns());
    let are_right = (traffic::hash_of(counter), traffic::time_of(counter)) == (hash, time_ns);
    if !are_right || traffic::counter_of(found.bytes()) != Some(counter) {
        return Err(format!("packet {first} is not the expected one"));
    }
    Ok(traffic::digest_of(burst))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_as_it_was_said() {
        let account = Account { delivered: 5, missed: 7, sum: u64::MAX, end_ns: 9 };
        assert_eq!(Account::parse(&account.line()), Some(account));
        for wrong in ["", "1 2 3", "1 2 3 4 5", "1 2 3 x", "panicked at 3"] {
            assert_eq!(Account::parse(wrong), None, "{wrong}");
        }
    }
}

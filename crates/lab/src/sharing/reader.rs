//! The other process: reads as its arguments say, and prints what it read.

use std::hint::spin_loop;
use std::io::{self, BufRead, Write};

use burstline_log::{Burst, Policy};
use burstline_share::{AttachConfig, Attachment, Feed, Trust};
use burstline_sys::affinity::{self, CoreId};
use burstline_sys::clock;
use rustix::process::{Signal, set_parent_process_death_signal};

use crate::traffic;

/// What it says when its seat is taken.
pub(super) const ATTACHED: &str = "attached";
/// How long a lossy reader sleeps that finds nothing.
const SLEEP_NS: u64 = 1_000_000;
/// How often a lossless reader that finds nothing looks before it asks whether the writer lives.
const LOOKS: u32 = 1 << 20;

/// What a reader has read since the run before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Packets that it read.
    pub delivered: u64,
    /// Packets that the writer took away before.
    pub missed: u64,
    /// What its work on them added up to.
    pub sum: u64,
    /// When it had read all, by the clock that all processes share.
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

/// Is a reader, until its standard input ends: `SOCKET POLICY CORE`.
///
/// # Errors
/// A sentence for the user.
pub fn serve(arguments: &[String]) -> Result<(), String> {
    let [socket, policy, core] = arguments else {
        return Err("a reader takes a socket, a policy and a core".to_owned());
    };
    // Also a stopped one goes with bench, however that ends.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| error.to_string())?;
    let is_lossless = policy == "lossless";
    let core: u32 = core.parse().map_err(|_| format!("`{core}` is no core"))?;
    let _ = affinity::pin_to(CoreId(core)); // as the threads: else where the kernel puts it
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
        let (until, packets) = numbers.ok_or_else(|| format!("`{line}` is no run"))?;
        let account = read_until(&mut attachment, is_lossless, until, packets)?;
        println!("{}", account.line());
        io::stdout().flush().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Reads until `until` packets since the log's start are delivered or missed, of runs of `packets`.
/// A lossless reader looks all the time, as the one of the same process does; a lossy one sleeps.
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

/// The consumer's work on a burst; and is its first packet the one that the burst says it is? A
/// reader that misses packets has no sum to compare.
fn work(burst: &Burst<'_>, packets: u64) -> Result<u64, String> {
    let (first, found) = (burst.first_packet(), burst.packet(0));
    let counter = (first % packets) as u32;
    let (hash, time_ns) = (found.desc().hash(), found.time_ns());
    let are_right = (traffic::hash_of(counter), traffic::time_of(counter)) == (hash, time_ns);
    if !are_right || traffic::counter_of(found.bytes()) != Some(counter) {
        return Err(format!("packet {first} is another one"));
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

//! Injects hundreds of faults from a seed: readers die and writers restart under load, and every
//! account must balance.
//!
//! `BURSTLINE_FAULTS=1000` sets the number of faults, `BURSTLINE_SEED` repeats an order of them.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use burstline_log::{Ending, Policy};
use burstline_share::{AttachConfig, Attachment, query};
use burstline_skip::ledger;
use rustix::process::Signal;

use crate::common::{Directory, Follower, Role, until};

/// Packets that the writers append and publish at a time. With [`LOG_SEGMENTS`] of 64 KiB, a
/// stopped lossless reader fills up the log, and a stopped lossy one is lapped.
pub(crate) const LOAD_PACKETS: u64 = 256;
/// Segments of a log: enough for the windows of a wave of victims and the good reader, and more.
pub(crate) const LOG_SEGMENTS: usize = 24;
/// The exit status of a victim that exits in the middle of a burst.
pub(crate) const EXIT_IN_MID_BURST: i32 = 77;

const FAULTS: u64 = 1000;
const WAVE_MOST: u64 = 14;
const RESTARTS: u64 = 50;

/// SplitMix64: any generator will do that repeats its order for the same seed.
struct Dice(u64);

impl Dice {
    fn new(what: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = from_environment("BURSTLINE_SEED").unwrap_or(now);
        println!("{what}: BURSTLINE_SEED={seed}");
        Self(seed)
    }

    /// Returns a number in `[0, sides)`.
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % sides
    }

    fn pause(&mut self, most_us: u64) {
        thread::sleep(Duration::from_micros(self.roll(most_us)));
    }
}

fn from_environment(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Kill,
    StopAndKill,
    ExitInMidBurst,
}

/// A reader that is about to suffer a fault.
struct Victim {
    role: Role,
    fault: Fault,
    is_stopped: bool,
}

impl Victim {
    fn start(name: &str, dice: &mut Dice, counts: &mut Counts) -> Self {
        let faults = [Fault::Kill, Fault::StopAndKill, Fault::ExitInMidBurst];
        let kind = dice.roll(3) as usize;
        let is_lossless = dice.roll(4) == 0;
        counts.faults[kind] += 1;
        counts.lossless += u64::from(is_lossless);
        let last_burst = match faults[kind] {
            Fault::ExitInMidBurst => 1 + dice.roll(20),
            _ => u64::MAX,
        };
        let policy = if is_lossless { "lossless" } else { "lossy" };
        let role = Role::start("campaign::victim", &[name, policy, &last_burst.to_string()]);
        Self { role, fault: faults[kind], is_stopped: false }
    }

    /// Executes the next step of its fault; returns false after the last one.
    fn strike(&mut self) -> bool {
        if self.fault == Fault::ExitInMidBurst {
            // It may wait for packets held up by a stopped lossless reader, so do not block here.
            let Some(status) = self.role.ended() else { return true };
            assert_eq!(status.code(), Some(EXIT_IN_MID_BURST));
            return false;
        }
        if self.fault == Fault::StopAndKill && !self.is_stopped {
            self.role.signal(Signal::STOP);
            self.is_stopped = true;
            return true;
        }
        self.role.signal(Signal::KILL);
        // A victim that found a wrong packet would have exited instead.
        assert_eq!(self.role.wait().signal(), Some(Signal::KILL.as_raw()));
        false
    }
}

#[derive(Default)]
struct Counts {
    /// Killed, stopped and killed, exited.
    faults: [u64; 3],
    lossless: u64,
    waves: u64,
}

fn numbers(line: &str) -> Vec<u64> {
    line.split(' ').map(|word| word.parse().unwrap()).collect()
}

#[test]
fn readers_that_die_under_load_cost_nobody_a_packet() {
    let mut dice = Dice::new("readers' faults");
    let (began, directory) = (Instant::now(), Directory::new());
    let name = directory.name("tap");
    let mut publisher = Role::start("campaign::loaded_publisher", &[&name]);
    publisher.hear("ready");
    let mut good = Role::start("campaign::good_reader", &[&name]);
    good.hear("attached");
    publisher.go_on();
    let (faults, mut struck) = (from_environment("BURSTLINE_FAULTS").unwrap_or(FAULTS), 0);
    let mut counts = Counts::default();
    while struck < faults {
        let size = (1 + WAVE_MOST / 2 + dice.roll(WAVE_MOST / 2)).min(faults - struck);
        let mut victims: Vec<_> =
            (0..size).map(|_| Victim::start(&name, &mut dice, &mut counts)).collect();
        victims.iter_mut().for_each(|victim| drop(victim.role.hear("attached")));
        while !victims.is_empty() {
            dice.pause(2000);
            let next = dice.roll(victims.len() as u64) as usize;
            if !victims[next].strike() {
                victims.swap_remove(next);
            }
        }
        until("only the good reader has a seat", || query(&name).unwrap().readers.len() == 1);
        struck += size;
        counts.waves += 1;
    }
    publisher.go_on();
    let seen = numbers(&good.hear("account"));
    let did = numbers(&publisher.hear("account"));
    let [written, full, visits, peak, gone, before, after] = did[..] else { panic!("{did:?}") };
    let [delivered, missed, ..] = seen[..] else { panic!("{seen:?}") };
    let ([killed, stopped, exited], Counts { lossless, waves, .. }) = (counts.faults, counts);
    println!(
        "readers' faults: {struck} ({killed} killed, {stopped} stopped and killed, {exited} exits \
         in mid-burst; {lossless} lossless) in {waves} waves, at most {peak} readers; writer: \
         {written} published, full {full} times; good reader: {delivered} read, {missed} missed; \
         seats: {visits} taken, {gone} freed; descriptors: {before} before, {after} after; {:.1} s",
        began.elapsed().as_secs_f64()
    );
    ledger(written, delivered, &[("reader_overrun", missed)]);
    assert_eq!(seen, [written, 0, written, written], "delivered, missed, offered, next number");
    assert_eq!((visits, gone, after), (faults + 1, faults + 1, before));
    assert!(full > 0 || faults < FAULTS, "nobody held the writer up");
    good.end();
    publisher.end();
    assert_eq!(directory.files(), ["tap.lock"]);
}

/// A reader's account of one writer.
#[derive(Debug)]
struct Epoch {
    number: u64,
    pid: u32,
    /// The number after the last packet, as the reader counted it.
    end: u64,
    delivered: u64,
    ending: Option<Ending>,
}

/// Reads the packets of writer after writer; stores the current writer's epoch in `attached`.
fn follow(name: &str, attached: &AtomicU64) -> Vec<Epoch> {
    let config = AttachConfig { policy: Policy::Lossless, ..AttachConfig::default() };
    let mut epochs = Vec::new();
    let mut next: Option<Attachment> = None;
    while epochs.len() < RESTARTS as usize {
        // Retry while there is no publisher, or one that is just leaving.
        until("the next writer", || {
            next = Attachment::open(name, &config).ok();
            next.is_some()
        });
        let Attachment { mut readers, link, .. } = next.take().unwrap();
        let (reader, mut follower) = (&mut readers[0], Follower::default());
        loop {
            let is_gone = link.is_gone();
            follower.read(reader);
            // If it attached after the last packet, it cannot know the number of packets.
            if follower.next.is_some() {
                attached.store(link.epoch(), Release);
            }
            if reader.is_finished() || is_gone {
                break;
            }
            reader.wait(1_000_000);
        }
        // A writer that has ended its log may still publish it; wait for the next one.
        until("the writer has gone", || link.is_gone());
        let seen = reader.statistics();
        assert_eq!((seen.missed, seen.delivered), (0, reader.offered()));
        let (number, pid, ending) = (link.epoch(), link.pid(), reader.ending());
        let end = follower.next.unwrap_or(0);
        epochs.push(Epoch { number, pid, end, delivered: seen.delivered, ending });
    }
    epochs
}

#[test]
fn writers_that_restart_under_load_are_followed_and_every_epoch_adds_up() {
    let mut dice = Dice::new("writers' restarts");
    let (began, directory) = (Instant::now(), Directory::new());
    let (name, counter) = (directory.name("tap"), directory.name("count"));
    let attached = AtomicU64::new(0);
    let (mut said, mut killed_left, mut clean_left) = (Vec::new(), RESTARTS / 2, RESTARTS / 2);
    let epochs = thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&name, &attached));
        for _ in 0..RESTARTS {
            fs::write(&counter, 0_u64.to_le_bytes()).unwrap();
            let mut role = Role::start("campaign::restarted_writer", &[&name, &counter]);
            let epoch = role.hear("epoch").parse().unwrap();
            until("it is followed", || attached.load(Acquire) == epoch);
            dice.pause(30_000);
            // The last writer ends properly, so that it leaves no files.
            let is_killed = killed_left > 0
                && (clean_left == 1 || dice.roll(killed_left + clean_left) < killed_left);
            let pid = role.pid();
            if is_killed {
                killed_left -= 1;
                role.kill();
                let count = fs::read(&counter).unwrap().try_into().unwrap();
                let most = u64::from_le_bytes(count);
                said.push((pid, true, most.saturating_sub(LOAD_PACKETS)..=most));
            } else {
                clean_left -= 1;
                role.go_on();
                let published: u64 = role.hear("published").parse().unwrap();
                role.end();
                said.push((pid, false, published..=published));
            }
        }
        follower.join().unwrap()
    });
    for ((number, epoch), (pid, is_killed, published)) in
        (epochs[0].number..).zip(&epochs).zip(&said)
    {
        assert_eq!((epoch.number, epoch.pid), (number, *pid));
        assert!(published.contains(&epoch.end), "{epoch:?}: {published:?} were published");
        assert_eq!(epoch.ending, (!is_killed).then_some(Ending::Stopped), "{epoch:?}");
    }
    let ended = |wanted: bool| {
        let both = epochs.iter().zip(&said).filter(move |(_, said)| said.1 == wanted);
        both.fold((0, 0, 0), |(count, read, most), (epoch, (_, _, published))| {
            (count + 1, read + epoch.end, most + published.end())
        })
    };
    let ((stopped, end, published), (killed, drained, counted)) = (ended(false), ended(true));
    let delivered: u64 = epochs.iter().map(|epoch| epoch.delivered).sum();
    println!(
        "writers' restarts: {killed} killed, {stopped} stopped; {} epochs; stopped writers \
         published {published}, the reader came to {end}; killed ones had begun {counted}, the \
         reader drained to {drained}; {delivered} read, 0 missed; {:.1} s",
        epochs.len(),
        began.elapsed().as_secs_f64()
    );
    assert_eq!((stopped, killed, end), (RESTARTS / 2, RESTARTS / 2, published));
    assert_eq!(directory.files(), ["count", "tap.lock"]);
}

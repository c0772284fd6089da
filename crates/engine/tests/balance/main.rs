//! Balances flows: each arrives whole and in order at one worker, and every ledger adds up.

mod faults;

use std::collections::HashMap;
use std::fs;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use burstline_engine::{
    BalanceOptions, BalanceReport, CaptureOptions, Distribution, Inlet, Limits, Mode, Policy,
    Progress, Report, Run, balance,
};
use burstline_log::{Burst, LogConfig};
use burstline_port::{
    Capabilities, FaultInjector, FaultPlan, Loss, LostPackets, OpenOptions, Port, PortAccount,
    PortError, PortInfo, Sink, TimestampSource, open_sink,
};
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::hash::HashKind;

const BY_FLOW: Distribution = Distribution::Hash(HashKind::FiveTuple);

struct Job {
    sources: Vec<String>,
    limits: Limits,
    options: BalanceOptions,
    ports: OpenOptions,
}

impl Job {
    fn new(sources: &[&str], groups: &[usize]) -> Self {
        let ports = OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() };
        let log = LogConfig { bytes: 1 << 20, segment_bytes: 64 << 10, ..LogConfig::default() };
        let job = CaptureOptions { log, ..CaptureOptions::new(ports.table.clone()) };
        let options = BalanceOptions {
            job,
            mode: Mode::Copy,
            log_homes: Vec::new(),
            distribution: BY_FLOW,
            groups: groups.to_vec(),
            has_workers: true,
            cutoff_bytes: None,
            shed: None,
        };
        let sources = sources.iter().map(ToString::to_string).collect();
        Self { sources, limits: Limits::default(), options, ports }
    }

    fn run(&self) -> Report {
        self.run_into(|_| open_sink(&"null:".parse().unwrap(), &self.ports))
    }

    fn run_into(&self, open: impl FnMut(usize) -> Result<Box<dyn Sink>, PortError>) -> Report {
        let workers = self.options.groups.iter().sum();
        let progress = Progress::with_workers(self.sources.len(), workers);
        self.run_with(open, &progress)
    }

    fn run_with(
        &self,
        open: impl FnMut(usize) -> Result<Box<dyn Sink>, PortError>,
        progress: &Progress,
    ) -> Report {
        let report = self.run_unchecked(open, progress);
        assert_closed(&report);
        report
    }

    fn run_unchecked(
        &self,
        open: impl FnMut(usize) -> Result<Box<dyn Sink>, PortError>,
        progress: &Progress,
    ) -> Report {
        let open_source = |text: &String| Inlet::open(&text.parse().unwrap(), &self.ports);
        let sources = self.sources.iter().map(open_source).collect::<Result<_, _>>().unwrap();
        let stop = AtomicBool::new(false);
        let run = Run::new(&stop, progress).within(self.limits);
        balance(sources, open, &self.options, &run).unwrap()
    }
}

fn assert_closed(report: &Report) {
    assert_eq!(report.total.unaccounted, 0, "{:?} {:?}", report.notes, report.balance);
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted), (sum, 0), "{row:?}");
    }
    for group in &of(report).groups {
        assert_eq!((group.offered, group.unaccounted), (group.delivered + group.lost.total(), 0));
        for worker in &group.workers {
            let sum = worker.delivered + worker.lost.total();
            assert_eq!((worker.offered, worker.unaccounted), (sum, 0), "{worker:?}");
        }
        assert_eq!(group.offered, group.workers.iter().map(|worker| worker.offered).sum::<u64>());
    }
    for stage in &report.stages {
        assert_eq!(stage.packets_in, stage.packets_out + stage.lost, "{}", stage.name);
    }
}

fn of(report: &Report) -> &BalanceReport {
    report.balance.as_ref().unwrap()
}

/// What each worker saw, in order.
type Seen = Arc<Mutex<Vec<(usize, Vec<u8>)>>>;

/// A worker's sink that may be slow.
struct Witness {
    info: PortInfo,
    number: usize,
    seen: Seen,
    offered: u64,
    /// Called before each burst, which it may delay.
    gate: Box<dyn FnMut() + Send>,
}

impl Witness {
    fn open(number: usize, seen: &Seen, gate: impl FnMut() + Send + 'static) -> Box<dyn Sink> {
        let capabilities = Capabilities::default();
        let name = format!("witness {number}");
        let info = PortInfo { name, capabilities, timestamps: TimestampSource::Mixed };
        Box::new(Self { info, number, seen: Arc::clone(seen), offered: 0, gate: Box::new(gate) })
    }
}

impl Port for Witness {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.offered, ..PortAccount::default() }
    }
}

impl Sink for Witness {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        (self.gate)();
        let mut seen = self.seen.lock().unwrap();
        seen.extend(burst.packets().map(|packet| (self.number, packet.bytes().to_vec())));
        self.offered += burst.len() as u64;
        Ok(burst.len() as u64)
    }

    fn lost(&self) -> LostPackets {
        LostPackets::default()
    }
}

/// The name of the file.
const TRACE: &str = "trace.pcap";

/// A file that is removed when the test ends.
struct Trace(TemporaryFolder);

impl Trace {
    /// Writes packets to an Ethernet pcap file.
    fn new(packets: &[Vec<u8>]) -> Self {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut bytes: Vec<u8> = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
        for (at, packet) in packets.iter().enumerate() {
            let length = packet.len() as u32;
            let head: Vec<u8> = words(&[1, at as u32 % 1_000_000, length, length]);
            bytes.extend(head);
            bytes.extend(packet);
        }
        let folder = TemporaryFolder::create("burstline-balance-").unwrap();
        fs::write(folder.file(TRACE), bytes).unwrap();
        Self(folder)
    }

    fn address(&self) -> String {
        self.0.file(TRACE)
    }
}

const FLOWS: u16 = 97;

/// Returns an IPv4 UDP frame or fragment, whose last eight bytes are its flow and its number.
fn frame(flow: u16, number: u32, is_back: bool, fragment: Option<(u16, bool)>) -> Vec<u8> {
    let mut frame = vec![0; 64];
    frame[12..16].copy_from_slice(&[0x08, 0, 0x45, 0]);
    frame[16..18].copy_from_slice(&50_u16.to_be_bytes());
    // The number of the datagram, which its fragments share.
    frame[18..20].copy_from_slice(&((number / 2) as u16).to_be_bytes());
    let (offset, has_more) = fragment.unwrap_or((0, false));
    let more = if has_more { 0x2000 } else { 0 };
    frame[20..22].copy_from_slice(&(offset | more).to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    let client = (0x0a00_0000_u32 | u32::from(flow)).to_be_bytes();
    let server = [192, 168, 7, 7];
    let (from, to) = if is_back { (server, client) } else { (client, server) };
    frame[26..30].copy_from_slice(&from);
    frame[30..34].copy_from_slice(&to);
    if offset == 0 {
        let ports = [1000 + flow, 53];
        let [source, destination] = if is_back { [ports[1], ports[0]] } else { ports };
        frame[34..36].copy_from_slice(&source.to_be_bytes());
        frame[36..38].copy_from_slice(&destination.to_be_bytes());
        frame[38..40].copy_from_slice(&30_u16.to_be_bytes());
    }
    frame[56..60].copy_from_slice(&u32::from(flow).to_be_bytes());
    frame[60..64].copy_from_slice(&number.to_be_bytes());
    frame
}

/// Returns both directions of many flows, with every other packet in two fragments.
fn conversation(packets: u32) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..packets {
        let flow = (number * 31 % u32::from(FLOWS)) as u16;
        let is_back = number % 3 == 0;
        match number % 2 {
            0 => frames.push(frame(flow, number * 2, is_back, None)),
            _ => {
                frames.push(frame(flow, number * 2, is_back, Some((0, true))));
                frames.push(frame(flow, number * 2 + 1, is_back, Some((4, false))));
            }
        }
    }
    frames
}

fn word(bytes: &[u8], from_end: usize) -> u32 {
    u32::from_be_bytes(*bytes[bytes.len() - from_end..].first_chunk().unwrap())
}

#[test]
fn a_flow_is_whole_and_in_order_at_one_worker_with_both_directions_and_fragments() {
    let frames = conversation(6000);
    let trace = Trace::new(&frames);
    for hash in [HashKind::FiveTuple, HashKind::Ip, HashKind::Inner, HashKind::RssSymmetric] {
        for workers in [2, 3, 5] {
            let mut job = Job::new(&[&trace.address()], &[workers]);
            job.options.mode = if workers == 3 { Mode::Share } else { Mode::Copy };
            job.ports.hash = hash;
            job.options.distribution = Distribution::Hash(hash);
            let seen = Seen::default();
            let report = job.run_into(|number| Ok(Witness::open(number, &seen, || {})));
            assert_eq!(report.total.delivered, frames.len() as u64, "a file waits");
            let mut flows: HashMap<u32, (usize, u32)> = HashMap::new();
            let (mut used, mut packets) = (vec![0; workers], 0);
            for (worker, bytes) in seen.lock().unwrap().iter() {
                let (flow, number) = (word(bytes, 8), word(bytes, 4));
                let known = flows.entry(flow).or_insert((*worker, number));
                assert_eq!(known.0, *worker, "{hash}: flow {flow} is at two workers");
                assert!(known.1 <= number, "{hash}: flow {flow}: {} before {number}", known.1);
                known.1 = number;
                used[*worker] += 1;
                packets += 1;
            }
            assert_eq!((flows.len(), packets), (FLOWS.into(), frames.len()));
            assert!(used.iter().all(|&packets| packets > 0), "{hash}: {used:?}");
        }
    }
}

#[test]
fn groups_see_every_packet_once_each_and_the_total_counts_it_for_each() {
    for mode in [Mode::Copy, Mode::Share] {
        let mut job = Job::new(&["gen:?packets=30000&flows=500"], &[2, 1, 3]);
        job.options.mode = mode;
        groups_see_every_packet(&job.run());
    }
}

fn groups_see_every_packet(report: &Report) {
    let groups = &of(report).groups;
    assert_eq!((report.total.offered, report.ports.len(), groups.len()), (90_000, 3, 3));
    for group in groups {
        assert_eq!((group.offered, group.delivered), (30_000, 30_000));
        assert!(group.workers.iter().all(|worker| worker.offered > 0));
    }
    let numbers = groups.iter().flat_map(|group| &group.workers).map(|worker| worker.number);
    assert!(numbers.eq(0..6));
}

#[test]
fn in_turn_every_worker_gets_as_many() {
    let mut job = Job::new(&["gen:?packets=30000&flows=2"], &[4, 3]);
    job.options.distribution = Distribution::RoundRobin;
    let report = job.run();
    let offered = |group: usize| -> Vec<u64> {
        of(&report).groups[group].workers.iter().map(|worker| worker.offered).collect()
    };
    assert_eq!((offered(0), offered(1)), (vec![7500; 4], vec![10_000; 3]));
    assert!(of(&report).elephants.is_empty(), "it knows no flows");
}

#[test]
fn a_worker_that_stands_still_loses_its_own_packets_and_nobody_elses() {
    [Mode::Copy, Mode::Share].into_iter().for_each(one_worker_stands_still);
}

fn one_worker_stands_still(mode: Mode) {
    // A log holds a second of its worker's packets: a worker may wait for a core half that long.
    let mut job = Job::new(&["gen:?packets=100000&rate=40k&size=64&flows=1000"], &[4]);
    job.options.job.policy = Some(Policy::Lossy);
    job.options.mode = mode;
    if mode == Mode::Share {
        // As much as four logs.
        job.options.job.log.bytes *= 4;
    }
    let (seen, progress) = (Seen::default(), Arc::new(Progress::with_workers(1, 4)));
    let report = job.run_with(
        |number| {
            let progress = Arc::clone(&progress);
            Ok(Witness::open(number, &seen, move || {
                while number == 1 && progress.snapshot().received.packets < 100_000 {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }))
        },
        &progress,
    );
    for worker in &of(&report).groups[0].workers {
        let overrun = worker.lost.of(Loss::ReaderOverrun);
        assert_eq!(overrun > 0, worker.number == 1, "{worker:?}");
        assert_eq!(overrun, worker.lost.total());
    }
    assert_eq!(report.total.offered, 100_000);
}

#[test]
fn a_worker_whose_sink_breaks_leaves_the_others_alone() {
    let job = Job::new(&["gen:?packets=60000&flows=1000"], &[3]);
    let broken = |number: usize| {
        let sink = open_sink(&"null:".parse().unwrap(), &job.ports)?;
        let fail_after = (number == 2).then_some(100);
        let plan = FaultPlan { fail_after, ..FaultPlan::default() };
        Ok(Box::new(FaultInjector::new(sink, plan)) as Box<dyn Sink>)
    };
    let report = job.run_into(broken);
    let workers = &of(&report).groups[0].workers;
    assert_eq!((report.errors.len(), report.total.offered), (1, 60_000));
    assert!(workers[2].lost.of(Loss::WriteError) > 0, "{workers:?}");
    assert!(workers[..2].iter().all(|worker| worker.offered == worker.delivered));
}

#[test]
fn when_every_sink_is_broken_the_job_ends() {
    let job = Job::new(&["gen:?flows=1000"], &[2]);
    let report = job.run_into(|_| {
        let sink = open_sink(&"null:".parse().unwrap(), &job.ports)?;
        let plan = FaultPlan { fail_after: Some(1000), ..FaultPlan::default() };
        Ok(Box::new(FaultInjector::new(sink, plan)) as Box<dyn Sink>)
    });
    assert_eq!(report.errors.len(), 2);
}

#[test]
fn what_is_cut_off_or_shed_is_named_and_no_failure() {
    let mut job = Job::new(&["gen:?packets=1000&flows=10&size=64"], &[2]);
    job.options.cutoff_bytes = Some(600);
    let total = job.run().total;
    assert_eq!((total.delivered, total.lost.of(Loss::CutOff)), (100, 900), "{:?}", total.lost);
    assert_eq!(total.lost.missing(), 0);
    // A program that matches every packet.
    job.options.shed = Some("1,6 0 0 1".parse().unwrap());
    let report = job.run();
    assert_eq!(report.total.lost.of(Loss::Shed), 1000, "{:?}", report.total.lost);
    assert!(report.is_success());
}

#[test]
fn several_receive_threads_several_workers_and_an_exact_limit() {
    let sources = ["gen:?flows=300&seed=1", "gen:?flows=300&seed=2", "gen:?flows=300&seed=3"];
    let mut job = Job::new(&sources, &[3]);
    job.options.job.threads.receivers = 2;
    job.limits.packets = Some(123_457);
    job.options.mode = Mode::Share;
    assert_eq!(job.run().total.delivered, 123_457);
    job.options.mode = Mode::Copy;
    let report = job.run();
    assert_eq!(report.total.delivered, 123_457);
    let names: Vec<_> = report.stages.iter().map(|stage| &stage.name[..]).collect();
    assert_eq!(names, ["receive-0", "receive-1", "worker-0", "worker-1", "worker-2"]);
}

#[test]
fn the_flow_that_carries_most_is_named() {
    let mut frames = Vec::new();
    for number in 0..20_000_u32 {
        let flow = if number % 2 == 0 { 7 } else { (number * 31 % 90) as u16 };
        frames.push(frame(flow, number, false, None));
    }
    let trace = Trace::new(&frames);
    let report = Job::new(&[&trace.address()], &[4, 2]).run();
    let elephants = &of(&report).elephants;
    let name = elephants[0].name.as_deref();
    assert_eq!(name, Some("10.0.0.7:1007 > 192.168.7.7:53 udp"), "{elephants:?}");
    assert!(elephants[0].packets >= 10_000 && elephants[0].bytes >= 640_000);
    let workers = &of(&report).groups;
    for (group, &number) in workers.iter().zip(&elephants[0].workers) {
        let most = group.workers.iter().max_by_key(|worker| worker.offered).unwrap();
        assert_eq!(most.number, number, "half of all packets are its own");
    }
}

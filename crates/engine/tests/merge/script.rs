//! Ports that follow a script, and a sink that records packets.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use burstline_engine::{
    CaptureOptions, Inlet, Limits, MergeOptions, Policy, Progress, Report, Run, merge, merge_shared,
};
use burstline_log::{Appended, Burst, LogConfig, Meta, Scratch, Writer};
use burstline_port::{
    Capabilities, Lent, LostPackets, OpenOptions, Port, PortAccount, PortError, PortInfo,
    PortState, Received, Sink, Source, TimestampSource,
};

/// Packets that the sink has got so far.
pub(crate) type Gone = Arc<AtomicU64>;

/// What a port does when it is polled.
pub(crate) enum Step {
    /// Lends packets of these times.
    Burst(Vec<u64>),
    /// Is idle, and promises this time.
    Idle(Option<u64>),
    /// Is idle and promises nothing until the sink has this many packets.
    IdleUntil(u64),
    /// Is idle forever.
    Silent,
    /// Takes this long for its next packets.
    Slow(Duration),
}

/// A port with a script; it ends when the script does.
pub(crate) struct Scripted {
    info: PortInfo,
    steps: VecDeque<Step>,
    gone: Gone,
    /// Packets that all ports have put into logs.
    received: Arc<AtomicU64>,
    number: u8,
    bytes: Vec<u8>,
    promise_ns: Option<u64>,
    lent: u64,
}

impl Scripted {
    fn be_slow(&mut self) {
        while let Some(Step::Slow(time)) = self.steps.front() {
            thread::sleep(*time);
            self.steps.pop_front();
        }
    }
}

impl Port for Scripted {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.lent, ..PortAccount::default() }
    }
}

impl Source for Scripted {
    fn lend<'a>(
        &'a mut self,
        scratch: &'a mut Scratch,
        _budget: u64,
    ) -> Result<Lent<'a>, PortError> {
        self.be_slow();
        scratch.clear();
        self.bytes.clear();
        let state = match self.steps.front_mut() {
            None => PortState::Ended,
            Some(Step::Silent | Step::Slow(_)) => PortState::Idle,
            Some(Step::IdleUntil(packets)) if self.gone.load(SeqCst) < *packets => PortState::Idle,
            Some(Step::IdleUntil(_)) => {
                self.steps.pop_front();
                PortState::Idle
            }
            Some(Step::Idle(promise_ns)) => {
                self.promise_ns = *promise_ns;
                self.steps.pop_front();
                PortState::Idle
            }
            Some(Step::Burst(times_ns)) => {
                for &time_ns in times_ns.iter() {
                    scratch.push(self.bytes.len() as u32, 8, &Meta::new(time_ns, 8, self.number));
                    self.bytes.extend(self.lent.to_le_bytes());
                    self.lent += 1;
                }
                self.steps.pop_front();
                PortState::Busy
            }
        };
        Ok(Lent::new(scratch.burst(&self.bytes, 0), state))
    }

    fn receive(&mut self, writer: &mut Writer, budget: u64) -> Result<Received, PortError> {
        self.be_slow();
        let Some(Step::Burst(times_ns)) = self.steps.front_mut() else {
            let state = self.lend(&mut Scratch::new(), budget)?.state;
            return Ok(Received { packets: 0, state });
        };
        let most = times_ns.len().min(budget as usize);
        let is_in = |time_ns: &&u64| {
            let meta = Meta::new(**time_ns, 8, self.number);
            let appended = writer.append(&self.lent.to_le_bytes(), &meta);
            self.lent += u64::from(appended == Appended::Whole);
            appended == Appended::Whole
        };
        let packets = times_ns[..most].iter().take_while(is_in).count();
        let state = if packets == most { PortState::Busy } else { PortState::Blocked };
        times_ns.drain(..packets);
        if times_ns.is_empty() {
            self.steps.pop_front();
        }
        self.received.fetch_add(packets as u64, SeqCst);
        Ok(Received { packets: packets as u64, state })
    }

    fn lent<'a>(&'a self, scratch: &'a mut Scratch) -> Option<Burst<'a>> {
        Some(scratch.burst(&self.bytes, 0))
    }

    fn low_time_ns(&self) -> Option<u64> {
        self.promise_ns
    }
}

/// One packet of the output: its time, its port, and its number there.
pub(crate) type Got = (u64, u8, u64);

struct Memory {
    info: PortInfo,
    got: Arc<Mutex<Vec<Got>>>,
    gone: Gone,
    received: Arc<AtomicU64>,
    stalls_until: u64,
}

/// How packets are merged.
#[derive(Clone, Copy, Default)]
pub(crate) struct How {
    pub(crate) is_shared: bool,
    pub(crate) policy: Option<Policy>,
    /// The sink takes no packet before the ports have put this many into logs.
    pub(crate) stalls_until: u64,
}

pub(crate) const SHARED: How = How { is_shared: true, policy: None, stalls_until: 0 };

impl Port for Memory {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount { offered: self.gone.load(SeqCst), ..PortAccount::default() }
    }
}

impl Sink for Memory {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        while self.received.load(SeqCst) < self.stalls_until {
            thread::yield_now();
        }
        let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap());
        let got = |packet: burstline_log::Packet<'_>| {
            (packet.time_ns(), packet.port(), number(packet.bytes()))
        };
        self.got.lock().unwrap().extend(burst.packets().map(got));
        self.gone.fetch_add(burst.len() as u64, SeqCst);
        Ok(burst.len() as u64)
    }

    fn lost(&self) -> LostPackets {
        LostPackets::default()
    }
}

fn info(name: &str) -> PortInfo {
    let capabilities = Capabilities { can_wait: true, ..Capabilities::default() };
    PortInfo { name: name.to_owned(), capabilities, timestamps: TimestampSource::Synthetic }
}

/// Merges ports with these scripts, and returns the output.
pub(crate) fn run(
    scripts: Vec<Vec<Step>>,
    merging: &MergeOptions,
    packets: Option<u64>,
) -> (Report, Vec<Got>) {
    run_as(How::default(), scripts, merging, packets)
}

/// As [`run`], in another way. With a policy, packets may be lost.
pub(crate) fn run_as(
    how: How,
    scripts: Vec<Vec<Step>>,
    merging: &MergeOptions,
    packets: Option<u64>,
) -> (Report, Vec<Got>) {
    let ports = OpenOptions::default();
    let (gone, received) = (Gone::default(), Arc::new(AtomicU64::new(0)));
    let sources: Vec<Inlet> = (0_u8..)
        .zip(scripts)
        .map(|(number, steps)| {
            let port = Scripted {
                info: info(&format!("script {number}")),
                steps: steps.into(),
                gone: Arc::clone(&gone),
                received: Arc::clone(&received),
                number,
                bytes: Vec::new(),
                promise_ns: None,
                lent: 0,
            };
            // Opened to get an interface for each port.
            let source = Inlet::open(&"gen:?packets=1".parse().unwrap(), &ports).unwrap();
            source.wrap(|_| Box::new(port))
        })
        .collect();
    let options = CaptureOptions {
        log: LogConfig { bytes: 1 << 20, segment_bytes: 64 << 10, ..LogConfig::default() },
        policy: how.policy,
        ..CaptureOptions::new(ports.table.clone())
    };
    let got = Arc::new(Mutex::new(Vec::new()));
    let (info, stalls_until) = (info("memory"), how.stalls_until);
    let sink = Memory { info, got: Arc::clone(&got), gone, received, stalls_until };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let open: Box<dyn Sink> = Box::new(sink);
    let limits = Limits { packets, duration_ns: None };
    let run = Run::new(&stop, &progress).within(limits);
    let report = match how.is_shared {
        false => merge(sources, || Ok(open), &options, merging, &run),
        true => merge_shared(sources, || Ok(open), &options, merging, &run),
    };
    let report = report.unwrap();
    assert!(report.is_success(), "{:?} {:?}", report.notes, report.errors);
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.unaccounted), (sum, 0), "{row:?}");
        assert!(row.lost.total() == 0 || how.policy.is_some(), "{row:?}");
    }
    // The progress that was shown is the same, source by source.
    let places = progress.places();
    for (row, place) in report.ports.iter().zip(places.iter().filter(|place| place.is_source)) {
        let shown = (place.counts.packets, place.counts.bytes);
        let lost = row.lost.total(); // behind the log, and of 8 bytes each
        assert_eq!(shown, (row.delivered + lost, row.bytes + 8 * lost), "{row:?}");
    }
    let got = std::mem::take(&mut *got.lock().unwrap());
    (report, got)
}

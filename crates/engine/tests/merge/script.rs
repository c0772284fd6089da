//! Ports that follow a script, and a sink that records packets.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};

use burstline_engine::{
    CaptureOptions, Inlet, Limits, MergeOptions, Progress, Report, Run, Threads, merge,
};
use burstline_log::{Burst, LogConfig, Meta, Scratch, Writer};
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
}

/// A port with a script; it ends when the script does.
pub(crate) struct Scripted {
    info: PortInfo,
    steps: VecDeque<Step>,
    gone: Gone,
    number: u8,
    bytes: Vec<u8>,
    promise_ns: Option<u64>,
    lent: u64,
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
        scratch.clear();
        self.bytes.clear();
        let state = match self.steps.front_mut() {
            None => PortState::Ended,
            Some(Step::Silent) => PortState::Idle,
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

    fn receive(&mut self, _: &mut Writer, _: u64) -> Result<Received, PortError> {
        unreachable!("a merge takes packets where they lie");
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
}

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
    let ports = OpenOptions::default();
    let gone = Gone::default();
    let sources: Vec<Inlet> = (0_u8..)
        .zip(scripts)
        .map(|(number, steps)| {
            let port = Scripted {
                info: info(&format!("script {number}")),
                steps: steps.into(),
                gone: Arc::clone(&gone),
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
        threads: Threads::default(),
        log: LogConfig { bytes: 1 << 20, segment_bytes: 64 << 10, ..LogConfig::default() },
        policy: None,
        table: ports.table.clone(),
        publish: None,
    };
    let got = Arc::new(Mutex::new(Vec::new()));
    let sink = Memory { info: info("memory"), got: Arc::clone(&got), gone };
    let (stop, progress) = (AtomicBool::new(false), Progress::new(sources.len()));
    let open: Box<dyn Sink> = Box::new(sink);
    let limits = Limits { packets, duration_ns: None };
    let run = Run::new(&stop, &progress).within(limits);
    let report = merge(sources, || Ok(open), &options, merging, &run).unwrap();
    assert!(report.is_success(), "{:?} {:?}", report.notes, report.errors);
    for row in &report.ports {
        let sum = row.delivered + row.lost.total() + row.in_flight;
        assert_eq!((row.offered, row.lost.total()), (sum, 0), "{row:?}");
    }
    // The progress that was shown is the same, source by source.
    let places = progress.places();
    for (row, place) in report.ports.iter().zip(places.iter().filter(|place| place.is_source)) {
        let shown = (place.counts.packets, place.counts.bytes);
        assert_eq!(shown, (row.delivered, row.bytes), "{row:?}");
    }
    let got = std::mem::take(&mut *got.lock().unwrap());
    (report, got)
}

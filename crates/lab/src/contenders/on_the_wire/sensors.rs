//! Measures Suricata behind a switch: the packets it scanned or, in line, the packets it sent back.
//!
//! ```text
//!   -afpacket          tcpreplay --> v0 ==== v1 --> Suricata: AF_PACKET
//!   -burst             tcpreplay --> v0 ==== v1 --> burstline count --publish --> Suricata: ours
//!   -inline-afpacket   tcpreplay --> v0 ==== v1 --> Suricata, copy-mode ips --> w1 ==== w0
//!   -inline-burst      tcpreplay --> v0 ==== v1 --> burstline bounce --inline --> w1 ==== w0
//!                                                     log |  ^ verdicts: Suricata: ours
//! ```
//!
//! tcpreplay sends at full speed, so every queue is full and excess packets are lost. The switch is
//! burstline or the kernel.
//!
//! Invariants:
//! - W1: time is from the first packet until Suricata is idle, and all of it counts. Packets lost
//!   before Suricata add only the time that their loss took.
//! - W2: rules only alert, so all packets that Suricata scanned are forwarded.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use crate::contenders::live::cores;
use crate::contenders::{Adapter, Job, Sample};
use crate::contest::go_on;
use crate::live::{Contender, OUT, Road, pages_of};
use crate::programs::{Launch, Memory, Ours, Report, our_program};
use crate::rivals::contents::RULES;
use crate::scenario::Work;
use crate::scenario::machine::{Served, on_hosts};
use crate::sensors::{
    Files, Spent, Suricata, Workers, alerts, behind_bounce, between_interfaces, bounce, counter,
    lacks, our_library, publish, version,
};
use crate::threads::Cores;

/// Packets per round of tcpreplay.
const PACKETS: usize = 16_384;
/// In traffic with matches, one packet in this many matches.
const MATCH_EVERY: u64 = 4;
const MTU: u32 = 1500;
/// Interval of the checks for idleness, and the CPU time up to which Suricata counts as idle. It
/// must be idle in this many checks in a row.
const LOOK: Duration = Duration::from_millis(50);
const IDLE_NS: u64 = 5_000_000;
const IDLE_LOOKS: u32 = 4;
/// Time limit for Suricata to process the rest of its ring or log.
const DRAINED_WITHIN: Duration = Duration::from_secs(20);

/// A Suricata configuration.
pub(crate) struct Sensor {
    name: &'static str,
    is_in_line: bool,
    /// Whether it reads our log by our libpcap; otherwise it uses its own AF_PACKET.
    has_log: bool,
}

impl Sensor {
    pub(crate) const AFPACKET: Self =
        Self { name: "suricata-afpacket", is_in_line: false, has_log: false };
    pub(crate) const BURST: Self =
        Self { name: "suricata-burst", is_in_line: false, has_log: true };
    pub(crate) const INLINE_AFPACKET: Self =
        Self { name: "suricata-inline-afpacket", is_in_line: true, has_log: false };
    pub(crate) const INLINE_BURST: Self =
        Self { name: "suricata-inline-burst", is_in_line: true, has_log: true };

    /// Returns Suricata's arguments. `name` is the log that it reads, `log` its output folder.
    fn words(&self, name: &str, log: &str) -> String {
        match (self.has_log, self.is_in_line) {
            (true, false) => Workers(1).on_log(&format!("{name}?lossless")),
            (true, true) => behind_bounce(name, log),
            (false, false) => Workers(1).on_interface(),
            (false, true) => between_interfaces(),
        }
    }

    /// Returns the publisher, if Suricata reads a log. It waits for its reader, so packets that do
    /// not fit are lost before they are copied.
    fn switch(&self, program: &Path, name: &str) -> Option<Ours> {
        self.has_log.then(|| match self.is_in_line {
            true => bounce(program, name),
            false => publish(program, "count", &format!("'{name}?lossless=5s'")),
        })
    }
}

impl Adapter for Sensor {
    fn name(&self) -> &'static str {
        self.name
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Match]
    }

    fn version(&self) -> String {
        version()
    }

    fn has_start(&self, _: Work) -> bool {
        true
    }

    fn can_run(&self) -> Result<(), String> {
        lacks()?.map_or(Ok(()), Err)?;
        self.has_parts()
    }

    fn has_parts(&self) -> Result<(), String> {
        if self.has_log { our_library().map(drop) } else { Ok(()) }
    }

    fn refuses(&self, case: Option<&str>) -> Option<String> {
        let is_alone = case.is_some_and(|case| case.starts_with("0+1"));
        let why = "its switch is the kernel, which works on the sender's core";
        (is_alone && !self.has_log).then(|| why.to_owned())
    }

    /// The command as typed in a clone of the repository.
    fn command(&self, _: &Job<'_>) -> String {
        const PCAP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../pcap");
        let words = self.words("tap", "log").replace(PCAP, "crates/pcap");
        let suricata = format!("suricata {words}");
        let switch = self.switch(Path::new("burstline"), "tap");
        let switch = switch.map(|switch| switch.command(Memory::of_a_start()) + "; ");
        switch.unwrap_or_default() + &suricata
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        let case = job.case.unwrap_or("1+1");
        let every = case.ends_with("matches").then_some(MATCH_EVERY);
        let work = crate::sensors::Work::new(PACKETS, RULES, every, "alert");
        let cores = cores(job)?;
        let (road, served) = (Road::new(cores)?, Served::now());
        if self.is_in_line {
            road.bed().connect("w0", OUT, MTU).map_err(|error| error.to_string())?;
        }
        let (files, name) = (work.write(&road)?, road.file("tap"));
        let sensor_core = cores.consumer.0.to_string();
        let switch_core = match case.starts_with("0+1") {
            true => sensor_core.clone(),
            false => cores.producer.0.to_string(),
        };
        let began = Instant::now();
        let switch = self.switch(&our_program()?, &name);
        let switch = switch.map(|switch| Contender::start(&road, &switch_core, &switch, job.stop));
        let switch = switch.transpose()?;
        let words = self.words(&name, &files.log);
        let launch = Suricata::new(&files.log, &files.rules, &words, self.has_log)?;
        let suricata = Contender::start(&road, &sensor_core, &launch, job.stop)?;
        let ready = began.elapsed();
        let full = Full::of(job, &road, cores, &files, &suricata, switch.as_ref())?;
        let pages = pages_of(std::iter::once(&suricata).chain(&switch).map(Contender::process_id));
        // End it before Suricata's worker, or packets in flight would be lost.
        if let Some(switch) = switch {
            Report::of_its_own(&switch.end()?.0)?;
        }
        let (said, _) = suricata.end()?;
        let log = Path::new(&files.log);
        let count = |key| counter(log, key).map_err(|why| format!("{why}: {said}"));
        let (packets, bytes) = match self.is_in_line {
            true => full.came_back,
            false => (count("decoder.pkts")?, count("decoder.bytes")?),
        };
        // In line, Suricata has no counters.
        let alerts = alerts(log).map_or(0, |alerts| alerts.len());
        if packets == 0 || (alerts > 0) != every.is_some() {
            return Err(format!("{packets} packets, {alerts} alerts: {said}"));
        }
        let mut sample = full.sample(packets, bytes);
        sample.pages = Some(pages);
        sample.set("ready_s", "s", ready.as_secs_f64());
        sample.set("matches", "matches", alerts as f64);
        let has_both = cores.are_two() && !case.starts_with("0+1");
        sample.set("cores", "cores", if has_both { 2.0 } else { 1.0 });
        sample.interfaces = on_hosts(road.bed(), &served);
        Ok(sample)
    }
}

/// The work of a Suricata that was never idle.
struct Full {
    sent: u64,
    /// Packets and bytes that left by the far interface.
    came_back: (u64, u64),
    spent: Spent,
    seconds: f64,
}

impl Full {
    fn of(
        job: &Job<'_>,
        road: &Road,
        cores: Cores,
        files: &Files,
        suricata: &Contender<'_>,
        switch: Option<&Contender<'_>>,
    ) -> Result<Self, String> {
        let how = match job.packets {
            Some(packets) => format!("--limit={packets}"),
            // tcpreplay counts in whole seconds.
            None => format!("--duration={}", job.time.as_secs_f64().ceil().max(1.0)),
        };
        let look = || {
            let spent = Spent::so_far(suricata, switch)?;
            // Zeros if there is no such interface.
            let counts = road.bed().near.counts("w0");
            Ok::<_, String>((spent, (counts.received, counts.received_bytes)))
        };
        let (before, began) = (look()?, Instant::now());
        let sent = files.send(road, cores, &["--topspeed", "--loop=0", &how])?.packets;
        let (mut end, mut seconds, mut idle) = (look()?, began.elapsed().as_secs_f64(), 0);
        let (mut last, drains) = (end, Instant::now());
        while idle < IDLE_LOOKS {
            go_on(job.stop)?;
            thread::sleep(LOOK);
            let now = look()?;
            // In line, Suricata polls all the time, and packets that wait are sent.
            let is_busy = match now.1 == before.1 {
                true => now.0.since(last.0).suricata_ns > IDLE_NS,
                false => now.1 != last.1,
            };
            (last, idle) = (now, idle + 1);
            if is_busy {
                (end, seconds, idle) = (now, began.elapsed().as_secs_f64(), 0);
            }
            if drains.elapsed() > DRAINED_WITHIN {
                return Err("Suricata is still busy".to_owned());
            }
        }
        let ((spent, (packets, bytes)), (spent_before, received_before)) = (end, before);
        let came_back = (packets - received_before.0, bytes - received_before.1);
        Ok(Self { sent, came_back, spent: spent.since(spent_before), seconds })
    }

    fn sample(&self, packets: u64, bytes: u64) -> Sample {
        let Self { sent, spent, seconds, .. } = *self;
        let mut sample = Sample::default();
        let (bits, basis) = ((bytes * 8) as f64, "without FCS");
        let all_ns = spent.suricata_ns + spent.beside_ns;
        let each = |ns: u64| ns as f64 / packets as f64;
        sample.set("packets", "packets", packets as f64);
        sample.set_on("gbps", "Gbit/s", basis, bits / seconds.max(1e-9) / 1e9);
        sample.set_on("gbps_per_core", "Gbit/s a core", basis, bits / all_ns.max(1) as f64);
        sample.set("sensor_ns", "ns per packet", each(spent.suricata_ns));
        sample.set("switch_ns", "ns per packet", each(spent.beside_ns));
        sample.set("offered_mpps", "Mpps", sent as f64 / seconds.max(1e-9) / 1e6);
        let lost = sent.saturating_sub(packets);
        sample.set("lost_percent", "%", 100.0 * lost as f64 / sent.max(1) as f64);
        sample
    }
}

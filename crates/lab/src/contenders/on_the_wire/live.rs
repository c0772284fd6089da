//! Runs contenders on network interfaces and measures around them.
//!
//! ```text
//!   receive:    injector --> v1: contender                      the contender's count
//!   forward:    injector --> v1: contender: w1 --> w0           the count of w0
//!   send:                    v1: contender --> v0               the count of v0
//!   latency:    see `latency`
//! ```
//!
//! The injector runs on the generator's core. The kernel works there, too, before a socket or a
//! part of the kernel gets a packet. So both cores count if packets are forwarded or sent.

mod measured;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use std::{fs, thread};

use burstline_sys::affinity::CoreId;
use burstline_testbed::{Amount, Target};
use burstline_wire::ethernet::GAP_BYTES;

use crate::contenders::core::Watch;
use crate::contenders::seconds::{self, LostBySecond, Seconds, Whom};
use crate::contenders::{Adapter, Job, Sample, duplex, latency, remote};
use crate::contest::go_on;
use crate::live::{Contender, Load, Need, ON_DISK, OUT, Road, STARTER, Store, missing_of};
use crate::programs::{Launch, Memory, READY_WITHIN, Words};
use crate::record::Pages;
use crate::rfc2544;
use crate::scenario::machine::{Served, on_hosts};
use crate::scenario::{Rate, Work};
use crate::threads::Cores;
pub(crate) use measured::{Measured, events};

/// MTU of the cables, unless frames are longer.
const MTU: u32 = 1500;

/// Time from the first packet to the start of the measurement.
const WARM_UP: Duration = Duration::from_millis(300);

/// A contender on an interface.
pub trait Live: Sync {
    /// As [`Adapter::name`].
    fn name(&self) -> &'static str;

    /// As [`Adapter::works`].
    fn works(&self) -> &'static [Work];

    /// Programs that it needs.
    fn needs(&self) -> &'static [Need] {
        &[]
    }

    /// Whether it is an external program.
    fn is_program(&self) -> bool {
        true
    }

    /// As [`Adapter::version`].
    fn version(&self) -> String {
        String::new()
    }

    /// As [`Adapter::is_switch`].
    fn is_switch(&self) -> bool {
        false
    }

    /// As [`Adapter::has_remote`].
    fn has_remote(&self) -> bool {
        false
    }

    /// As [`Adapter::can_run`], apart from the programs it needs.
    ///
    /// # Errors
    /// As there.
    fn can_run(&self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the receiver of the injector's frames.
    fn receiver(&self, _: Work) -> Target {
        Target::Stack
    }

    /// Returns how to start its program, if it is one.
    fn launch(&self, _: &Job<'_>) -> Box<dyn Launch> {
        Box::new(Words::default())
    }

    /// As [`Adapter::command`].
    fn command(&self, job: &Job<'_>) -> String {
        self.launch(job).command(Memory::of_a_start())
    }

    /// The cores that its threads may run on.
    fn cores(&self, job: &Job<'_>) -> String {
        job.core_list()
    }

    /// Parses its counts of this many frames from its output. The default has no counts.
    ///
    /// # Errors
    /// If the output has no counts.
    fn own(&self, _: &str, _: u64) -> Result<Own, String> {
        Ok(Own::default())
    }

    /// The same if the number of frames is not known here.
    ///
    /// # Errors
    /// As there.
    fn own_remote(&self, said: &str) -> Result<Own, String> {
        self.own(said, 0)
    }

    /// Starts it and waits until it is ready.
    ///
    /// # Errors
    /// If it does not start or does not get ready.
    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        start_process(self, job, road)
    }
}

/// Starts a contender that is a program.
///
/// # Errors
/// As [`Live::start`].
pub(crate) fn start_process<'a, L: Live + ?Sized>(
    live: &'a L,
    job: &Job<'_>,
    road: &'a Road,
) -> Result<Box<dyn Running + 'a>, String> {
    let program = Contender::start(road, &live.cores(job), &*live.launch(job), job.stop)?;
    let is_remote = job.remote.is_some();
    let own = move |said: &str, offered| match is_remote {
        true => live.own_remote(said),
        false => live.own(said, offered),
    };
    Ok(Box::new(Started { program, own }))
}

/// A contender that is ready.
pub trait Running {
    /// Returns its own processes, if any.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns whether its process has ended on its own.
    fn has_ended(&self) -> bool {
        false
    }

    /// Returns its output so far.
    fn said(&self) -> String {
        String::new()
    }

    /// Ends it. Returns its counts if it received this many frames.
    ///
    /// # Errors
    /// If it fails or does not report.
    fn end(self: Box<Self>, offered: u64) -> Result<Own, String>;
}

/// What a contender reports.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    /// Packets that it counted, wrote or forwarded.
    pub delivered: u64,
    /// Packets that reached it, if it counts them independently of its work.
    pub offered: Option<u64>,
    /// Packets that it knows it lost, by name.
    pub losses: BTreeMap<String, u64>,
    /// Busy seconds by stage.
    pub busy: Vec<(String, f64)>,
    /// Packets lost in each second since the first arrived.
    pub lost_each_second: Vec<f64>,
    /// The seconds with losses, by place.
    pub(crate) lost_by_second: LostBySecond,
    /// Pages of its processes just before they ended.
    pub pages: Option<Pages>,
    /// Processor time of its processes, from start to end, in ns, without softirqs.
    pub process_ns: Option<u64>,
}

impl Own {
    /// Adds the losses out of this many packets; losses it does not name become `unnamed`.
    pub(crate) fn enter_losses(&self, offered: u64, sample: &mut Sample) {
        let lost = offered.saturating_sub(self.delivered);
        sample.set("lost", "packets", lost as f64);
        sample.set("lost_percent", "%", 100.0 * lost as f64 / offered.max(1) as f64);
        let named: u64 = self.losses.values().sum();
        if lost > named {
            sample.losses.insert("unnamed".to_owned(), lost - named);
        }
    }
}

struct Started<'a, F> {
    program: Contender<'a>,
    own: F,
}

impl<F: Fn(&str, u64) -> Result<Own, String>> Running for Started<'_, F> {
    fn processes(&self) -> Vec<u32> {
        vec![self.program.process_id()]
    }

    fn has_ended(&self) -> bool {
        self.program.has_ended()
    }

    fn said(&self) -> String {
        self.program.printed()
    }

    fn end(self: Box<Self>, offered: u64) -> Result<Own, String> {
        let pages = Some(self.program.pages());
        let (said, used) = self.program.end()?;
        let process_ns = Some(used.user_ns + used.system_ns);
        Ok(Own { pages, process_ns, ..(self.own)(&said, offered)? })
    }
}

/// A live contender as an adapter.
pub struct OnRoad<L>(pub L);

impl<L: Live> Adapter for OnRoad<L> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn works(&self) -> &'static [Work] {
        self.0.works()
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn is_switch(&self) -> bool {
        self.0.is_switch()
    }

    fn has_remote(&self) -> bool {
        self.0.has_remote()
    }

    fn can_run(&self) -> Result<(), String> {
        self.0.can_run()?;
        let starter = if self.0.is_program() { &STARTER[..] } else { &[] };
        missing_of(self.0.needs().iter().chain(starter)).map_or(Ok(()), Err)
    }

    fn command(&self, job: &Job<'_>) -> String {
        self.0.command(job)
    }

    fn measure(&self, job: &Job<'_>) -> Result<Sample, String> {
        // Dropped last, because the road's files are in it.
        let is_in_memory = job.work == Work::Record && job.case != Some(ON_DISK);
        let store = is_in_memory.then(|| Store::new(file_bytes(job))).transpose()?;
        if let Some(remote) = job.remote {
            store.as_ref().map_or(Ok(()), Store::warm)?;
            return remote::measure(&self.0, job, remote);
        }
        let (road, served) = (road(job)?, Served::now());
        store.as_ref().map_or(Ok(()), Store::warm)?;
        let mut sample = match job.work {
            Work::Generate => send(&self.0, job, &road),
            Work::Latency => latency::measure(&self.0, job, &road),
            Work::Duplex => duplex::measure(&self.0, job, &road),
            Work::Rfc2544 => rfc2544::measure(&self.0, job, &road),
            _ => receive(&self.0, job, &road),
        }?;
        sample.interfaces = on_hosts(road.bed(), &served);
        Ok(sample)
    }
}

/// Returns the size of the largest file that a job's packets can fill, with some room.
fn file_bytes(job: &Job<'_>) -> u64 {
    const BESIDE_BYTES: u32 = 64;
    let line_pps = job.link_gbps * 1e9 / 8.0 / f64::from(job.size_bytes + GAP_BYTES);
    let pps = match job.rate {
        Rate::Max => line_pps,
        Rate::PerSecond(packets) => packets as f64,
    };
    let packets = job.packets.unwrap_or((pps * job.time.as_secs_f64()) as u64);
    packets * u64::from(job.size_bytes + BESIDE_BYTES)
}

/// Returns the generator's core and the contender's first core.
pub(crate) fn cores(job: &Job<'_>) -> Result<Cores, String> {
    let consumer = *job.places.contender.first().ok_or("no core for the contender")?;
    Ok(Cores { producer: job.places.generator, consumer })
}

fn road(job: &Job<'_>) -> Result<Road, String> {
    let cores = cores(job)?;
    let mtu = job.size_bytes.saturating_sub(rfc2544::FRAME_OVERHEAD).max(MTU);
    let road = Road::for_case(job.case, cores, job.comes_in.len(), mtu)?;
    if job.work.comes_out() || job.work == Work::Duplex {
        road.bed().connect("w0", OUT, mtu).map_err(|error| error.to_string())?;
    }
    // Spreading packets by flow needs several flows.
    Ok(if job.work == Work::Balance { road.with_flows() } else { road })
}

/// Returns the cores whose time counts: not a latency tester's, nor another machine's.
pub(crate) fn counted(job: &Job<'_>) -> Vec<CoreId> {
    let mut cores = job.places.contender.clone();
    let is_timed = job.work == Work::Latency || job.remote.is_some();
    if !is_timed && (job.work.comes_out() || job.work == Work::Generate) {
        cores.push(job.places.generator);
    }
    cores.sort();
    cores.dedup();
    cores
}

/// Returns the injector's load.
pub(crate) fn load(job: &Job<'_>) -> Load {
    let amount = job.packets.map_or(Amount::Time(job.time), Amount::Frames);
    let rate_pps = match job.rate {
        Rate::Max => None,
        Rate::PerSecond(packets) => Some(packets),
    };
    Load { amount, rate_pps }
}

fn receive(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let began = Instant::now();
    let running = live.start(job, road)?;
    let ready = began.elapsed();
    let came_out = || road.bed().near.counts("w0").received;
    let before = came_out();
    let cores = counted(job);
    let load = load(job);
    // Turns with a fixed number of packets search for the cause of each loss.
    let whom = job.packets.map(|_| whom(job, road, running.processes()));
    let (injected, (seen, seconds)) = road.inject_watched(
        live.receiver(job.work),
        load,
        job.frame_bytes(),
        job.stop,
        move || Ok((Watch::start(&cores)?, whom.map(Seconds::start))),
        |(watch, seconds)| Ok((watch.seen()?, seconds.map(Seconds::end))),
    )?;
    let mut own = running.end(injected.offered)?;
    if job.work.comes_out() {
        own.delivered = came_out() - before;
    }
    if own.delivered == 0 {
        return Err(format!("none of {} packets came through", injected.offered));
    }
    let seconds_of = injected.elapsed.as_secs_f64();
    let measured = Measured { ready, seconds: seconds_of, watched: seconds_of, seen, own };
    let mut sample = measured.sample(job);
    measured.offered(injected.offered, &mut sample);
    enter_file(job, road, &mut sample)?;
    if let Some(taken) = seconds {
        seconds::enter(&taken, &measured.own.lost_by_second, &mut sample);
    }
    Ok(sample)
}

/// Adds the size of a recording.
pub(crate) fn enter_file(job: &Job<'_>, road: &Road, sample: &mut Sample) -> Result<(), String> {
    if job.work == Work::Record {
        let file = road.data_file();
        let bytes = fs::metadata(&file).map_err(|error| format!("{file}: {error}"))?.len();
        sample.set("file_bytes", "bytes", bytes as f64);
    }
    Ok(())
}

fn whom(job: &Job<'_>, road: &Road, processes: Vec<u32>) -> Whom {
    let generator_core = job.places.generator;
    let cores = [&job.places.contender[..], &[generator_core]].concat();
    Whom { processes, generator: road.bed().far.thread_id(), generator_core, cores }
}

fn send(live: &impl Live, job: &Job<'_>, road: &Road) -> Result<Sample, String> {
    let began = Instant::now();
    let running = live.start(job, road)?;
    let received = || road.bed().near.counts("v0").received;
    wait_until_sent(job, &*running, received)?;
    let ready = began.elapsed();
    let watch = Watch::start(&counted(job))?;
    let (start, before) = (Instant::now(), received());
    while start.elapsed() < job.time {
        thread::sleep(job.time.saturating_sub(start.elapsed()).min(Duration::from_millis(100)));
        go_on(job.stop)?;
    }
    let (seconds, delivered) = (start.elapsed().as_secs_f64(), received() - before);
    let seen = watch.seen()?;
    let own = running.end(0)?;
    if delivered == 0 {
        return Err("it stopped sending".to_owned());
    }
    let own = Own { delivered, busy: Vec::new(), ..own };
    Ok(Measured { ready, seconds, watched: seconds, seen, own }.sample(job))
}

/// Waits until a contender sends and has warmed up.
pub(crate) fn wait_until_sent(
    job: &Job<'_>,
    running: &dyn Running,
    received: impl Fn() -> u64,
) -> Result<(), String> {
    let began = Instant::now();
    while received() == 0 {
        go_on(job.stop)?;
        let (is_over, spent) = (running.has_ended(), began.elapsed());
        if is_over || spent > READY_WITHIN {
            let how = if is_over { "and has exited" } else { "yet" };
            let (spent, said) = (spent.as_secs(), running.said());
            return Err(format!("after {spent} s it has sent nothing {how}: {}", said.trim()));
        }
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(WARM_UP);
    Ok(())
}

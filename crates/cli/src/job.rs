//! Runs a job of the engine on another thread and shows its progress.

use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use burstline_engine::{
    EngineError, Inlet, Inline, InlineReport, Limits, Placed, PlacementRequest, Progress, Report,
    Run, Threads, Workers,
};
use burstline_log::MAX_PACKET_BYTES;
use burstline_port::{
    Address, Losses, OpenOptions, PortAccount, PortError, PortTable, Sink, open_set,
};
use burstline_sys::privileges;
use burstline_wire::hash::HashKind;

use crate::args::values::{Cores, Node};
use crate::args::{CommonArgs, JobArgs, SourceArgs};
use crate::confinement::{self, is_of_files, takes_rights};
use crate::failure::{Failure, complain};
use crate::outcome::{Demands, Outcome};
use crate::serving::{Server, Sight};
use crate::view::{View, announce, live};
use crate::wall_clock::WallClock;
use crate::words::{count_text, link_text, size_text};
use crate::{signals, supervised};

impl CommonArgs {
    /// Returns the options with which the ports of this job are opened.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.source.open_options(self.hash)
    }
}

impl SourceArgs {
    /// Returns the options with which the ports of this job are opened, with this hash.
    pub(crate) fn open_options(&self, hash: HashKind) -> OpenOptions {
        OpenOptions {
            table: PortTable::new(),
            hash,
            snapshot_bytes: self.snaplen,
            filter: self.filter.clone().unwrap_or_default(),
            only: self.only.clone().unwrap_or_default(),
            may_steal: self.steal,
            ..OpenOptions::default()
        }
    }

    /// Places a job with these sources and workers.
    pub(crate) fn place(&self, workers: &Workers) -> Result<Placed, Failure> {
        self.place_at(self.ports(), workers)
    }

    /// Returns whether there are more files than port numbers. They are then opened as one port: a
    /// set of files in time order.
    pub(crate) fn is_one_set(&self) -> bool {
        let is_file = |source: &Address| source.is_file() && !source.is_standard();
        self.sources.len() > PortTable::MAX_ENTRIES && self.sources.iter().all(is_file)
    }

    /// Returns the ports to place threads for: every source, or one for the set of files.
    pub(crate) fn ports(&self) -> &[Address] {
        if self.is_one_set() { &self.sources[..1] } else { &self.sources }
    }

    /// Opens the sources, in order.
    pub(crate) fn open_sources(&self, options: &OpenOptions) -> Result<Vec<Inlet>, Failure> {
        Ok(self.open_each(options)?.into_iter().flatten().collect())
    }

    /// As [`open_sources`](Self::open_sources), with the ports grouped by source.
    pub(crate) fn open_each(&self, options: &OpenOptions) -> Result<Vec<Vec<Inlet>>, Failure> {
        if self.is_one_set() {
            confinement::give_up_before_files(self)?;
            let paths: Vec<_> = self.sources.iter().map(|file| file.target().into()).collect();
            let name = format!("{} files", paths.len());
            let set = open_set(&name, &paths, options).map_err(EngineError::from)?;
            return Ok(vec![vec![Inlet::of(set)]]);
        }
        let (sources, most) = (self.sources.len(), PortTable::MAX_ENTRIES);
        if sources > most {
            let what =
                format!("{sources} sources: at most {most} sources per run; split the input");
            return Err(Failure::usage(what));
        }
        let takes_away = self.sources.iter().any(Address::takes_away);
        if !takes_away && (self.only.is_some() || self.steal) {
            return Err(Failure::usage("--only and --steal apply to xdp: sources; there is none"));
        }
        let mut opened: Vec<_> = self.sources.iter().map(|_| Vec::new()).collect();
        // Files are read once all rights are gone, and other ports take some.
        let is_last = |address: &Address| confinement::is_early() && is_of_files(address);
        for are_last in [false, true] {
            if are_last {
                confinement::give_up_before_files(self)?;
            }
            for (address, inlets) in self.sources.iter().zip(&mut opened) {
                if is_last(address) == are_last {
                    *inlets = Inlet::open_all(address, options)?;
                }
            }
        }
        self.warn(opened.iter().flatten().map(|source| source.port().account()));
        self.announce_sources(&opened, options);
        Ok(opened)
    }

    /// Announces the interfaces that the job now captures from.
    fn announce_sources(&self, opened: &[Vec<Inlet>], options: &OpenOptions) {
        let snaplen = options.snapshot_bytes.unwrap_or(MAX_PACKET_BYTES as u32);
        let table = options.table.entries_from(0);
        for (address, sources) in self.sources.iter().zip(opened) {
            let rings = sources.iter().map(|source| source.port().account().ring_bytes);
            let (queues, ring_bytes) = (sources.len(), rings.sum::<u64>() as usize);
            let first = sources.first().and_then(|source| table.get(source.interfaces().start));
            let Some(first) = first.filter(|_| ring_bytes > 0) else { continue };
            let (link, ring) = (link_text(first.link), size_text(ring_bytes));
            let queues = if queues > 1 { format!(", {queues} queues") } else { String::new() };
            self.job.announce(&format!(
                "listening on {address} ({link}, snaplen {snaplen}, ring {ring}{queues})"
            ));
        }
    }
}

impl JobArgs {
    /// Returns what the job must achieve besides closing its ledger.
    pub(crate) fn demands(&self) -> Demands {
        let lossless_by = self.fail_on_loss.then_some("--fail-on-loss");
        Demands { lossless_by, ..Demands::default() }
    }

    /// The same for a job that has `--lossless`, with the value of that flag.
    pub(crate) fn demands_with(&self, is_lossless: bool) -> Demands {
        match is_lossless {
            true => Demands { lossless_by: Some("--lossless"), ..Demands::default() },
            false => self.demands(),
        }
    }

    /// Prints the warnings of the open ports, before the job begins.
    pub(crate) fn warn(&self, ports: impl Iterator<Item = PortAccount>) {
        // The ports of one interface have the same warnings.
        let mut said = Vec::new();
        for warning in ports.flat_map(|port| port.warnings) {
            if !self.quiet && !said.contains(&warning) {
                complain(&format!("warning: {warning}"));
                said.push(warning);
            }
        }
    }

    /// Announces on standard error what the job does with interfaces from now on.
    pub(crate) fn announce(&self, what: &str) {
        if !self.quiet {
            announce(what);
        }
    }

    /// Opens a sink before files are read, if it takes rights and the job then has none.
    pub(crate) fn open_sink_ahead(
        &self,
        address: &Address,
        options: &OpenOptions,
    ) -> Result<Option<Box<dyn Sink>>, Failure> {
        let is_ahead = confinement::is_early() && takes_rights(address);
        let opened = is_ahead.then(|| self.open_sink(address, options));
        Ok(opened.transpose().map_err(EngineError::from)?)
    }

    /// The same for several.
    pub(crate) fn open_sinks_ahead(
        &self,
        sinks: &[Address],
        options: &OpenOptions,
    ) -> Result<Vec<Option<Box<dyn Sink>>>, Failure> {
        sinks.iter().map(|sink| self.open_sink_ahead(sink, options)).collect()
    }

    /// Returns a sink that was opened ahead, or opens it.
    pub(crate) fn open_sink_now(
        &self,
        ahead: Option<Box<dyn Sink>>,
        address: &Address,
        options: &OpenOptions,
    ) -> Result<Box<dyn Sink>, PortError> {
        ahead.map_or_else(|| self.open_sink(address, options), Ok)
    }

    /// Opens a sink, and announces it if it sends to an interface.
    pub(crate) fn open_sink(
        &self,
        address: &Address,
        options: &OpenOptions,
    ) -> Result<Box<dyn Sink>, PortError> {
        let sink = burstline_port::open_sink(address, options)?;
        if address.leads_to_interface() {
            self.announce(&format!("sending to {address}"));
        }
        Ok(sink)
    }

    /// Places a job with a thread for each of `ports` and its workers, according to the flags.
    pub(crate) fn place_at(&self, ports: &[Address], workers: &Workers) -> Result<Placed, Failure> {
        self.place_receiving(ports, workers, 1)
    }

    /// As [`place_at`](Self::place_at), with this many threads that fill logs.
    pub(crate) fn place_receiving(
        &self,
        ports: &[Address],
        workers: &Workers,
        receivers: usize,
    ) -> Result<Placed, Failure> {
        let (cores, wants_cores) = match &self.cores {
            Some(Cores::List(cores)) => (cores.clone(), true),
            Some(Cores::Auto) => (Vec::new(), true),
            None => (Vec::new(), false),
        };
        let node = match self.node {
            Node::Number(node) => Some(node),
            Node::Auto => None,
        };
        let request = PlacementRequest {
            threads: Threads {
                class: self.priority,
                poll: self.poll,
                keeps_privileges: self.keep_privileges,
                ..Threads::default()
            },
            cores,
            wants_cores,
            node,
            placement: self.forced.placement.clone(),
            pool_node: self.forced.pool_node,
            stack_node: self.forced.stack_node,
        };
        Ok(request.place_receiving(ports, workers, receivers).map_err(EngineError::from)?)
    }

    /// Returns a run of the job with the limits from the command line.
    pub(crate) fn run<'a>(&self, stop: &'a AtomicBool, progress: &'a Progress) -> Run<'a> {
        let limits = Limits { packets: self.packets, duration_ns: self.duration };
        Run { stop, progress, limits }
    }
}

/// Returns the names of the sources.
pub(crate) fn names(sources: &[Inlet]) -> Vec<String> {
    sources.iter().map(|source| source.port().info().name.clone()).collect()
}

/// Runs a job, shows its progress and prints its result.
///
/// `demands`: what the job must achieve besides closing its ledger. `keeps_privileges`: unless set,
/// this thread drops its capabilities. The job's threads drop theirs themselves.
pub(crate) fn run(
    view: &mut View,
    run: &Run<'_>,
    demands: &Demands,
    keeps_privileges: bool,
    work: impl FnOnce() -> Result<Report, EngineError> + Send,
) -> Result<ExitCode, Failure> {
    let report = watch(view, run, keeps_privileges, work)?;
    conclude(view, &report, demands)
}

/// Runs a job and shows its progress; `keeps_privileges` as in [`run`].
pub(crate) fn watch<T: Send + 'static>(
    view: &mut View,
    run: &Run<'_>,
    keeps_privileges: bool,
    work: impl FnOnce() -> Result<T, EngineError> + Send,
) -> Result<T, Failure> {
    let mut server = Server::bind(view.places())?;
    for words in server.iter().flat_map(Server::words) {
        view.announce(&words);
    }
    if server.as_ref().is_some_and(Server::has_given) {
        supervised::tell_serving();
    }
    let about = view.about();
    let is_over = AtomicBool::new(false);
    let watched = thread::scope(|scope| {
        let _over = Over(&is_over);
        if let Some(server) = &mut server {
            let (sight, is_over) = (Sight { about: &about, progress: run.progress }, &is_over);
            start(scope, "serve", move || server.serve(&sight, is_over))?;
        }
        // Room for one request beside the result: requests that arrive before an answer are merged.
        let (send, receive) = mpsc::sync_channel(2);
        let ask = send.clone();
        let _answering = signals::answer_by(move || {
            let _ = ask.try_send(Event::Asked);
        });
        let job = move || {
            // This fails only without a receiver, which lives until this thread has ended.
            let _ = send.send(Event::Done(Box::new(work())));
        };
        start(scope, "job", job)?;
        // The job's thread has already started with our rights, which it needs to open the output.
        // If dropping them fails here, the job's own threads report the same error.
        let _ = keeps_privileges || privileges::give_up().is_ok();
        Ok(show(view, run, &receive)?)
    });
    // Clients of the server learn the outcome later, when it is known.
    match (server, &watched) {
        (None, _) => {}
        (Some(server), Ok(_)) => view.keep(server),
        (Some(server), Err(failure)) => {
            let failure: &Failure = failure;
            server.end(live::End::Failed(failure.to_string()));
        }
    }
    watched
}

/// Starts a scoped thread.
pub(crate) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    work: impl FnOnce() + Send + 's,
) -> Result<(), EngineError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map(drop).map_err(|error| EngineError::Thread { name: name.to_owned(), error })
}

/// Runs work on a thread of its own, and waits for it. What the thread gives up, this one keeps.
pub(crate) fn apart<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    thread::scope(|scope| {
        let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
        let started = started.map_err(|error| EngineError::Thread { name: name.to_owned(), error });
        Ok(started?.join().unwrap_or_else(|panic| resume_unwind(panic)))
    })
}

/// Shows a job until it ends.
fn show<T>(view: &mut View, run: &Run<'_>, receive: &Receiver<Event<T>>) -> Result<T, EngineError> {
    let mut due = Instant::now();
    let mut is_started = false;
    let mut losing = Losing::default();
    let mut wall_clock = WallClock::default();
    loop {
        let interval = view.interval().unwrap_or(Duration::from_secs(3600));
        // Nothing to show until the job has begun.
        let left = due.saturating_duration_since(Instant::now());
        let patience = if is_started { left.min(LOOK) } else { STARTING };
        match receive.recv_timeout(patience) {
            Ok(Event::Done(result)) => {
                // Losses are in the report.
                run.progress.take_news().iter().for_each(|news| view.announce(news));
                view.clear_live();
                return *result;
            }
            Ok(Event::Asked) => {
                losing.tell(view, run.progress);
                view.answer(&run.progress.snapshot());
            }
            Err(RecvTimeoutError::Disconnected) => unreachable!("the job sends its result"),
            Err(RecvTimeoutError::Timeout) if !is_started => {
                is_started = run.progress.snapshot().is_started;
                due = Instant::now() + interval;
                view.begin();
                if is_started {
                    supervised::tell_started();
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                losing.tell(view, run.progress);
                wall_clock.look().iter().for_each(|jump| view.announce(jump));
                if Instant::now() < due {
                    continue;
                }
                // Skip lines that are late: two in a row would carry no information.
                due = (due + interval).max(Instant::now() + interval / 2);
                if view.show(&run.progress.snapshot()).is_err() {
                    // The reader of our lines has closed its end, so stop the job. The flag carries
                    // no memory.
                    run.stop.store(true, Relaxed);
                }
            }
        }
    }
}

/// Ends the serving thread when the job ends.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed); // a request only, carries no memory
    }
}

/// Events for the thread that shows a job.
enum Event<T> {
    /// The job has ended.
    Done(Box<Result<T, EngineError>>),
    /// A signal asked for statistics.
    Asked,
}

/// Interval between polls of a job that has not begun.
const STARTING: Duration = Duration::from_millis(1);

/// Interval between polls of a running job for news.
const LOOK: Duration = Duration::from_millis(100);

/// After this long without a loss, the next loss is announced again.
const CALM: Duration = Duration::from_secs(10);

/// Whether a job is losing packets.
#[derive(Debug, Default)]
struct Losing {
    packets: u64,
    last: Option<Instant>,
}

impl Losing {
    /// Announces events since the last call, and the beginning of losses.
    fn tell(&mut self, view: &View, progress: &Progress) {
        progress.take_news().iter().for_each(|news| view.announce(news));
        if let Some(losses) = self.begun(&progress.snapshot().lost, Instant::now()) {
            view.announce(&losses);
        }
    }

    /// Returns the announcement if losses have begun.
    fn begun(&mut self, lost: &Losses, now: Instant) -> Option<String> {
        let packets = lost.missing();
        if packets <= self.packets {
            return None;
        }
        self.packets = packets;
        let last = self.last.replace(now);
        let was_calm = last.is_none_or(|last| now.duration_since(last) >= CALM);
        let causes = lost.iter().filter(|&(cause, packets)| packets > 0 && !cause.is_choice());
        let causes: Vec<_> = causes.map(|(cause, _)| cause.name()).collect();
        let packets = count_text(packets);
        was_calm.then(|| format!("losing packets: {packets} so far ({})", causes.join(", ")))
    }
}

/// Ends the publication for verdicts, if there is one, after the job has ended.
pub(crate) fn end_inline(
    inline: Option<Inline>,
    stop: &AtomicBool,
    report: &mut Report,
) -> Option<InlineReport> {
    let is_stopped = stop.load(Relaxed) || !report.errors.is_empty(); // a wish, carries no memory
    inline.map(|inline| inline.end(is_stopped, report))
}

/// Prints the report and returns the exit code.
pub(crate) fn conclude(
    view: &View,
    report: &Report,
    demands: &Demands,
) -> Result<ExitCode, Failure> {
    // The ports of one interface report the same errors: print each once.
    let mut said = Vec::new();
    for error in report.errors.iter().map(ToString::to_string) {
        if !said.contains(&error) {
            complain(&error);
            said.push(error);
        }
    }
    let outcome = Outcome::of(report, demands);
    outcome.complain();
    view.tell_end(report, &outcome);
    view.finish(report, &outcome)?;
    Ok(outcome.exit_code())
}

#[cfg(test)]
mod tests {
    use burstline_port::Loss;

    use super::*;

    #[test]
    fn the_begin_of_losses_is_told_once_until_they_pause() {
        let mut losing = Losing::default();
        let mut lost = Losses::default();
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        lost.add(Loss::Filtered, 5);
        assert_eq!(losing.begun(&lost, start), None, "what was filtered is not lost");
        lost.add(Loss::RxRingFull, 1);
        let told = losing.begun(&lost, start);
        assert_eq!(told.as_deref(), Some("losing packets: 1 so far (rx_ring_full)"));
        for after in 1..20 {
            lost.add(Loss::RxRingFull, 10);
            assert_eq!(losing.begun(&lost, start + second * after), None, "they go on");
        }
        assert_eq!(losing.begun(&lost, start + second * 40), None, "there are no more");
        lost.add(Loss::DiskFull, 10);
        let told = losing.begun(&lost, start + second * 40).unwrap();
        assert_eq!(told, "losing packets: 201 so far (rx_ring_full, disk_full)");
    }
}

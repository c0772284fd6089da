//! Running a job of the engine on a thread beside, and looking at it meanwhile.

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
use crate::failure::{Failure, complain};
use crate::outcome::{Demands, Outcome};
use crate::serving::{Server, Sight};
use crate::view::{View, announce, live};
use crate::wall_clock::WallClock;
use crate::words::{count_text, link_text, size_text};
use crate::{signals, supervised};

impl CommonArgs {
    /// What the ports of this job are opened with.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.source.open_options(self.hash)
    }
}

impl SourceArgs {
    /// What the ports of this job are opened with, to compute this hash.
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

    /// Places a job of these sources and workers.
    pub(crate) fn place(&self, workers: &Workers) -> Result<Placed, Failure> {
        self.place_at(self.ports(), workers)
    }

    /// Whether the sources are more files than ports can be told apart: they are then one port, a
    /// set in order of time.
    pub(crate) fn is_one_set(&self) -> bool {
        let is_file = |source: &Address| source.is_file() && !source.is_standard();
        self.sources.len() > PortTable::MAX_ENTRIES && self.sources.iter().all(is_file)
    }

    /// What threads are placed for: a port each, or the one set.
    pub(crate) fn ports(&self) -> &[Address] {
        if self.is_one_set() { &self.sources[..1] } else { &self.sources }
    }

    /// Opens the sources, in order.
    pub(crate) fn open_sources(&self, options: &OpenOptions) -> Result<Vec<Inlet>, Failure> {
        Ok(self.open_each(options)?.into_iter().flatten().collect())
    }

    /// As [`open_sources`](Self::open_sources), with the ports of each source by themselves.
    pub(crate) fn open_each(&self, options: &OpenOptions) -> Result<Vec<Vec<Inlet>>, Failure> {
        if self.is_one_set() {
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
        let mut opened = Vec::new();
        for address in &self.sources {
            opened.push(Inlet::open_all(address, options)?);
        }
        self.warn(opened.iter().flatten().map(|source| source.port().account()));
        self.announce_sources(&opened, options);
        Ok(opened)
    }

    /// Says which interfaces are listened on from now on.
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
    /// What is asked of the job, besides that it closes its ledger.
    pub(crate) fn demands(&self) -> Demands {
        let lossless_by = self.fail_on_loss.then_some("--fail-on-loss");
        Demands { lossless_by, ..Demands::default() }
    }

    /// The same of a job that has `--lossless`, which may be given.
    pub(crate) fn demands_with(&self, is_lossless: bool) -> Demands {
        match is_lossless {
            true => Demands { lossless_by: Some("--lossless"), ..Demands::default() },
            false => self.demands(),
        }
    }

    /// Says at once what stops working because of ports that are open now.
    pub(crate) fn warn(&self, ports: impl Iterator<Item = PortAccount>) {
        // The ports of one interface say the same of it.
        let mut said = Vec::new();
        for warning in ports.flat_map(|port| port.warnings) {
            if !self.quiet && !said.contains(&warning) {
                complain(&format!("warning: {warning}"));
                said.push(warning);
            }
        }
    }

    /// Says on standard error what the job does from now on with interfaces.
    pub(crate) fn announce(&self, what: &str) {
        if !self.quiet {
            announce(what);
        }
    }

    /// Opens a sink, and says so if it sends to an interface.
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

    /// Places a job with a thread for each of `ports`, and its workers, as the flags say.
    pub(crate) fn place_at(&self, ports: &[Address], workers: &Workers) -> Result<Placed, Failure> {
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
        Ok(request.place(ports, workers).map_err(EngineError::from)?)
    }

    /// A run of the job, with the limits asked for.
    pub(crate) fn run<'a>(&self, stop: &'a AtomicBool, progress: &'a Progress) -> Run<'a> {
        let limits = Limits { packets: self.packets, duration_ns: self.duration };
        Run { stop, progress, limits }
    }
}

/// What sources are called.
pub(crate) fn names(sources: &[Inlet]) -> Vec<String> {
    sources.iter().map(|source| source.port().info().name.clone()).collect()
}

/// Runs a job, shows it while it runs, prints what came of it.
///
/// `demands`: what is asked of it, besides that it closes its ledger.
/// `keeps_privileges`: if not, this thread gives up its capabilities; the job's own do by
/// themselves.
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

/// Runs a job and shows it while it runs; `keeps_privileges` as in [`run`].
pub(crate) fn watch(
    view: &mut View,
    run: &Run<'_>,
    keeps_privileges: bool,
    work: impl FnOnce() -> Result<Report, EngineError> + Send,
) -> Result<Report, Failure> {
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
        // Room for one request beside the result: those that come faster than they are answered
        // are one.
        let (send, receive) = mpsc::sync_channel(2);
        let ask = send.clone();
        let _answering = signals::answer_by(move || {
            let _ = ask.try_send(Event::Asked);
        });
        let job = move || {
            // It fails only when the receiver is gone, and that waits for this.
            let _ = send.send(Event::Done(Box::new(work())));
        };
        start(scope, "job", job)?;
        // The job's thread has begun with our rights, which it needs to open the output. Where
        // giving up is refused, the job's own threads fail for the same reason and say so.
        let _ = keeps_privileges || privileges::give_up().is_ok();
        Ok(show(view, run, &receive)?)
    });
    // Those who watch learn how it ended when that is known.
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

/// Starts a thread beside this one.
pub(crate) fn start<'s>(
    scope: &'s Scope<'s, '_>,
    name: &str,
    work: impl FnOnce() + Send + 's,
) -> Result<(), EngineError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn_scoped(scope, work);
    started.map(drop).map_err(|error| EngineError::Thread { name: name.to_owned(), error })
}

/// Shows a job until it has come to its end.
fn show(view: &mut View, run: &Run<'_>, receive: &Receiver<Event>) -> Result<Report, EngineError> {
    let mut due = Instant::now();
    let mut is_started = false;
    let mut losing = Losing::default();
    let mut wall_clock = WallClock::default();
    loop {
        let interval = view.interval().unwrap_or(Duration::from_secs(3600));
        // Until the job has begun there is nothing to show.
        let left = due.saturating_duration_since(Instant::now());
        let patience = if is_started { left.min(LOOK) } else { STARTING };
        match receive.recv_timeout(patience) {
            Ok(Event::Done(result)) => {
                // Of losses the report tells.
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
                // Late lines are not made up for: two at once would say nothing.
                due = (due + interval).max(Instant::now() + interval / 2);
                if view.show(&run.progress.snapshot()).is_err() {
                    // Nobody reads our lines any more: the job has lost its purpose. The flag
                    // carries no memory.
                    run.stop.store(true, Relaxed);
                }
            }
        }
    }
}

/// Ends the thread that serves with the job.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed); // a wish, carries no memory
    }
}

/// What the thread that shows a job waits for.
enum Event {
    /// The job has come to its end.
    Done(Box<Result<Report, EngineError>>),
    /// Somebody wants to know how far it is.
    Asked,
}

/// How often a job that has not begun is looked at.
const STARTING: Duration = Duration::from_millis(1);

/// How often a job is looked at for news.
const LOOK: Duration = Duration::from_millis(100);

/// After this long without a loss, the next one is news again.
const CALM: Duration = Duration::from_secs(10);

/// Whether a job is losing packets.
#[derive(Debug, Default)]
struct Losing {
    packets: u64,
    last: Option<Instant>,
}

impl Losing {
    /// Says what has happened since the last call, and whether losses have begun.
    fn tell(&mut self, view: &View, progress: &Progress) {
        progress.take_news().iter().for_each(|news| view.announce(news));
        if let Some(losses) = self.begun(&progress.snapshot().lost, Instant::now()) {
            view.announce(&losses);
        }
    }

    /// What to say where losses begin.
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

/// Ends what was published for verdicts, where there was anything, once the job has.
pub(crate) fn end_inline(
    inline: Option<Inline>,
    stop: &AtomicBool,
    report: &mut Report,
) -> Option<InlineReport> {
    let is_stopped = stop.load(Relaxed) || !report.errors.is_empty(); // a wish, carries no memory
    inline.map(|inline| inline.end(is_stopped, report))
}

/// Prints the report, and says how the program ends.
pub(crate) fn conclude(
    view: &View,
    report: &Report,
    demands: &Demands,
) -> Result<ExitCode, Failure> {
    // The ports of one interface say the same of it: once is enough.
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

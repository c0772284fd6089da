//! Running a job of the engine on a thread beside, and looking at it meanwhile.

use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_engine::{
    EngineError, Inlet, Limits, Placed, PlacementRequest, Progress, Report, Run, Threads, Workers,
};
use burstline_port::{Address, OpenOptions, PortAccount, PortTable, open_set};
use burstline_sys::privileges;
use burstline_wire::hash::HashKind;

use crate::args::values::{Cores, Node};
use crate::args::{CommonArgs, JobArgs, SourceArgs};
use crate::failure::{Failure, complain};
use crate::outcome::{Demands, Outcome};
use crate::signals;
use crate::view::View;

impl CommonArgs {
    /// What the ports of this job are opened with.
    pub(crate) fn open_options(&self) -> OpenOptions {
        self.source.open_options(self.hash)
    }
}

impl SourceArgs {
    /// What the ports of this job are opened with, to compute such a hash.
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
        Ok(opened)
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
) -> Result<Report, EngineError> {
    thread::scope(|scope| {
        // Room for one request beside the result: those that come faster than they are answered
        // are one.
        let (send, receive) = mpsc::sync_channel(2);
        let ask = send.clone();
        let _answering = signals::answer_by(move || {
            let _ = ask.try_send(Event::Asked);
        });
        scope.spawn(move || {
            // It fails only when the receiver is gone, and that waits for this.
            let _ = send.send(Event::Done(Box::new(work())));
        });
        // The job's thread has begun with our rights, which it needs to open the output. Where
        // giving up is refused, the job's own threads fail for the same reason and say so.
        let _ = keeps_privileges || privileges::drop_all_capabilities().is_ok();
        let mut due = Instant::now();
        let mut is_started = false;
        loop {
            let interval = view.interval().unwrap_or(Duration::from_secs(3600));
            // Until the job has begun there is nothing to show.
            let patience = if is_started { due - Instant::now() } else { STARTING };
            match receive.recv_timeout(patience) {
                Ok(Event::Done(result)) => {
                    view.clear_live();
                    return *result;
                }
                Ok(Event::Asked) => view.answer(&run.progress.snapshot()),
                Err(RecvTimeoutError::Disconnected) => unreachable!("the job sends its result"),
                Err(RecvTimeoutError::Timeout) if !is_started => {
                    is_started = run.progress.snapshot().is_started;
                    due = Instant::now() + interval;
                    view.begin();
                }
                Err(RecvTimeoutError::Timeout) => {
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
    })
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
    view.finish(report, &outcome)?;
    Ok(outcome.exit_code())
}

//! The remote side: `burstline lab generator`, started by ssh.
//!
//! ```text
//!   standard input --> reader thread --> requests --> this thread --> replies --> standard output
//!                                                       |  ^
//!                                          a job's thread, with its own flag: generate, or trial
//! ```
//!
//! Requests are also read during a job: a `stop`, the end of the input, or silence sets the job's
//! flag (N1).

use std::io::{self, BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_engine::{Inlet, Integrity, Limits, Progress, Run, Threads, generate};
use burstline_port::{Address, OpenOptions, open_sink};
use burstline_sys::affinity::{CoreId, allowed_cores};
use burstline_testbed::Host;

use super::clocks::Now;
use super::is_there;
use super::words::{ALIVE_EVERY, Counts, Hello, Load, PROTOCOL, Reply, Request, Sent, Timed};
use crate::rfc2544::{Ends, TrialLoad};
use crate::scenario::machine;

/// Why the remote side ended.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The network interfaces cannot be read.
    #[error("read the network interfaces: {0}")]
    Network(String),
    /// The other side stopped sending.
    #[error("no request for {} s", .0.as_secs_f64())]
    Silence(Duration),
    /// The other side does not read replies.
    #[error("write a reply: {0}")]
    Reply(#[from] io::Error),
}

/// The state of this side.
struct Agent {
    port: Address,
    back: Option<Address>,
    core: CoreId,
    silence: Duration,
    here: Host,
    requests: Receiver<Request>,
    heard: Instant,
}

/// Answers requests until the input ends, `stop` is set, or nothing is received for too long.
///
/// # Errors
/// [`AgentError`].
pub fn serve(
    port: Address,
    back: Option<Address>,
    silence: Duration,
    stop: &AtomicBool,
) -> Result<(), AgentError> {
    let here = Host::here().map_err(|error| AgentError::Network(error.to_string()))?;
    let core = allowed_cores().ok().and_then(|cores| cores.first().copied()).unwrap_or(CoreId(0));
    let requests = requests();
    let mut agent = Agent { port, back, core, silence, here, requests, heard: Instant::now() };
    if let Some(name) = agent.missing() {
        return say(&Reply::Failed(format!("no interface {name} there")));
    }
    say(&agent.hello())?;
    // Relaxed: no other data depends on the flag.
    while !stop.load(Relaxed) {
        match agent.requests.recv_timeout(ALIVE_EVERY) {
            Ok(request) => {
                agent.heard = Instant::now();
                if let Some(reply) = agent.answer(&request, stop) {
                    say(&reply)?;
                }
            }
            Err(RecvTimeoutError::Timeout) if agent.heard.elapsed() < silence => {}
            Err(RecvTimeoutError::Timeout) => return Err(AgentError::Silence(silence)),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
    Ok(())
}

/// Reads standard input to its end. The thread ends with the process.
fn requests() -> Receiver<Request> {
    let (send, requests) = mpsc::channel();
    thread::spawn(move || {
        for line in io::stdin().lock().lines() {
            let Ok(line) = line else { return };
            // Both sides have the same version, so an invalid request is not from a valid client.
            let Ok(request) = serde_json::from_str(&line) else { return };
            if send.send(request).is_err() {
                return;
            }
        }
    });
    requests
}

fn say(reply: &Reply) -> Result<(), AgentError> {
    let line = serde_json::to_string(reply).map_err(io::Error::other)? + "\n";
    let mut output = io::stdout().lock();
    output.write_all(line.as_bytes())?;
    Ok(output.flush()?)
}

impl Agent {
    fn names(&self) -> Vec<String> {
        [Some(&self.port), self.back.as_ref()].into_iter().flatten().map(interface).collect()
    }

    /// Returns the name of a missing interface.
    fn missing(&self) -> Option<String> {
        self.names().into_iter().find(|name| !is_there(name))
    }

    fn hello(&self) -> Reply {
        let names = self.names();
        Reply::Hello(Box::new(Hello {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: machine::commit(),
            machine: machine::examine(),
            core: self.core.0,
            interfaces: machine::of_host(&self.here, "generator", &names),
        }))
    }

    fn answer(&mut self, request: &Request, stop: &AtomicBool) -> Option<Reply> {
        Some(match request {
            Request::Clocks => Reply::Clocks(Now::read()),
            Request::Counts => Reply::Counts(self.counts()),
            Request::Send(load) => self.work(*load, stop, send),
            Request::Time(load) => self.work(*load, stop, time),
            Request::Alive | Request::Stop => return None,
        })
    }

    fn counts(&self) -> Counts {
        let port = self.here.counts(&interface(&self.port));
        let back = self.back.as_ref().map(|back| self.here.counts(&interface(back)));
        Counts {
            sent: port.sent,
            sent_dropped: port.sent_dropped,
            received: back.unwrap_or_default().received,
        }
    }

    /// Runs a job on a separate thread and reads requests meanwhile.
    fn work(
        &mut self,
        load: Load,
        stop: &AtomicBool,
        job: fn(&Task, &Arc<AtomicBool>) -> Result<Reply, String>,
    ) -> Reply {
        let task = Task { port: self.port.clone(), back: self.back.clone(), core: self.core, load };
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let working = thread::spawn(move || job(&task, &flag));
        while !working.is_finished() {
            let heard = self.requests.recv_timeout(ALIVE_EVERY.min(Duration::from_millis(20)));
            let is_end = match heard {
                Ok(Request::Stop) | Err(RecvTimeoutError::Disconnected) => true,
                Ok(_) => false,
                Err(RecvTimeoutError::Timeout) => self.heard.elapsed() >= self.silence,
            };
            if heard.is_ok() {
                self.heard = Instant::now();
                // A failed reply shows when the job ends.
                let _ = say(&Reply::Working);
            }
            // Relaxed: no other data depends on the flags.
            if is_end || stop.load(Relaxed) {
                is_over.store(true, Relaxed);
                if heard == Err(RecvTimeoutError::Disconnected) {
                    thread::sleep(Duration::from_millis(20));
                }
            }
        }
        let done = working.join().unwrap_or_else(|_| Err("it panicked".to_owned()));
        done.unwrap_or_else(Reply::Failed)
    }
}

/// A job.
struct Task {
    port: Address,
    back: Option<Address>,
    core: CoreId,
    load: Load,
}

impl Task {
    fn threads(&self) -> Threads {
        Threads { cores: vec![self.core], ..Threads::default() }
    }
}

fn send(task: &Task, stop: &Arc<AtomicBool>) -> Result<Reply, String> {
    let Load { size_bytes, rate_pps, packets, .. } = task.load;
    let rate = rate_pps.map_or(String::new(), |pps| format!("&rate={pps:.3}"));
    let number = packets.map_or(String::new(), |packets| format!("&packets={packets}"));
    let address = format!("gen:?size={size_bytes}{rate}{number}");
    let address: Address = address.parse().map_err(text)?;
    let ports = OpenOptions::default();
    let source = Inlet::open(&address, &ports).map_err(text)?;
    let duration_ns = packets.is_none().then_some(task.load.time_ns);
    let progress = Progress::new(1);
    let run = Run::new(stop, &progress).within(Limits { packets: None, duration_ns });
    let open = || open_sink(&task.port, &ports);
    let done = generate(source, open, &task.threads(), &run).map_err(text)?;
    let total = &done.report.total;
    if let Some(error) = done.report.errors.first() {
        return Err(error.to_string());
    }
    if total.unaccounted != 0 {
        return Err(format!("{} packets unaccounted for at {}", total.unaccounted, task.port));
    }
    let lost = total.lost.iter().filter(|&(_, packets)| packets > 0);
    let lost = lost.map(|(cause, packets)| (cause.name().to_owned(), packets)).collect();
    let (made, sent, made_pps) = (total.offered, total.delivered, done.reached_pps);
    Ok(Reply::Sent(Sent { made, sent, lost, made_pps }))
}

fn time(task: &Task, stop: &Arc<AtomicBool>) -> Result<Reply, String> {
    let back = task.back.clone().ok_or("set back= to the interface where frames come back")?;
    let (tx, threads) = (task.port.clone(), task.threads());
    let (tx_threads, rx_threads) = (threads.clone(), threads);
    let (integrity, recipe) = (Integrity::Frame, String::new());
    let ends = Ends { tx, rx: back, tx_threads, rx_threads, integrity, recipe };
    let Load { size_bytes: size, rate_pps, packets, .. } = task.load;
    let load = TrialLoad { size, rate_pps, packets, duration: task.load.time() };
    let trial = ends.with_tester(stop, |tester| tester.run(load))?;
    Ok(Reply::Timed(Box::new(Timed::of(trial))))
}

fn interface(address: &Address) -> String {
    address.interface().map_or_else(|| address.target(), |(name, _)| name).to_owned()
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

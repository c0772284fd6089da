//! A minimal HTTP server for scrapers and the web page, on one thread beside the job.
//!
//! ```text
//!   --metrics ADDRESS ─► door ─┐               ┌─► /metrics          OpenMetrics
//!   --web ADDRESS ─────► door ─┴► connections ─┼─► /                 the page
//!                                   one thread └─► /events, /status  its figures, also for `top`
//!                                       │
//!                                       └── Live::of(Progress): a snapshot per request
//! ```
//!
//! The thread sleeps until one of its connections is ready, or for a second. It drops clients that
//! exceed their deadline. While it serves [`MOST_CLIENTS`], further clients wait in the kernel's
//! backlog. Open pages stay connected, up to [`MOST_PAGES`].
//!
//! Ownership: the thread that shows the job binds a [`Server`] before it drops its privileges. It
//! lends the server to the serving thread while the job runs. Then it passes on the job's outcome,
//! and the server sends that to all pages before it closes.
//!
//! Invariants:
//! - V1: the job's threads are not involved: no client makes them wait.
//! - V2: memory and descriptors are bounded, by the two limits and one event per page.
//! - V3: no request changes anything in the job.

mod client;
mod request;

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use burstline_engine::Progress;
use burstline_sys::readiness::{Wish, wait_each_for};
use burstline_sys::{inode, privileges};
use serde_json::{Value, json};

use crate::args::JobArgs;
use crate::failure::Failure;
use crate::live::{About, Live, delivered};
use crate::{metrics, supervised, view};
use client::{Client, Step};
pub(crate) use request::Figures;
use request::Reply;

/// Maximum number of connections with a request under way.
const MOST_CLIENTS: usize = 64;

/// Maximum number of open pages.
const MOST_PAGES: usize = 100;

/// Maximum size of the token file that is read.
const TOKEN_FILE_BYTES: u64 = 4096;

/// Interval between checks whether the job has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Interval between events.
const EVENT: Duration = Duration::from_secs(1);

/// Time that pages have to receive the last event.
const LAST_WORD: Duration = Duration::from_millis(500);

/// Maximum number of past points sent to a new page.
const MOST_POINTS: usize = 180;

/// Minimum length of a token.
const TOKEN_LEAST: usize = 16;

/// Addresses where a job can be watched.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    metrics: Option<SocketAddr>,
    web: Option<SocketAddr>,
    token_file: Option<PathBuf>,
    is_quiet: bool,
}

impl Places {
    pub(crate) fn of(args: &JobArgs) -> Self {
        Self {
            metrics: args.metrics,
            web: args.web,
            token_file: args.web_token.clone(),
            is_quiet: args.quiet,
        }
    }

    /// Returns the token for the page at `web`: from the file, or a random one if `web` is not a
    /// loopback address.
    fn token(&self, web: SocketAddr) -> Result<Option<String>, Failure> {
        if let Some(file) = &self.token_file {
            return read_token(file).map(Some);
        }
        if web.ip().is_loopback() {
            return Ok(None);
        }
        if self.is_quiet {
            return Err(Failure::usage(format!(
                "--web {web}: --quiet would not print the token: give one, --web-token FILE"
            )));
        }
        let failed = |error| Failure::new(format!("--web {web}: make a token: {error}"));
        random_token().map(Some).map_err(failed)
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let read = inode::open_regular(path)
        .and_then(|file| file.take(TOKEN_FILE_BYTES).read_to_string(&mut text));
    read.map_err(|error| Failure::new(format!("--web-token {shown}: {error}")))?;
    let token = text.trim();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    match token.len() >= TOKEN_LEAST && token.bytes().all(is_plain) {
        true => Ok(token.to_owned()),
        false => Err(Failure::usage(format!(
            "--web-token {shown}: expected one line of at least {TOKEN_LEAST} letters, digits or \
             -._~, found {} bytes",
            token.len()
        ))),
    }
}

fn random_token() -> io::Result<String> {
    let mut bytes = [0; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Listens at an address. Called before privileges are dropped, since low ports need them.
pub(crate) fn listen(flag: &str, address: SocketAddr) -> Result<TcpListener, Failure> {
    let bound = TcpListener::bind(address).and_then(|listener| {
        listener.set_nonblocking(true)?;
        Ok(listener)
    });
    bound.map_err(|error| {
        Failure::new(format!("{flag} {address}: {error}; name another port, or stop its owner"))
    })
}

/// A listening socket and what it serves.
#[derive(Debug)]
struct Door {
    listener: TcpListener,
    has_metrics: bool,
    has_page: bool,
    token: Option<String>,
    /// Whether the socket came from the service that started the job, which alone knows it.
    is_given: bool,
}

impl Door {
    fn bind(flag: &str, address: SocketAddr) -> Result<Self, Failure> {
        let listener = listen(flag, address)?;
        Ok(Self { listener, has_metrics: false, has_page: false, token: None, is_given: false })
    }

    /// Wraps the listener for queries of the service that started the job.
    fn given(listener: TcpListener) -> Result<Self, Failure> {
        let failed = |error| Failure::new(format!("the socket that the service gave: {error}"));
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self { listener, has_metrics: true, has_page: false, token: None, is_given: true })
    }

    /// Returns the body of a 404 answer.
    fn paths(&self) -> &'static str {
        match (self.has_metrics, self.has_page) {
            _ if self.is_given => "only /metrics is served here\n",
            (true, true) => "only /, /metrics, /events and /status are served here\n",
            (false, true) => "only /, /events and /status are served here\n",
            _ => "only /metrics, /events and /status are served here\n",
        }
    }

    /// Returns the lines that announce the address.
    fn words(&self) -> io::Result<Vec<String>> {
        let address = self.listener.local_addr()?;
        let token = self.token.as_ref().map_or(String::new(), |token| format!("?token={token}"));
        let metrics = self.has_metrics.then(|| format!("metrics at http://{address}/metrics"));
        let page = self.has_page.then(|| format!("page at http://{address}/{token}"));
        Ok(metrics.into_iter().chain(page).collect())
    }
}

/// A data point of a job's past.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    elapsed_s: f64,
    packets: u64,
    wire_bytes: u64,
    missing: u64,
}

/// Listeners, connections, and the job's past.
#[derive(Debug, Default)]
pub(crate) struct Server {
    doors: Vec<Door>,
    clients: Vec<Client>,
    points: VecDeque<Point>,
    /// The job's state after its threads had ended.
    last: Value,
}

/// A job to take snapshots of.
pub(crate) struct Sight<'a> {
    pub(crate) about: &'a About,
    pub(crate) progress: &'a Progress,
}

impl Sight<'_> {
    fn look(&self) -> Live {
        Live::of(self.about, self.progress)
    }
}

impl Figures for Sight<'_> {
    fn metrics(&self) -> String {
        metrics::text(self.look())
    }

    fn now(&self) -> Value {
        view::live::running(&self.look())
    }

    fn point(&self) -> Option<Point> {
        let whole = self.progress.snapshot();
        let counts = delivered(&whole);
        Some(Point {
            elapsed_s: self.about.elapsed_s(),
            packets: counts.packets,
            wire_bytes: counts.wire_bytes,
            missing: whole.lost.missing(),
        })
    }
}

/// What listens already, until the job is there.
static AHEAD: Mutex<Option<Server>> = Mutex::new(None);

impl Server {
    /// Listens for a job that gives up its rights before it is there to be watched.
    pub(crate) fn bind_ahead(places: &Places) -> Result<(), Failure> {
        let mut ahead = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.is_none() {
            *ahead = Self::bind_now(places)?;
        }
        Ok(())
    }

    /// Listens at the given places, if any.
    pub(crate) fn bind(places: &Places) -> Result<Option<Self>, Failure> {
        let ahead = AHEAD.lock().unwrap_or_else(PoisonError::into_inner).take();
        ahead.map_or_else(|| Self::bind_now(places), |server| Ok(Some(server)))
    }

    fn bind_now(places: &Places) -> Result<Option<Self>, Failure> {
        let mut doors = Vec::new();
        let given = supervised::take_listener();
        doors.extend(given.map(Door::given).transpose()?);
        if let Some(address) = places.metrics {
            doors.push(Door { has_metrics: true, ..Door::bind("--metrics", address)? });
        }
        if let Some(address) = places.web {
            let token = places.token(address)?;
            // Both can be at the same address.
            if places.metrics != places.web {
                doors.push(Door::bind("--web", address)?);
            }
            if let Some(door) = doors.last_mut() {
                (door.has_page, door.token) = (true, token);
            }
        }
        let server = Self { doors, ..Self::default() };
        Ok((!server.doors.is_empty()).then_some(server))
    }

    /// Serves metrics at a socket of [`listen`].
    pub(crate) fn of_metrics(listener: TcpListener) -> Self {
        let door =
            Door { listener, has_metrics: true, has_page: false, token: None, is_given: false };
        Self { doors: vec![door], ..Self::default() }
    }

    /// Returns whether it has a listener from the service that started the job.
    pub(crate) fn has_given(&self) -> bool {
        self.doors.iter().any(|door| door.is_given)
    }

    /// Returns the lines that announce its addresses.
    pub(crate) fn words(&self) -> Vec<String> {
        let told = self.doors.iter().filter(|door| !door.is_given);
        told.filter_map(|door| door.words().ok()).flatten().collect()
    }

    /// Serves until `is_over`.
    pub(crate) fn serve(&mut self, sight: &impl Figures, is_over: &AtomicBool) {
        // If this fails, the job's own threads report it.
        let _ = privileges::give_up();
        let mut due = Instant::now();
        // A request only; it carries no memory.
        while !is_over.load(Relaxed) {
            let now = Instant::now();
            if now >= due {
                due = now + EVENT;
                self.tick(sight, now);
            }
            let patience = due.saturating_duration_since(now).min(LOOK);
            self.turn(patience, sight);
        }
        self.last = sight.now();
    }

    /// Sends the job's outcome, with its report if there is one, to all pages, and closes.
    pub(crate) fn end(mut self, outcome: view::live::End) {
        let last = outcome.added_to(std::mem::take(&mut self.last));
        let event: Arc<[u8]> = event("end", &last).into_bytes().into();
        let until = Instant::now() + LAST_WORD;
        self.clients.retain(Client::is_watching);
        while !self.clients.is_empty() && Instant::now() < until {
            self.clients.retain_mut(|client| client.take_leave(&event));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for ready connections and serves them.
    fn turn(&mut self, patience: Duration, sight: &impl Figures) {
        let asking = self.clients.iter().filter(|client| !client.is_watching()).count();
        let mut wanted: Vec<_> =
            self.clients.iter().map(|client| (client.stream.as_fd(), client.wish())).collect();
        let doors = if asking < MOST_CLIENTS { &self.doors[..] } else { &[] };
        wanted.extend(doors.iter().map(|door| (door.listener.as_fd(), Wish::Read)));
        let Ok(ready) = wait_each_for(&wanted, patience.as_nanos() as u64) else {
            std::thread::sleep(LOOK);
            return;
        };
        let now = Instant::now();
        let (of_clients, of_doors) = ready.split_at(self.clients.len());
        let step = |(client, &is_ready): (&mut Client, &bool)| match is_ready {
            true => client.step(),
            false => Step::On,
        };
        let steps: Vec<Step> = self.clients.iter_mut().zip(of_clients).map(step).collect();
        for (number, step) in steps.iter().enumerate() {
            if let Step::Asked { request, is_whole } = step {
                let request = is_whole.then_some(&request[..]);
                self.reply(number, request, sight, now);
            }
        }
        let mut steps = steps.iter();
        self.clients.retain(|client| steps.next() != Some(&Step::Over) && !client.is_late(now));
        for (number, _) in of_doors.iter().enumerate().filter(|(_, is_ready)| **is_ready) {
            match self.doors[number].listener.accept() {
                // A connection that is already closed is dropped.
                Ok((stream, _)) => self.clients.extend(Client::new(stream, number, now)),
                // For example no free descriptor: the listener stays ready, so sleep instead of
                // spinning.
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Answers client `number`; `request` is `None` if it was too long.
    fn reply(&mut self, number: usize, request: Option<&[u8]>, sight: &impl Figures, now: Instant) {
        let door = &self.doors[self.clients[number].door];
        let reply = request.map(|request| request::answer(request, door, sight));
        let pages = self.clients.iter().filter(|client| client.is_watching()).count();
        let first = || {
            let state = event("state", &sight.now());
            request::events_head() + &event("past", &self.past()) + &state
        };
        let answer = match reply {
            None => request::too_long(),
            Some(Reply::Whole(answer)) => answer,
            Some(Reply::Events) if pages >= MOST_PAGES => request::too_many(MOST_PAGES),
            Some(Reply::Events) => {
                let first = first();
                return self.clients[number].watch(first, now);
            }
        };
        self.clients[number].answer(answer);
    }

    /// Records a point and sends the current state to the pages, once a second.
    fn tick(&mut self, sight: &impl Figures, now: Instant) {
        if let Some(point) = sight.point() {
            if self.points.len() == MOST_POINTS {
                self.points.pop_front();
            }
            self.points.push_back(point);
        }
        if self.clients.iter().any(Client::is_watching) {
            let event: Arc<[u8]> = event("state", &sight.now()).into_bytes().into();
            for client in &mut self.clients {
                client.tell(&event, now);
            }
        }
    }

    /// Returns the recorded points as columns.
    fn past(&self) -> Value {
        let points = &self.points;
        json!({
            "elapsed_s": points.iter().map(|point| point.elapsed_s).collect::<Vec<_>>(),
            "delivered": points.iter().map(|point| point.packets).collect::<Vec<_>>(),
            "wire_bytes": points.iter().map(|point| point.wire_bytes).collect::<Vec<_>>(),
            "missing": points.iter().map(|point| point.missing).collect::<Vec<_>>(),
        })
    }
}

/// Formats an event; JSON contains no line feeds.
fn event(name: &str, data: &Value) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

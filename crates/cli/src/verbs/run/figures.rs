//! The answer to `--metrics` of a service: its own families and those of every job.
//!
//! ```text
//!   supervisor ──put──► Board: jobs and their metrics addresses
//!                         │ read
//!   Prometheus ──GET──► serving ──GET──► each running job, in parallel
//!                         └──► one text: a label names the job, site_job="NAME"
//! ```
//!
//! The supervisor never waits for a job or a scraper; only the serving thread does, for at most
//! [`SOON`]. A job that does not answer in that time has no lines, and its
//! `burstline_site_job_answered` is 0.

use std::cell::RefCell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde_json::{Value, json};

use super::slot::STATES;
use crate::asking::{self, Patience};
use crate::failure::Failure;
use crate::metrics::{self, Answer, Count as _};
use crate::serving::{Figures, Places, Point, Server};

/// Timeout for a job's answer.
const SOON: Duration = Duration::from_millis(500);
const PATIENCE: Patience = Patience { connect: SOON, silence: SOON, whole: Some(SOON) };
/// Maximum size of a job's answer: about ten times that of a job with a hundred ports.
const ANSWER_BYTES: u64 = 4 << 20;
/// Scrapes within this time share an answer.
const FRESH: Duration = Duration::from_millis(500);

/// The published state of a job.
#[derive(Clone, Debug)]
pub(super) struct JobNow {
    pub(super) name: String,
    /// Index into [`STATES`].
    pub(super) state: usize,
    pub(super) starts: u64,
    /// The address of its metrics, if it answers on the listener from the service.
    pub(super) metrics: Option<SocketAddr>,
}

/// The current jobs: written by the supervisor, read by the serving thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Vec<JobNow>>>);

impl Board {
    pub(super) fn put(&self, jobs: Vec<JobNow>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    fn jobs(&self) -> Vec<JobNow> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Starts the serving thread, which runs until the program ends. Returns its addresses as text.
pub(super) fn serve(address: SocketAddr, board: &Board) -> Result<String, Failure> {
    let server = Server::bind(&Places::of_metrics(address))?;
    let mut server = server.expect("there is an address");
    let words = server.words().join(", ");
    let site = SiteNow { board: board.clone(), last: RefCell::default() };
    // It ends with the program.
    let serving = thread::Builder::new()
        .name("serve".to_owned())
        .spawn(move || server.serve(&site, &AtomicBool::new(false)));
    serving.map_err(|error| Failure::new(format!("start the thread `serve`: {error}")))?;
    Ok(words)
}

/// The service as a source of figures.
struct SiteNow {
    board: Board,
    /// The last answer. Only the serving thread uses it.
    last: RefCell<Option<Made>>,
}

/// An answer and its time.
struct Made {
    at: Instant,
    text: String,
}

impl Figures for SiteNow {
    fn metrics(&self) -> String {
        let mut last = self.last.borrow_mut();
        if let Some(made) = last.as_ref().filter(|made| made.at.elapsed() < FRESH) {
            return made.text.clone();
        }
        let text = gathered(&self.board.jobs());
        *last = Some(Made { at: Instant::now(), text: text.clone() });
        text
    }

    fn now(&self) -> Value {
        let jobs = self.board.jobs().into_iter().map(
            |job| json!({ "job": job.name, "state": STATES[job.state].0, "starts": job.starts }),
        );
        json!({ "jobs": jobs.collect::<Vec<_>>() })
    }

    fn point(&self) -> Option<Point> {
        None
    }
}

/// Returns the metrics of the service and of all jobs that answer.
fn gathered(jobs: &[JobNow]) -> String {
    let answers: Vec<Option<String>> = thread::scope(|scope| {
        let asked = jobs.iter().map(|job| {
            let (at, asking) = (job.metrics?, thread::Builder::new().name("ask".to_owned()));
            // If no thread can be created, the job has no lines this time.
            asking.spawn_scoped(scope, move || ask(at)).ok()
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|asked| asked?.join().ok()?).collect()
    });
    let answered = answers.iter().map(Option::is_some).collect();
    let own = metrics::encoded(Moment { jobs: jobs.to_vec(), answered });
    let asked = jobs.iter().zip(&answers);
    let told =
        asked.filter_map(|(job, text)| Some(Answer { job: &job.name, text: text.as_ref()? }));
    metrics::joined(&own, told)
}

/// Returns a job's answer if it is valid and in time.
fn ask(address: SocketAddr) -> Option<String> {
    let answer = asking::ask(address, "/metrics", &PATIENCE).ok()?;
    answer.whole(ANSWER_BYTES).ok().filter(|text| text.ends_with(metrics::END))
}

/// A snapshot of the service's own families.
#[derive(Debug)]
struct Moment {
    jobs: Vec<JobNow>,
    answered: Vec<bool>,
}

impl Collector for Moment {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let help = "Whether a job of the service is in this state";
        let mut lines =
            encoder.encode_descriptor("site_job_state", help, None, MetricType::Gauge)?;
        for job in &self.jobs {
            for (number, (word, _)) in STATES.iter().enumerate() {
                let labels = [(metrics::JOB, job.name.as_str()), ("state", word)];
                let is_so = u32::from(number == job.state);
                lines.encode_family(&labels)?.encode_gauge(&is_so)?;
            }
        }
        let help = "Times the service started this job with its current definition";
        let mut lines =
            encoder.encode_descriptor("site_job_starts", help, None, MetricType::Counter)?;
        for job in &self.jobs {
            lines.encode_family(&[(metrics::JOB, job.name.as_str())])?.count(&job.starts)?;
        }
        let help = "Whether this text has the job's own metrics: it runs, and answered in time";
        let mut lines =
            encoder.encode_descriptor("site_job_answered", help, None, MetricType::Gauge)?;
        for (job, is_so) in self.jobs.iter().zip(&self.answered) {
            let labels = [(metrics::JOB, job.name.as_str())];
            lines.encode_family(&labels)?.encode_gauge(&u32::from(*is_so))?;
        }
        Ok(())
    }
}

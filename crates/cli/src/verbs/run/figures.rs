//! The answer to `--metrics` of a service: its own families and those of every job.
//!
//! ```text
//!   Prometheus ──GET──► serving ──which jobs?──► the service's thread `tell metrics`
//!                         │ ◄──jobs, a connection to each──┘
//!                         ├──GET──► each running job, in parallel
//!                         └──► one text: a label names the job, site_job="NAME"
//! ```
//!
//! This is a process of its own, which the service starts. Each of its threads has given up all
//! rights before it reads from a scraper or a job. As its user others may end it: then the service
//! starts it again, and jobs notice nothing.
//!
//! The supervisor never waits for a job or a scraper; only this process does, for at most [`SOON`].
//! A job that does not answer in that time has no lines, and its `burstline_site_job_answered` is
//! 0.

use std::cell::RefCell;
use std::fmt;
use std::net::{TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use prometheus_client::metrics::MetricType;
use serde_json::{Value, json};

use super::board::{JobNow, Line, Question, Told};
use super::slot::STATES;
use crate::asking::{self, Patience};
use crate::confinement;
use crate::failure::Failure;
use crate::metrics::{self, Answer, Count as _};
use crate::serving::{Figures, Point, Server};
use crate::supervised;

/// Timeout for a job's answer.
const SOON: Duration = Duration::from_millis(500);
const PATIENCE: Patience = Patience { connect: SOON, silence: SOON, whole: Some(SOON) };
/// Maximum size of a job's answer: about ten times that of a job with a hundred ports.
const ANSWER_BYTES: u64 = 4 << 20;
/// Scrapes within this time share an answer.
const FRESH: Duration = Duration::from_millis(500);
/// The same for the states of jobs.
const FRESH_JOBS: Duration = Duration::from_millis(100);

/// Answers for the service that has started this process, until it ends.
pub(super) fn serve() -> Result<ExitCode, Failure> {
    confinement::give_up()?;
    let failed = |error| Failure::new(format!("the connection to the service: {error}"));
    let given = supervised::take_given();
    let given = given.ok_or_else(|| Failure::usage("--answers: only a service uses this"))?;
    let (line, listener) = Line::begin(given).map_err(failed)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let site = SiteNow {
        line,
        is_over: Arc::clone(&is_over),
        text: RefCell::default(),
        jobs: RefCell::default(),
    };
    Server::of_metrics(TcpListener::from(listener)).serve(&site, &is_over);
    Ok(ExitCode::SUCCESS)
}

/// The service as a source of figures.
struct SiteNow {
    line: Line,
    /// Whether the service has ended.
    is_over: Arc<AtomicBool>,
    /// The last answer. Only the serving thread uses it, and the next one.
    text: RefCell<Option<Made<String>>>,
    jobs: RefCell<Option<Made<Vec<JobNow>>>>,
}

/// An answer and its time.
struct Made<T> {
    at: Instant,
    what: T,
}

impl<T: Clone> Made<T> {
    /// Returns the last answer if it is no older than `age`.
    fn within(last: &RefCell<Option<Self>>, age: Duration) -> Option<T> {
        let last = last.borrow();
        last.as_ref().filter(|made| made.at.elapsed() < age).map(|made| made.what.clone())
    }

    fn keep(last: &RefCell<Option<Self>>, what: &T) {
        *last.borrow_mut() = Some(Self { at: Instant::now(), what: what.clone() });
    }
}

impl SiteNow {
    fn ask(&self, question: Question) -> Vec<Told> {
        let told = self.line.ask(question).unwrap_or_else(|_| {
            self.is_over.store(true, Relaxed); // a request only; it carries no memory
            Vec::new()
        });
        Made::keep(&self.jobs, &told.iter().map(|told| told.job.clone()).collect());
        told
    }
}

impl Figures for SiteNow {
    fn metrics(&self) -> String {
        Made::within(&self.text, FRESH).unwrap_or_else(|| {
            let text = gathered(self.ask(Question::Connections));
            Made::keep(&self.text, &text);
            text
        })
    }

    fn now(&self) -> Value {
        let jobs = Made::within(&self.jobs, FRESH_JOBS)
            .unwrap_or_else(|| self.ask(Question::Jobs).into_iter().map(|told| told.job).collect());
        let jobs = jobs.into_iter().map(|job| {
            let state = STATES.get(job.state).map(|(word, _)| word);
            json!({ "job": job.name, "state": state, "starts": job.starts })
        });
        json!({ "jobs": jobs.collect::<Vec<_>>() })
    }

    fn point(&self) -> Option<Point> {
        None
    }
}

/// Returns the metrics of the service and of all jobs that answer.
fn gathered(told: Vec<Told>) -> String {
    let jobs: Vec<JobNow> = told.iter().map(|told| told.job.clone()).collect();
    let answers: Vec<Option<String>> = thread::scope(|scope| {
        let asked = told.into_iter().map(|told| {
            let (connection, asking) = (told.connection?, thread::Builder::new());
            // If no thread can be created, the job has no lines this time.
            asking.name("ask".to_owned()).spawn_scoped(scope, move || ask(connection)).ok()
        });
        let asked: Vec<_> = asked.collect();
        asked.into_iter().map(|asked| asked?.join().ok()?).collect()
    });
    let answered = answers.iter().map(Option::is_some).collect();
    let own = metrics::encoded(Moment { jobs: jobs.clone(), answered });
    let asked = jobs.iter().zip(&answers);
    let told =
        asked.filter_map(|(job, text)| Some(Answer { job: &job.name, text: text.as_ref()? }));
    metrics::joined(&own, told)
}

/// Returns a job's answer if it is valid and in time.
fn ask(connection: TcpStream) -> Option<String> {
    let answer = asking::ask_over(connection, "localhost", "/metrics", &PATIENCE).ok()?;
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

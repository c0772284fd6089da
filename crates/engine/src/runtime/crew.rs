//! Starts the threads of a job in their places, joins them, and drops their privileges.

use std::panic::resume_unwind;
use std::thread::{self, Scope, ScopedJoinHandle, Thread};

use crate::{EngineError, ThreadPlace};

use super::job::Job;
use super::meter::StageCost;
use super::stage::{self, Pause, Polled, Step};
use super::threads::spawn;

/// A stage and its place.
pub(crate) struct Post<S> {
    /// Number of the stage in the job; selects its core.
    pub(crate) index: usize,
    /// Name of the thread.
    pub(crate) name: String,
    pub(crate) step: S,
}

/// The outcome of a stage, with its cost and losses.
pub(crate) struct Done<T> {
    pub(crate) cost: StageCost,
    /// Packets lost in the job's first second, without those left out on request.
    pub(crate) lost_first_second: u64,
    /// The step's own result.
    pub(crate) outcome: T,
}

/// The results of all threads.
pub(crate) struct Crew<F, R> {
    /// Where each thread ran: the front, then the readers.
    pub(crate) places: Vec<ThreadPlace>,
    /// Threads that poll sources.
    pub(crate) front: Vec<Done<F>>,
    /// Threads that read logs.
    pub(crate) readers: Vec<Done<R>>,
}

impl<T> Done<T> {
    /// Wraps the outcome of a part of another stage, which accounts for the cost and losses.
    pub(crate) fn beside(outcome: T) -> Self {
        Self { cost: StageCost::default(), lost_first_second: 0, outcome }
    }

    /// Separates the outcome from the rest.
    pub(crate) fn split(self) -> (T, Done<()>) {
        let (cost, lost_first_second) = (self.cost, self.lost_first_second);
        (self.outcome, Done { cost, lost_first_second, outcome: () })
    }
}

impl Done<()> {
    /// Returns the same with `outcome` attached.
    pub(crate) fn with<T>(self, outcome: T) -> Done<T> {
        Done { cost: self.cost, lost_first_second: self.lost_first_second, outcome }
    }
}

type Handle<'scope, T> = ScopedJoinHandle<'scope, (Result<ThreadPlace, EngineError>, Done<T>)>;

/// Runs all stages to their end, each on a thread. Log readers start first; `front` makes the other
/// stages, given the reader threads. A dropped post also drops the log that it fills, so that no
/// reader waits for it.
///
/// # Errors
/// Fails if a thread could not be started, take its place or drop its privileges. Then the job was
/// broken off, and all threads have ended.
pub(crate) fn run<F: Step, R: Step>(
    job: &Job<'_>,
    readers: Vec<Post<R>>,
    front: impl FnOnce(&[Thread]) -> Vec<Post<F>>,
) -> Result<Crew<F::Outcome, R::Outcome>, EngineError> {
    thread::scope(|scope| {
        let readers = start_all(scope, job, readers)?;
        let bells: Vec<_> = readers.iter().map(|reader| reader.thread().clone()).collect();
        let front = start_all(scope, job, front(&bells))?;
        // Not earlier: a thread inherits the privileges of the thread that starts it.
        let given_up = job.threads.drop_privileges().inspect_err(|_| job.clock.break_off());
        let (mut places, front): (Vec<_>, _) = front.into_iter().map(join).unzip();
        let (more, readers): (Vec<_>, _) = readers.into_iter().map(join).unzip();
        places.extend(more);
        given_up?;
        let places = places.into_iter().collect::<Result<_, _>>()?;
        Ok(Crew { places, front, readers })
    })
}

/// As [`run`], for stages that do not read each other's logs.
pub(crate) fn run_alone<S: Step>(
    job: &Job<'_>,
    posts: Vec<Post<S>>,
) -> Result<Crew<S::Outcome, ()>, EngineError> {
    run(job, Vec::<Post<Nobody>>::new(), |_| posts)
}

fn start_all<'scope, S: Step + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    job: &'scope Job<'_>,
    posts: Vec<Post<S>>,
) -> Result<Vec<Handle<'scope, S::Outcome>>, EngineError> {
    posts.into_iter().map(|post| start(scope, job, post)).collect()
}

/// Starts a thread. A thread that cannot take its place ends the job, but still runs its stage.
fn start<'scope, S: Step + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    job: &'scope Job<'_>,
    post: Post<S>,
) -> Result<Handle<'scope, S::Outcome>, EngineError> {
    let Post { index, name, step } = post;
    let (threads, stage_name) = (job.threads, name.clone());
    let work = move || {
        let place = threads.settle(index, &stage_name);
        let place = place.and_then(|place| threads.drop_privileges().map(|()| place));
        let mut place = place.inspect_err(|_| job.clock.break_off());
        let number = place.as_ref().ok().map(|place| job.progress.begin_stage(place.clone()));
        let done = stage::run(job, step, number);
        if let Ok(place) = &mut place {
            place.look();
        }
        (place, done)
    };
    spawn(scope, &name, work).inspect_err(|_| job.clock.break_off())
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// The reader type of a job without readers.
enum Nobody {}

impl Step for Nobody {
    type Outcome = ();

    fn poll(&mut self, _now_ns: u64) -> Polled {
        match *self {}
    }

    fn wait(&mut self, _pause: Pause<'_>) -> bool {
        match *self {}
    }

    fn show_losses(&mut self) -> u64 {
        match *self {}
    }

    fn end(self) -> Self::Outcome {
        match self {}
    }
}

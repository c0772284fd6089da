//! The rights of `query` and of the Python that answers it.
//!
//! ```text
//!  main thread                another thread
//!      │ ─────────────────────►  lends tree and Python to nobody, becomes nobody, enters Landlock
//!      │                         and a list of calls, starts Python, enters a narrower list
//!      │                         Python loads DuckDB, enters the same list: it is ready
//!  becomes nobody  ◄───────────
//!      └─────────────────────►   asks: the first byte of the tree is read
//! ```
//!
//! Until it is ready, Python runs only what the user installed. So if it does not become ready in
//! its own folders, another one is tried that may read more. Nothing in a tree can cause that.
//!
//! Root's tree and a Python in root's home are lent to nobody by mounts (`burstline_sys::lent`). If
//! the kernel refuses them, nobody reads a tree whose modes allow it. Otherwise the threads and
//! Python stay root without capabilities, in Landlock and in the list, and a note says so.

mod places;

use std::io;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use burstline_fleet::{Engine, EngineOptions, NoEngine, QueryError, no_engine, pythons};
use burstline_sys::lent::{self, Loan, is_in_reach};
use burstline_sys::privileges::{self, Access, CallFilter, Confinement, Refusal, Ruleset};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::users::Account;

use super::{READ, nobody, refusal, refused, without_rights};
use crate::failure::{Failure, complain};
use places::{Places, can_read_tree, environment, found_in_path};

/// Where programs and libraries are, beside those of Python.
const PROGRAMS: [&str; 8] =
    ["/usr", "/bin", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ssl"];

/// What is done with an engine that is ready: it gets the path of the tree.
pub(crate) type Ask<'a, T> = dyn Fn(&Path, Engine) -> Result<T, Failure> + Sync + 'a;

/// Asks the first Python that has DuckDB, as `user`, or as nobody if root started this. Every
/// thread of the process has given up its rights when `ask` is called.
pub(crate) fn with_engine<T: Send>(
    tree: &Path,
    user: Option<&Account>,
    ask: &Ask<'_, T>,
) -> Result<T, Failure> {
    let Some(refusal) = refusal()? else { return with_all_calls(tree, ask) };
    if let Some(user) = user.filter(|user| !privileges::can_become(user)) {
        return Err(Failure::new(format!("-Z {}: run it as root, or without -Z", user.name)));
    }
    let candidates = pythons();
    for python in candidates.iter().filter_map(|python| found_in_path(python)) {
        let tries = Tries { tree, python: &python, refusal, ask };
        match tries.make(user)? {
            Tried::Asked(answer) => return answer,
            Tried::NotReady(NoEngine::Broken(what)) => {
                let python = python.display().to_string();
                return Err(failed(&QueryError::Broken { python, what }));
            }
            Tried::NotReady(_) | Tried::NotLent(_) => {}
        }
    }
    Err(failed(&no_engine(&candidates)))
}

fn failed(error: &QueryError) -> Failure {
    Failure::new(error.to_string())
}

/// The same without capabilities, and otherwise with all that the user may do.
fn with_all_calls<T: Send>(tree: &Path, ask: &Ask<'_, T>) -> Result<T, Failure> {
    without_rights(|| ask(tree, Engine::first().map_err(|error| failed(&error))?))?
}

/// How an attempt ended.
enum Tried<T> {
    /// The engine was asked.
    Asked(Result<T, Failure>),
    /// It was not ready, and nothing of the tree was read.
    NotReady(NoEngine),
    /// The kernel refused to lend files.
    NotLent(io::Error),
}

/// The attempts with one Python.
struct Tries<'a, T> {
    tree: &'a Path,
    python: &'a Path,
    refusal: Refusal,
    ask: &'a Ask<'a, T>,
}

/// One attempt.
#[derive(Default)]
struct Attempt {
    /// Who the threads and Python become.
    user: Option<Account>,
    /// What is lent to that user.
    loans: Vec<Loan>,
    /// Whether all files may be read, and not only the tree and Python's own.
    reads_all: bool,
    /// What is said once it is ready.
    note: Option<String>,
}

impl<T: Send> Tries<'_, T> {
    fn make(&self, named: Option<&Account>) -> Result<Tried<T>, Failure> {
        let places = Places::of(self.python);
        // What does not exist, the engine reports.
        let tree = self.tree.canonicalize().or_else(|_| std::path::absolute(self.tree));
        let tree = &tree.unwrap_or_else(|_| self.tree.to_owned());
        let nobody = if named.is_some() { Ok(None) } else { nobody() };
        let nobody = nobody.map_err(|error| refused(&error))?;
        let mut first = Attempt { user: named.or(nobody.as_ref()).cloned(), ..Attempt::default() };
        if let Some(user) = &first.user {
            // A named user has to be able to read the tree.
            first.loans = places.loans(nobody.as_ref().map(|_| &**tree), user);
        }
        let tried = self.attempt(&first, tree, &places)?;
        let why = match tried {
            Tried::Asked(_) => return Ok(tried),
            Tried::NotReady(why) => told(&why),
            Tried::NotLent(error) => {
                let can_read = |user: &Account| named.is_some() || can_read_tree(tree, user);
                let user = first.user.take().filter(can_read);
                let why = format!("no mounts that lend it: {error}");
                match user {
                    None => why,
                    user => {
                        let plain = Attempt { user, ..Attempt::default() };
                        match self.attempt(&plain, tree, &places)? {
                            Tried::Asked(answer) => return Ok(Tried::Asked(answer)),
                            Tried::NotReady(_) | Tried::NotLent(_) => why,
                        }
                    }
                }
            }
        };
        let what = match nobody {
            Some(_) => "stays root without capabilities, and may read root's files",
            None => "may read all files of its user",
        };
        let python = self.python.display();
        let note =
            Some(format!("note: {python} {what}, because it cannot have only its own: {why}"));
        let last = Attempt { user: named.cloned(), loans: vec![], reads_all: true, note };
        self.attempt(&last, tree, &places)
    }

    fn attempt(
        &self,
        attempt: &Attempt,
        tree: &Path,
        places: &Places,
    ) -> Result<Tried<T>, Failure> {
        let temporary = temporary_of(attempt);
        let temporary_path = temporary.as_ref().map(TemporaryFolder::path);
        let files = || self.rules(attempt, tree, places, temporary_path);
        let [ours, theirs] = [files(), files()].map(|rules| rules.map_err(|error| refused(&error)));
        let (ours, theirs) = (ours?, theirs?);
        let user = attempt.user.clone();
        let is_lent = attempt.loans.iter().any(|loan| loan.path == tree);
        let options = EngineOptions {
            environment: Some(environment(attempt.reads_all, temporary_path)),
            temporary: temporary_path.map(Path::to_owned),
            swapped_with_root: user.as_ref().filter(|_| is_lent).map(|user| user.user),
        };
        let (ready, is_ready) = mpsc::channel();
        let (proceed, may_proceed) = mpsc::channel();
        thread::scope(|scope| {
            let work = move || {
                // Removed when this thread ends, by its user.
                let _temporary = temporary;
                if !attempt.loans.is_empty() {
                    let borrower = user.as_ref().expect("only another user borrows");
                    if let Err(error) = lent::lend(&attempt.loans, borrower) {
                        return Ok(Tried::NotLent(error));
                    }
                }
                let calls = self.filter(CallFilter::for_start);
                privileges::give_up_as(&Confinement { user, files: theirs, calls })?;
                let engine = match self.start(&options) {
                    Ok(engine) => engine,
                    Err(error) => return Ok(Tried::NotReady(error)),
                };
                // If the other thread keeps its rights, nothing is read.
                let may_ask = ready.send(()).is_ok() && may_proceed.recv().is_ok();
                let silent = || Failure::new("");
                Ok(Tried::Asked(if may_ask { (self.ask)(tree, engine) } else { Err(silent()) }))
            };
            let thread = thread::Builder::new().spawn_scoped(scope, work);
            let thread = thread.map_err(|error| refused(&error))?;
            if is_ready.recv().is_ok() {
                attempt.note.iter().for_each(|note| complain(note));
                let own = [std::process::id()];
                let calls = self.filter(|refusal| CallFilter::for_answers(&own, refusal));
                let user = attempt.user.clone();
                privileges::name_confinement(Confinement { user, files: ours, calls });
                privileges::give_up().map_err(|error| refused(&error))?;
                let _ = proceed.send(()); // it waits for this
            }
            let tried = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            tried.map_err(|error: io::Error| refused(&error))
        })
    }

    fn filter(&self, make: impl FnOnce(Refusal) -> CallFilter) -> Option<CallFilter> {
        CallFilter::is_supported().then(|| make(self.refusal))
    }

    /// Starts Python, and narrows what the calling thread may do to what Python will have.
    fn start(&self, options: &EngineOptions) -> Result<Engine, NoEngine> {
        Engine::start(self.python, options, |python| {
            let answers = |processes: &[u32]| {
                self.filter(|refusal| CallFilter::for_answers(processes, refusal))
            };
            // Both are made first: later this thread may not ask the kernel about filters.
            let (ours, theirs) = (answers(&[std::process::id(), python]), answers(&[python]));
            ours.map_or(Ok(()), |calls| privileges::narrow(&calls))?;
            Ok(theirs.map(|calls| calls.to_bytes()))
        })
    }

    /// Returns the files of an attempt, and `None` if this kernel has no Landlock.
    fn rules(
        &self,
        attempt: &Attempt,
        tree: &Path,
        places: &Places,
        temporary: Option<&Path>,
    ) -> io::Result<Option<Ruleset>> {
        let Some(rules) = Ruleset::new()? else { return Ok(None) };
        if attempt.reads_all {
            rules.allow_programs(Path::new("/"))?;
        }
        for path in READ {
            rules.allow(Path::new(path), Access::Read)?;
        }
        for path in PROGRAMS.map(Path::new).into_iter().chain(places.paths()) {
            rules.allow_programs(path)?;
        }
        rules.allow(Path::new("/dev/null"), Access::Write)?;
        rules.allow(Path::new("/dev/urandom"), Access::Read)?;
        rules.allow(tree, Access::Read)?;
        temporary.map_or(Ok(()), |folder| rules.allow_temporary(folder))?;
        Ok(Some(rules))
    }
}

fn told(why: &NoEngine) -> String {
    match why {
        NoEngine::Broken(what) => what.clone(),
        _ => "DuckDB is not there".to_owned(),
    }
}

/// Returns a folder of the user's for what does not fit in memory. Without one DuckDB reports that
/// there is too little memory.
fn temporary_of(attempt: &Attempt) -> Option<TemporaryFolder> {
    let places = [std::env::temp_dir(), PathBuf::from("/var/tmp"), PathBuf::from("/tmp")];
    places.iter().find_map(|place| {
        let place = place.canonicalize().ok()?;
        if attempt.loans.iter().any(|loan| place.starts_with(&loan.path)) {
            return None; // it is read-only there
        }
        let Some(user) = &attempt.user else {
            return TemporaryFolder::create_in(&place, "burstline-query-").ok();
        };
        if !is_in_reach(&place.join("any"), user).ok()? {
            return None;
        }
        let folder = TemporaryFolder::create_in(&place, "burstline-query-").ok()?;
        chown(folder.path(), Some(user.user), Some(user.group)).ok()?;
        Some(folder)
    })
}

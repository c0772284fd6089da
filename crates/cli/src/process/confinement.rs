//! Decides which rights the threads of a verb keep after they drop privileges.
//!
//! ```text
//!   verb ──► ports, files, names ──► what it still opens, calls and owns ──► Confinement
//! ```
//!
//! A job started by root becomes nobody. If it creates or removes files later, publishes a name or
//! connects to one, a helper process does that for it: root without capabilities, which opens these
//! files and names only (decision 0064). The helper of a switch with a name also opens ports, if a
//! user of the switch asks for them (decision 0068). DPDK's drivers open their devices before that,
//! and make calls of their own (decision 0067). A job that opens more by any path stays root
//! without capabilities (decision 0041). `--user` names another user, who opens later files in
//! person; `--keep-privileges` leaves everything unchanged.
//!
//! A job with files as sources opens them once all its threads have given up their rights. Ports
//! that take rights are open by then, and the helper opens files and outputs (decision 0070).
//!
//! `BURSTLINE_CONFINE` is for tests and for tools that write files from the program's threads.
//! `log` allows system calls outside the list and records them in the kernel's log. `off` drops
//! capabilities only.

mod description;
mod engine;
mod places;
mod wants;

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::chown;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, PoisonError};

use burstline_engine::EngineError;
use burstline_port::{BeforeFiles, Filter, load_for_job};
use burstline_share::{PublishConfig, take_name};
use burstline_sys::direct::keep_rings;
use burstline_sys::helper::{
    self, Extension, Grant, GrantKind, HelperOptions, Loader, Porter, launcher,
};
use burstline_sys::inode::folder_of;
use burstline_sys::kept;
use burstline_sys::privileges::{
    self, Access, CallFilter, Confinement, LateFiles, Need, Refusal, Ruleset,
};
use burstline_sys::users::{self, Account};
use burstline_sys::{folder, limits};

use crate::args::{FetchArgs, JobArgs, Verb};
use crate::failure::{Failure, complain};
use crate::job::apart;
use crate::serving::{Places, Server};
use crate::verbs::{Opens, serve_door};
pub(crate) use description::{give_up_before_description, read_by_nobody};
pub(crate) use engine::with_engine;
use wants::Wants;
pub(crate) use wants::{is_of_files, takes_rights};

/// The variable that sets how strictly the list of system calls is enforced.
const VARIABLE: &str = "BURSTLINE_CONFINE";

/// What follows if a job that reads files has no helper.
const LOOKS_EARLY: &str = "files are looked at before all threads have given up their rights";

/// Whether the job's threads give up their rights before they read files. It guards no memory.
static IS_EARLY: AtomicBool = AtomicBool::new(false);

/// The name that such a job takes before.
static NAME: Mutex<Option<PublishConfig>> = Mutex::new(None);

/// Paths that every job may read: kernel information, libraries, name databases, the time zone.
const READ: [&str; 15] = [
    "/proc",
    "/sys",
    "/usr/lib",
    "/usr/share/zoneinfo",
    "/lib",
    "/etc/passwd",
    "/etc/group",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    // For names in filter expressions.
    "/etc/services",
    "/etc/protocols",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/resolv.conf",
    "/etc/ethers",
];

/// Names what the verb's threads keep, and reports early if that will fail.
pub(crate) fn name(verb: &Verb) -> Result<(), Failure> {
    let Some(refusal) = refusal()? else { return name_successor(verb.successor()) };
    // A query names what its threads keep once its engine is ready, a fetch once it knows its
    // sensors, a demonstration once it has files. The doctor does once a description is open.
    let is_later = match verb {
        Verb::Query(_) | Verb::Fetch(_) | Verb::Demo(_) => true,
        Verb::Doctor(args) => args.describes_another(),
        _ => false,
    };
    if verb.keeps_privileges() || is_later {
        return Ok(());
    }
    let Some(wants) = Wants::of(verb) else { return name_successor(verb.successor()) };
    // Code cannot be mapped later, and no program be started.
    verb.filters().into_iter().for_each(Filter::prepare);
    let error_of = if verb.job().is_some() { failed } else { refused };
    name_what(wants, refusal, verb.successor(), verb.is_quiet(), error_of)
}

/// Names what the threads of a fetch keep, which keeps `folder` for what these commands write. The
/// folder is removed when the fetch has ended.
pub(crate) fn name_fetch(
    args: &FetchArgs,
    commands: Vec<Vec<OsString>>,
    folder: &Path,
) -> Result<(), Failure> {
    let Some(refusal) = refusal()? else { return name_successor(None) };
    if let Err(error) = launcher::start(commands, Some(folder.to_owned()), None) {
        complain(&format!("note: no process that starts ssh: {error}; this one keeps its user"));
        return name_successor(None);
    }
    name_what(Wants::of_fetch(args, folder), refusal, None, args.quiet, refused)
}

/// Names what the threads of a demonstration keep, which has files in `folder`, and has these
/// commands judge them. Both become nobody, who owns the folder then. Unless it is kept, it is
/// removed at the end.
pub(crate) fn name_demo(
    folder: &Path,
    commands: Vec<Vec<OsString>>,
    is_kept: bool,
) -> Result<(), Failure> {
    let Some(refusal) = refusal()? else { return name_successor(None) };
    let removed = Some(folder.to_owned()).filter(|_| !is_kept);
    let user = nobody().map_err(|error| refused(&error))?;
    // Root's own place for temporary files may be closed to others.
    let is_closed = user.as_ref().is_some_and(|user| !can_reach(folder, user));
    let user = user.filter(|_| !is_closed);
    let given = user.iter().try_for_each(|user| give_folder(folder, user));
    let started = given.and_then(|()| launcher::start(commands, removed, user));
    started.map_err(|error| refused(&error))?;
    if is_closed {
        let place = folder.display();
        complain(&format!("note: nobody may not reach {place}: threads stay root"));
        return name_successor(None);
    }
    name_what(Wants::of_demo(folder), refusal, None, false, refused)
}

/// Whether a user may enter all folders that this one is in.
fn can_reach(folder: &Path, user: &Account) -> bool {
    let confinement = Confinement { user: Some(user.clone()), ..Confinement::default() };
    let look = || privileges::give_up_as(&confinement).and_then(|()| folder.metadata());
    apart("look", look).is_ok_and(|found| found.is_ok())
}

/// Makes a user the owner of a folder and of the files in it.
fn give_folder(folder: &Path, user: &Account) -> io::Result<()> {
    let give = |path: &Path| chown(path, Some(user.user), Some(user.group));
    for name in folder::names(folder)? {
        give(&folder.join(name))?;
    }
    give(folder)
}

fn name_what(
    mut wants: Wants,
    refusal: Refusal,
    successor: Option<&Account>,
    is_quiet: bool,
    error_of: fn(&io::Error) -> Failure,
) -> Result<(), Failure> {
    wants.settle();
    let nobody = || nobody().map_err(|error| error_of(&error));
    let user = match successor {
        Some(named) => {
            // The named user opens later files, but no later ports, and not those that the job
            // begins with. Root may do so in person.
            wants.is_partial = !wants.has_door;
            let takes_helper = (wants.has_door || wants.is_early_for_others())
                && named.user != users::effective_user();
            let else_what = if wants.has_door { "no user can add ports" } else { LOOKS_EARLY };
            let _ = takes_helper && nobody()?.is_some() && wants.start_helper(refusal, else_what);
            Some(named.clone())
        }
        None => nobody()?.filter(|_| {
            let stays = "the job's threads stay root without capabilities";
            let else_what = if wants.takes_user { stays } else { LOOKS_EARLY };
            let takes_helper = wants.takes_user || wants.early.is_some();
            takes_helper && wants.start_helper(refusal, else_what) || !wants.takes_user
        }),
    };
    match helper::is_started() {
        true if wants.is_partial => {}
        true => wants.leave_to_helper(),
        false => wants.do_without_helper(),
    }
    wants.begin_early();
    let Confinement { files, calls, .. } =
        wants.confinement(refusal).map_err(|error| error_of(&error))?;
    if !is_quiet {
        tell_what_is_not_there(&wants, files.is_some(), calls.is_some());
        if user.is_none() && privileges::is_root_for_good().map_err(|error| error_of(&error))? {
            complain("note: this root may not become nobody: its threads stay root");
        }
    }
    if calls.is_some() {
        keep_rings(wants.rings);
    }
    let is_confined = user.is_some() || files.is_some() || calls.is_some();
    let early = wants.early.take().filter(|_| is_confined);
    IS_EARLY.store(early.is_some(), Relaxed); // carries no memory
    *NAME.lock().unwrap_or_else(PoisonError::into_inner) = early.and_then(|early| early.name);
    privileges::name_confinement(Confinement { user, files, calls });
    if wants.has_library_threads && !wants.opens_ports_later {
        privileges::expect_library_threads();
        limits::lift_locked_memory();
    }
    try_successor(successor)
}

/// Returns what a running job gets for what a user of it asks for.
pub(crate) fn extension(opens: &Opens) -> Extension {
    let Wants { grants, sockets, interfaces, taps, .. } = Wants::of_later(opens);
    Extension { grants, sockets, interfaces, taps }
}

/// Notes once which restrictions this kernel does not support.
fn tell_what_is_not_there(wants: &Wants, has_files: bool, has_calls: bool) {
    if !has_files && !wants.opens_anything {
        complain("note: this kernel has no Landlock: the job may open any file that its user may");
    }
    if !has_calls && !wants.calls_anything {
        complain("note: this kernel has no seccomp filters: the job may make any system call");
    }
}

/// Returns how strictly the list of system calls is enforced, or `None` if it is off.
fn refusal() -> Result<Option<Refusal>, Failure> {
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok(Some(Refusal::Kill)) };
    match value.to_str() {
        Some("kill") => Ok(Some(Refusal::Kill)),
        Some("log") => Ok(Some(Refusal::Log)),
        Some("off") => Ok(None),
        _ => {
            let value = value.to_string_lossy();
            Err(Failure::usage(format!("{VARIABLE}={value:?}: one of kill, log, off")))
        }
    }
}

fn rules(wants: &Wants) -> std::io::Result<Option<Ruleset>> {
    let rules = match wants.late.has_library_peers {
        true => Ruleset::with_abstract_sockets()?,
        false => Ruleset::new()?,
    };
    let Some(rules) = rules else { return Ok(None) };
    for path in READ {
        rules.allow(Path::new(path), Access::Read)?;
    }
    rules.allow(Path::new("/dev/null"), Access::Write)?;
    add_grants(&wants.grants, &rules)?;
    wants.temporary.iter().try_for_each(|folder| rules.allow_temporary(folder))?;
    for port in &wants.tcp_ports {
        rules.allow_tcp(*port)?;
    }
    Ok(Some(rules))
}

/// Runs `work` on a thread that has dropped its rights, because what it reads is not trusted.
pub(crate) fn without_rights<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    privileges::without_rights(work).map_err(|error| refused(&error))
}

/// Drops the rights of the calling thread.
pub(crate) fn give_up() -> Result<(), Failure> {
    privileges::give_up().map_err(|error| refused(&error))
}

/// Whether a job opens its files after it has given up its rights. Ports that take rights are open
/// by then.
pub(crate) fn is_early() -> bool {
    IS_EARLY.load(Relaxed) // carries no memory
}

/// Drops the rights of all threads of a job that is about to read files, unless it does so later.
pub(crate) fn give_up_before_files(args: &JobArgs) -> Result<(), Failure> {
    let give_up = before_files(args)?;
    give_up.map_or(Ok(()), |give_up| give_up().map_err(|error| failed(&error)))
}

/// The same, for a job whose ports are opened elsewhere. `None` if it gives up its rights later.
pub(crate) fn before_files(args: &JobArgs) -> Result<Option<BeforeFiles>, Failure> {
    if !is_early() {
        return Ok(None);
    }
    Server::bind_ahead(&Places::of(args))?;
    if let Some(name) = NAME.lock().unwrap_or_else(PoisonError::into_inner).take() {
        take_name(&name).map_err(EngineError::from)?;
    }
    limits::lift_processes();
    Ok(Some(privileges::give_up_everywhere))
}

/// Returns the failure of a verb without `--keep-privileges` that could not drop its rights.
fn refused(error: &io::Error) -> Failure {
    Failure::new(format!("drop privileges: {error}; {VARIABLE}=off drops capabilities only"))
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(format!("drop privileges: {error}; --keep-privileges keeps them"))
}

/// Returns the user that root switches to, if this process is allowed to.
fn nobody() -> io::Result<Option<Account>> {
    if users::effective_user() != 0 {
        return Ok(None);
    }
    let account = Account::nobody();
    // A user namespace may not map this uid.
    Ok(privileges::may_become(&account)?.then_some(account))
}

fn name_successor(named: Option<&Account>) -> Result<(), Failure> {
    let user = named.cloned();
    privileges::name_confinement(Confinement { user, ..Confinement::default() });
    try_successor(named)
}

/// Checks on a separate thread that switching to the named user works.
fn try_successor(named: Option<&Account>) -> Result<(), Failure> {
    let Some(account) = named else { return Ok(()) };
    apart("successor", privileges::give_up)?.map_err(|error| {
        Failure::new(format!(
            "-Z {}: this process, of user {}, cannot become user {}: {error}; run it as root, or \
             without -Z",
            account.name,
            users::effective_user(),
            account.user
        ))
    })
}

fn add_grants(grants: &[Grant], rules: &Ruleset) -> io::Result<()> {
    for Grant { path, kind, .. } in grants {
        match kind {
            GrantKind::Read => rules.allow(path, Access::Read)?,
            GrantKind::Write if path.is_dir() => rules.allow(path, Access::Write)?,
            // A file that is not there yet is made in its folder.
            GrantKind::Write if !path.exists() => rules.allow(folder_of(path), Access::Write)?,
            GrantKind::Write => rules.allow(path, Access::Write)?,
            // It is removed from its folder.
            GrantKind::Socket => rules.allow(folder_of(path), Access::Write)?,
        }
    }
    Ok(())
}

impl Wants {
    /// Returns what threads of this job keep, but for their user.
    fn confinement(&self, refusal: Refusal) -> io::Result<Confinement> {
        let files = if self.opens_anything { None } else { rules(self)? };
        let is_filtered = !self.calls_anything && CallFilter::is_supported();
        let calls =
            is_filtered.then(|| CallFilter::with_late_files(&self.calls, self.late, refusal));
        Ok(Confinement { user: None, files, calls })
    }

    /// Starts the helper. Returns false if the job has to do without: a library opens files by
    /// itself, it opens ports by any path, or no helper starts. A note says that, and `else_what`.
    fn start_helper(&self, refusal: Refusal, else_what: &str) -> bool {
        if self.opens_anything || self.calls_anything || self.takes_descriptors {
            return false;
        }
        if self.has_door {
            // Threads without rights count their frames against this limit.
            limits::lift_locked_memory();
        }
        let early = self.early.as_ref();
        // A name that is taken early is shown later, and its socket removed at the end.
        let is_later = |grant: &&Grant| !self.is_partial || grant.kind == GrantKind::Socket;
        let later: Vec<Grant> = self.grants.iter().filter(is_later).cloned().collect();
        let takes_name = early.is_some_and(|early| early.name.is_some());
        let options = HelperOptions {
            grants: [&later[..], early.map_or(&[][..], |early| &early.grants)].concat(),
            sockets: self.sockets.clone(),
            names: self.names.clone(),
            has_files_of_others: self.has_files_of_others
                || takes_name
                || early.is_some_and(|it| it.writes),
            gives_files: early.is_some_and(|early| early.gives_files),
            is_partial: self.is_partial,
            command: self.command.clone(),
            name_characters: self.name_characters.clone(),
            porter: self.has_door.then_some(serve_door as Porter),
            loader: self.has_door.then_some(load_for_job as Loader),
        };
        let started = helper::start(options, || self.confinement_of_helper(refusal));
        if let Err(error) = &started {
            complain(&format!("note: no helper process: {error}; {else_what}"));
        }
        started.is_ok()
    }

    /// Returns what the helper keeps: the files of the job, and calls to open them.
    fn confinement_of_helper(&self, refusal: Refusal) -> io::Result<Confinement> {
        // Which files ports take that users ask for is not known yet.
        let files = if self.has_door { None } else { Ruleset::new()? };
        if let Some(files) = &files {
            add_grants(&self.grants, files)?;
            if let Some(early) = &self.early {
                add_grants(&early.grants, files)?;
            }
        }
        let is_folders = |need: &Need| *need == Need::Folders;
        let mut needs: Vec<_> = self.calls.iter().copied().filter(is_folders).collect();
        // That of names, if it is not there yet.
        needs.extend(self.has_door.then_some(Need::Folders));
        let late = LateFiles {
            has_modes: self.late.has_modes || self.early.as_ref().is_some_and(|it| it.gives_files),
            has_names: self.late.has_names,
            is_helper: true,
            opens_ports: self.has_door,
            ..LateFiles::default()
        };
        let is_filtered = CallFilter::is_supported();
        let calls = is_filtered.then(|| CallFilter::with_late_files(&needs, late, refusal));
        Ok(Confinement { user: None, files, calls })
    }

    /// Whether a helper may open what this job begins with for another user than root.
    fn is_early_for_others(&self) -> bool {
        self.early.as_ref().is_some_and(|early| !early.is_for_root)
    }

    /// Keeps what the job takes that opens files once its rights are gone, or has it open them
    /// before: then it is as another job.
    fn begin_early(&mut self) {
        // Without a helper, root would open files of others and outputs without root's rights.
        // Commands for closed files need a thread with all calls.
        let is_simple = !self.takes_descriptors && self.command.is_empty();
        // A user may have the right to files of others, as a service's AmbientCapabilities give it.
        let has_none = || privileges::has_rights_to_files().is_ok_and(|has| !has);
        let is_own = users::effective_user() != 0 && has_none();
        let is_possible = helper::is_started() || is_own && is_simple;
        self.early = self.early.take().filter(|_| is_possible);
        let Some(early) = &self.early else { return };
        for (path, is_written) in &early.descriptors {
            kept::keep(path, *is_written);
        }
        if !helper::is_started() {
            self.late.has_modes |= early.gives_files;
            self.grants.extend(early.grants.iter().cloned());
        }
    }

    /// The job's own threads open later files and ports.
    fn do_without_helper(&mut self) {
        self.opens_anything |= self.starts_programs_late || self.has_door;
        self.calls_anything |= self.starts_programs_late;
        self.opens_ports_later |= self.has_door;
        self.settle();
    }

    /// Leaves out what the helper does.
    fn leave_to_helper(&mut self) {
        self.grants.clear();
        self.calls.retain(|need| *need != Need::Folders);
        (self.late.has_modes, self.late.has_names) = (false, false);
    }
}

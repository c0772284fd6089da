//! What a job takes that reads files: it opens them, and its outputs, once it has no rights left.
//!
//! ```text
//!   ports that take rights ──► all threads give up theirs ──► files: the first byte ──► outputs
//!                                                               └── by the helper ──────┘
//! ```
//!
//! Decision 0070. A job whose user is named has the same helper for what is opened until packets
//! come. Later files are that user's.

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::slice;

use burstline_port::{Address, SetPlaces, index_path, striped_paths};
use burstline_share::PublishConfig;
use burstline_sys::direct::is_own_descriptor;
use burstline_sys::helper::{Grant, GrantKind};
use burstline_sys::inode::{folder_of, is_by_magic_link};
use burstline_sys::scheduling::SchedulingClass;
use burstline_sys::{limits, privileges};

use super::super::places::{links_in, prefix_of_names};
use super::Wants;
use crate::args::{CaptureArgs, JobArgs, NOTHING, OutputArgs, Verb};
use crate::verbs::balance_sinks;

/// The path of standard output.
const STDOUT: &str = "/dev/stdout";

/// What a job opens after it has given up its rights, and before packets come.
#[derive(Debug, Default)]
pub(in super::super) struct Early {
    pub(in super::super) grants: Vec<Grant>,
    /// Paths of its own descriptors, and whether it writes there.
    pub(in super::super) descriptors: Vec<(PathBuf, bool)>,
    /// Whether it writes files.
    pub(in super::super) writes: bool,
    /// Files of packets that it writes, each by a ring of io_uring.
    pub(in super::super) recordings: usize,
    /// Whether it names owners and modes.
    pub(in super::super) gives_files: bool,
    /// Whether a helper cannot open all of it: a link leads elsewhere than its path says.
    pub(in super::super) is_beyond_helper: bool,
    /// A name to take before: readers trust the user who makes its socket.
    pub(in super::super) name: Option<PublishConfig>,
    /// Whether a user who is named by `-Z` opens all of it later, too.
    pub(in super::super) is_for_root: bool,
}

/// Whether a source is made of files or pipes.
pub(crate) fn is_of_files(source: &Address) -> bool {
    source.is_file() || source.scheme() == "set" || template_of(source).is_some()
}

/// Returns the file whose packets a generator sends.
fn template_of(source: &Address) -> Option<&str> {
    source.parameter("template").filter(|_| source.scheme() == "gen")
}

/// Whether a port takes rights when it is opened, and no path.
pub(crate) fn takes_rights(port: &Address) -> bool {
    !is_of_files(port) && !["gen", "null"].contains(&port.scheme())
}

/// Whether threads without rights may take the job's scheduling class, or none may. The limit is
/// raised for that. It takes `CAP_SYS_RESOURCE`, which containers may lack.
fn may_take_class(job: &JobArgs) -> bool {
    let SchedulingClass::Fifo { priority } = job.priority else { return true };
    limits::allow_priority(priority) || privileges::effective().is_ok_and(|rights| rights == 0)
}

/// Returns the name under which a job publishes packets.
fn published(verb: &Verb) -> Option<&PublishConfig> {
    match verb {
        Verb::Count(args) => args.log.publish.as_ref(),
        Verb::Capture(args) => args.log.publish.as_ref(),
        Verb::Merge(args) => args.log.publish.as_ref(),
        Verb::Balance(args) => args.log.publish.as_ref(),
        Verb::Bounce(args) => args.inline.as_ref().map(|inline| &inline.publish),
        _ => None,
    }
}

impl Wants {
    /// Adds what a job with files as sources opens early.
    pub(super) fn open_early(&mut self, verb: &Verb) {
        let generator;
        let sources: &[Address] = match verb {
            Verb::Count(args) => &args.common.sources,
            Verb::Capture(args) => &args.common.sources,
            Verb::Flows(args) => &args.source.sources,
            Verb::Merge(args) => &args.common.sources,
            Verb::Balance(args) => &args.source.sources,
            Verb::Replay(args) => &args.files,
            Verb::Bounce(args) if !args.both => slice::from_ref(&args.from),
            Verb::Generate(args) => {
                generator = args.recipe.address(None, None).ok();
                generator.as_slice()
            }
            _ => return,
        };
        let is_possible = verb.job().is_some_and(may_take_class);
        if !sources.iter().any(is_of_files) || !is_possible {
            return;
        }
        let mut early = Early { name: published(verb).cloned(), ..Early::default() };
        sources.iter().filter(|source| is_of_files(source)).for_each(|one| early.read(one));
        match verb {
            Verb::Count(args) => {
                args.latency_log.iter().for_each(|path| early.write_one(path, false));
            }
            Verb::Capture(args) => early.capture(args),
            Verb::Flows(args) => early.is_for_root = args.output.is_some() || args.spool.is_some(),
            Verb::Merge(args) => {
                early.write(args.write.as_deref().unwrap_or(NOTHING), &args.files);
            }
            Verb::Balance(args) => {
                balance_sinks(args).unwrap_or_default().iter().for_each(|sink| early.send(sink));
            }
            Verb::Bounce(args) => early.send(&args.to),
            Verb::Generate(args) => early.send(&args.output),
            Verb::Replay(args) => {
                args.output.iter().for_each(|sink| early.send(sink));
                args.map.iter().for_each(|(_, sink)| early.send(sink));
            }
            _ => {}
        }
        if early.is_beyond_helper {
            return;
        }
        early.gives_files |= verb.successor().is_some() && early.writes;
        self.rings += early.recordings;
        self.early = Some(early);
    }
}

impl Early {
    fn read(&mut self, source: &Address) {
        let path = Path::new(template_of(source).unwrap_or(source.target()));
        if source.scheme() == "set" {
            let mut paths = SetPlaces::of_address(source).paths;
            // A helper leaves no folder that it may read.
            paths.extend(paths.clone().iter().flat_map(|path| links_in(path)));
            if paths.is_empty() {
                // Opening it says what is wrong.
                paths = vec![path.to_owned(), folder_of(path).to_owned()];
            }
            for path in paths {
                let is_deep = false;
                self.grants.push(Grant { is_deep, ..Grant::of(path, GrantKind::Read) });
            }
        } else if is_own_descriptor(path) {
            self.descriptors.push((path.to_owned(), false));
        } else if !source.is_standard() {
            self.is_beyond_helper |= is_by_magic_link(path);
            self.grants.push(Grant::of_one(path.to_owned(), GrantKind::Read));
            self.grants.push(Grant::of_one(index_path(path), GrantKind::Read));
        }
    }

    fn capture(&mut self, args: &CaptureArgs) {
        match &args.output {
            Some(sink) => self.send(sink),
            // Files of triggers are made later.
            None if args.keep.is_some() => {}
            None => self.write(args.write(), &args.files),
        }
        if args.resume {
            self.is_for_root = true;
            for path in striped_paths(args.write()).unwrap_or_default() {
                let name = Path::new(&path).file_name().unwrap_or_default().to_string_lossy();
                let prefix = prefix_of_names(&name).to_owned();
                self.write_names(folder_of(Path::new(&path)), &prefix, "");
            }
        }
    }

    /// An output with its options. Other files than the first are in no grant of this job.
    fn write(&mut self, path: &str, files: &OutputArgs) {
        self.is_for_root |= files.on_close.is_some();
        if path == NOTHING {
            return;
        }
        if path == "-" {
            self.descriptors.push((STDOUT.into(), true));
            return;
        }
        self.gives_files |= files.mode.is_some() || files.owner.is_some();
        let has_more = files.rotation().is_some() || files.links.splits();
        for path in striped_paths(path).unwrap_or_default() {
            // A pipe or a device has no further files.
            let is_special = fs::metadata(&path).is_ok_and(|found| !found.is_file());
            self.recordings += usize::from(!is_special);
            if !has_more || is_special {
                self.write_one(Path::new(&path), files.follow_links);
            }
        }
    }

    fn send(&mut self, sink: &Address) {
        if sink.is_standard() {
            self.descriptors.push((STDOUT.into(), true));
        } else if sink.is_file() {
            self.recordings += 1;
            self.write_one(Path::new(sink.target()), false);
        }
    }

    /// A file that is made or emptied, or what is there and is no file.
    fn write_one(&mut self, path: &Path, follows_links: bool) {
        if is_own_descriptor(path) {
            self.descriptors.push((path.to_owned(), true));
            return;
        }
        self.writes = true;
        let found = fs::symlink_metadata(path);
        // The target of a link may be anywhere, and may not be there yet.
        self.is_beyond_helper |= follows_links && found.as_ref().is_ok_and(Metadata::is_symlink);
        if found.is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
            self.grants.push(Grant::of_one(path.to_owned(), GrantKind::Write));
            return;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        self.write_names(folder_of(path), &name, &name);
    }

    /// Files of a folder whose names begin and end so.
    fn write_names(&mut self, folder: &Path, prefix: &str, suffix: &str) {
        self.writes = true;
        let grant = Grant::of(folder.to_owned(), GrantKind::Write);
        let [name_prefix, name_suffix] = [prefix, suffix].map(str::to_owned);
        self.grants.push(Grant { name_prefix, name_suffix, is_deep: false, ..grant });
    }
}

//! What a verb opens, calls and owns after its threads have given up their rights.
//!
//! Each port, file and name of the command line adds to one [`Wants`]. What it forgets is refused
//! later, in the middle of a job.

mod asking;
mod files;

use std::fs;
use std::path::{Path, PathBuf};

use burstline_engine::InlineOptions;
use burstline_port::{
    Address, FileNaming, PortTable, Role, Rotation, SetPlaces, steady_folder, striped_paths,
};
use burstline_share::{files_of_name, switch_socket};
use burstline_sys::direct::is_own_descriptor;
use burstline_sys::helper::{Grant, GrantKind, Names};
use burstline_sys::inode::{folder_of, make_own_folder};
use burstline_sys::privileges::{LateFiles, Need};

use super::places::{
    characters_of_names, folders_below, make_folder_of_names, places_of, prefix_of_names,
};
use crate::args::{CaptureArgs, LogArgs, NOTHING, OutputArgs, SwitchArgs, Verb};
use crate::verbs::{Opens, switch_opens};
pub(super) use files::Early;
pub(crate) use files::{is_of_files, takes_rights};

/// DPDK's drivers whose peers come by a UNIX socket, and the argument that has its path.
/// Source: drivers/net of DPDK 22.11.
const PEERS: [(&str, &str); 4] = [
    ("net_vhost", "iface"),
    ("eth_vhost", "iface"),
    ("net_memif", "socket"),
    ("net_virtio_user", "path"),
];

/// The most recordings that have a ring of io_uring each, of those that are opened later.
const RINGS_MOST: usize = 4;

/// What a job does after it has begun.
#[derive(Debug, Default)]
pub(super) struct Wants {
    /// Files and folders opened later.
    pub(super) grants: Vec<Grant>,
    /// A folder of its user, which is removed at the end.
    pub(super) temporary: Option<PathBuf>,
    /// Paths of sockets that are connected to later.
    pub(super) sockets: Vec<PathBuf>,
    /// TCP ports that the job connects to.
    pub(super) tcp_ports: Vec<u16>,
    pub(super) calls: Vec<Need>,
    pub(super) late: LateFiles,
    /// Rings of io_uring for recordings that are opened later.
    pub(super) rings: usize,
    /// Folders in which published names are connected to, whoever publishes them.
    pub(super) names: Option<Names>,
    /// Whether files and sockets of other users are written to.
    pub(super) has_files_of_others: bool,
    /// Whether something that is opened later needs the user that started the job: then a helper
    /// has that user, or the job keeps it.
    pub(super) takes_user: bool,
    /// Whether the job opens paths that are not known yet, or that a library chooses.
    pub(super) opens_anything: bool,
    /// Whether a library or another program makes its own system calls.
    pub(super) calls_anything: bool,
    /// Whether a library starts threads, with the rights of ours.
    pub(super) has_library_threads: bool,
    /// Whether ports are opened while packets come.
    pub(super) opens_ports_later: bool,
    /// Whether users of the running job ask it to open ports.
    pub(super) has_door: bool,
    /// Interfaces of ports that they ask for.
    pub(super) interfaces: Vec<String>,
    /// Tap devices that they ask for.
    pub(super) taps: Vec<String>,
    /// The command that is run for closed files.
    pub(super) command: Vec<String>,
    /// Whether something later takes a path of this process's own descriptors, such as /dev/stdout.
    pub(super) takes_descriptors: bool,
    /// What names of such files contain.
    pub(super) name_characters: String,
    /// Whether the thread that runs it starts only after its starter has given up its rights.
    /// Without a helper, that job cannot be confined.
    pub(super) starts_programs_late: bool,
    /// Whether a helper opens nothing else: the user of `-Z` does.
    pub(super) is_partial: bool,
    /// What a job opens before packets come, if it reads files.
    pub(super) early: Option<Early>,
}

impl Wants {
    /// Returns `None` if the verb reads nothing of others, or keeps its files and calls.
    pub(super) fn of(verb: &Verb) -> Option<Self> {
        let mut wants = Self::default();
        match verb {
            Verb::Count(args) => {
                wants.read(&args.common.sources);
                wants.have_log(&args.log);
            }
            Verb::Capture(args) => wants.capture(args),
            Verb::Flows(args) if args.action.is_some() => return Self::of_asking(verb),
            Verb::Flows(args) => {
                wants.read(&args.source.sources);
                let tcp = args.ipfix.iter().filter(|collector| collector.is_tcp);
                wants.tcp_ports.extend(tcp.map(|collector| collector.port));
                wants.calls.extend(args.ipfix.first().map(|_| Need::Collector));
                for bus in args.buses() {
                    wants.tcp_ports.extend(&bus.ports);
                    wants.calls.push(Need::Collector);
                }
                let spool = args.spool.iter().map(|spool| &spool.folder);
                args.output.iter().chain(spool).for_each(|folder| wants.fill(folder));
            }
            Verb::Merge(args) => {
                wants.read(&args.common.sources);
                wants.write(args.write.as_deref(), &args.files);
                wants.have_log(&args.log);
            }
            Verb::Balance(args) => {
                wants.read(&args.source.sources);
                wants.have_log(&args.log);
            }
            Verb::Bounce(args) => {
                wants.use_ports([&args.from, &args.to]);
                wants.inline(args.inline.as_ref());
            }
            Verb::Generate(args) => wants.use_ports([&args.output]),
            Verb::Replay(args) => {
                wants.read(&args.files);
                // Files are reopened for each pass.
                wants.takes_user |= args.loops != 1;
                let is_own = |file: &Address| is_own_descriptor(Path::new(file.target()));
                wants.takes_descriptors |= args.loops != 1 && args.files.iter().any(is_own);
                let mapped = args.map.iter().map(|(_, sink)| sink);
                wants.use_ports(args.output.iter().chain(mapped));
            }
            Verb::Switch(args) => wants.switch(args),
            _ => return Self::of_asking(verb),
        }
        wants.open_early(verb);
        Some(wants)
    }

    /// What ports, and targets of mirrors, take that a user of a running job asks for.
    pub(super) fn of_later(opens: &Opens) -> Self {
        let mut wants = Self::default();
        let resolved = |ports: &[Address], role: Role| -> Vec<Address> {
            ports.iter().filter_map(|port| port.resolved(role).ok()).collect()
        };
        let ports = resolved(&opens.ports, Role::Source);
        wants.read(&ports);
        let targets = resolved(&opens.targets, Role::Sink);
        wants.use_ports(&targets);
        for target in targets.iter().filter(|target| target.is_file()) {
            wants.grant_sink(Path::new(target.target()));
        }
        for port in ports.iter().chain(&targets) {
            wants.open_later(port);
        }
        wants
    }

    /// A file that is written later, and no others of its folder; it may be a device or a pipe. One
    /// that is a folder is nothing to write.
    fn grant_sink(&mut self, path: &Path) {
        match fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            true => self.grant_one(path.to_owned(), GrantKind::Write),
            false => self.grant_files(path, false),
        }
    }

    fn open_later(&mut self, port: &Address) {
        match port.scheme() {
            "log" => {
                // If it is no name, opening the port says so.
                let files = files_of_name(port.target()).into_iter().flatten();
                files.for_each(|path| self.grant_one(path, GrantKind::Write));
            }
            "xdp" => {
                let name = port.target().split('@').next().unwrap_or_default();
                self.interfaces.push(name.to_owned());
            }
            "afpacket" => self.interfaces.push(port.target().to_owned()),
            "tap" => self.taps.push(port.target().to_owned()),
            _ => {}
        }
    }

    fn capture(&mut self, args: &CaptureArgs) {
        self.read(&args.common.sources);
        self.use_ports(&args.output);
        self.write(args.write.as_deref(), &args.files);
        self.have_log(&args.log);
        if args.keep.is_some() {
            self.make_files(args.write(), &args.files);
            // Files of other triggers follow when this one is closed.
            let stripes = striped_paths(args.write()).map_or(0, |paths| paths.len());
            self.rings = self.rings.max(stripes.min(RINGS_MOST));
            self.starts_programs_late = args.files.on_close.is_some();
        }
    }

    fn inline(&mut self, inline: Option<&InlineOptions>) {
        if let Some(inline) = inline {
            self.publish(&inline.publish.name);
        }
    }

    fn switch(&mut self, args: &SwitchArgs) {
        self.inline(args.inline.as_ref());
        // Errors in its file are reported when the switch reads it.
        let Ok(Opens { ports, targets }) = switch_opens(args) else { return };
        self.use_ports(ports.iter().chain(&targets));
        if let Some(path) = args.name.as_deref().and_then(|name| switch_socket(name).ok()) {
            // Users add ports while it runs, by this socket.
            self.has_door = true;
            // For mirrors to files.
            self.rings = RINGS_MOST;
            self.calls.push(Need::Maps);
            self.have_sockets(vec![path]);
        }
        if targets.iter().any(|target| target.scheme() == "log") {
            make_folder_of_names();
        }
    }

    fn read(&mut self, sources: &[Address]) {
        for source in sources.iter().filter(|source| source.is_file() && !source.is_standard()) {
            self.grant_one(source.target().into(), GrantKind::Read);
        }
        for set in sources.iter().filter(|source| source.scheme() == "set") {
            self.read_set(SetPlaces::of_address(set));
        }
        // More files than ports are one set, too. Their paths are known already.
        if sources.len() > PortTable::MAX_ENTRIES {
            self.read_set(SetPlaces { files: sources.len(), ..SetPlaces::default() });
        }
        self.use_ports(sources);
    }

    /// A set of more files than descriptors opens them one after another. They may be root's alone.
    fn read_set(&mut self, places: SetPlaces) {
        if places.opens_later() {
            self.takes_user = true;
            places.paths.into_iter().for_each(|path| self.grant(path, GrantKind::Read));
        }
    }

    fn use_ports<'a>(&mut self, ports: impl IntoIterator<Item = &'a Address>) {
        for port in ports {
            match port.scheme() {
                "log" => {
                    self.have_sockets(places_of(port.target()));
                    // A reader goes on with the next publisher.
                    self.sockets.extend(places_of(port.target()));
                }
                "xdp" => self.calls.push(Need::Maps),
                "inject" => self.calls.push(Need::Injections),
                // The control thread serves peers at this path one after another, and removes the
                // path.
                "vhost" | "memif" => {
                    self.have_sockets(vec![port.target().into()]);
                    self.sockets.push(port.target().into());
                }
                "dpdk" => self.use_library(port.target()),
                _ => {}
            }
        }
    }

    /// A DPDK device: by the time that packets come, its driver has opened what it opens.
    fn use_library(&mut self, device: &str) {
        self.has_library_threads = true;
        self.late.has_library = true;
        let mut arguments = device.split([',', '?']);
        let driver = arguments.next().unwrap_or_default();
        let Some((_, key)) = PEERS.iter().find(|(name, _)| driver.starts_with(name)) else {
            return;
        };
        self.late.has_library_peers = true;
        let path = arguments.find_map(|argument| argument.strip_prefix(*key)?.strip_prefix('='));
        // What is there already is a peer's, or a device of the kernel.
        let is_unused = |path: &PathBuf| fs::symlink_metadata(path).is_err();
        if let Some(path) = path.map(PathBuf::from).filter(is_unused) {
            // The driver listens there. Its file is removed when the device is closed.
            self.takes_user = true;
            self.late.has_names = true;
            self.grant(path, GrantKind::Socket);
        }
    }

    /// Something later takes the user that started this, and no helper can do it.
    pub(super) fn stay_of_this_user(&mut self) {
        (self.takes_user, self.takes_descriptors) = (true, true);
    }

    /// A library that opens ports while packets come needs all that a port may need.
    pub(super) fn settle(&mut self) {
        if self.has_library_threads && self.opens_ports_later {
            self.takes_user = true;
            self.opens_anything = true;
            self.calls_anything = true;
        }
    }

    fn write(&mut self, path: Option<&str>, files: &OutputArgs) {
        let Some(path) = path else { return };
        let splits = files.links.splits();
        if files.rotation().is_some() || files.on_close.is_some() || splits {
            self.make_files(path, files);
        }
    }

    /// Files and folders are created below `folder`.
    fn fill(&mut self, folder: &Path) {
        // If it cannot be created, the code that writes there reports the error.
        let _ = make_own_folder(folder);
        self.takes_user = true;
        self.calls.push(Need::Folders);
        self.grant(folder.to_owned(), GrantKind::Write);
    }

    /// Files of this name are created or removed while the job runs.
    fn make_files(&mut self, path: &str, files: &OutputArgs) {
        if path == NOTHING || path == "-" {
            return;
        }
        self.command = files.on_close.as_ref().map_or(Vec::new(), |words| words.0.clone());
        self.takes_descriptors |= is_own_descriptor(Path::new(path)) && !self.command.is_empty();
        self.late.has_modes |= files.mode.is_some() || files.owner.is_some();
        // Recordings that only rotate keep the rings of their first files.
        if files.links.splits() {
            self.rings = RINGS_MOST;
        }
        let is_timed = |rotation: Rotation| rotation.naming == FileNaming::Timed;
        self.name_files(path, files.rotation().is_some_and(is_timed));
    }

    /// The files of an output are made by the user that started the job.
    fn name_files(&mut self, path: &str, is_timed: bool) {
        self.takes_user = true;
        self.name_characters = characters_of_names(path);
        // Invalid paths are rejected where they are used.
        for path in striped_paths(path).unwrap_or_default() {
            self.grant_files(Path::new(&path), is_timed);
        }
    }

    fn have_log(&mut self, log: &LogArgs) {
        if let Some(publish) = &log.publish {
            self.publish(&publish.name);
        }
    }

    fn publish(&mut self, name: &str) {
        make_folder_of_names();
        let mut places = places_of(name);
        // Its socket is renamed once there are logs.
        places.extend(files_of_name(name).into_iter().map(|[.., unfinished]| unfinished));
        self.have_sockets(places);
    }

    /// Peers come and go at these paths, which are looked at, and removed at the end.
    fn have_sockets(&mut self, paths: Vec<PathBuf>) {
        self.takes_user = true;
        self.calls.push(Need::Bells);
        self.late.has_names = true;
        paths.into_iter().for_each(|path| self.grant(path, GrantKind::Socket));
    }

    fn grant(&mut self, path: PathBuf, kind: GrantKind) {
        self.grants.push(Grant::of(path, kind));
    }

    fn grant_one(&mut self, path: PathBuf, kind: GrantKind) {
        self.grants.push(Grant::of_one(path, kind));
    }

    /// The files of an output, and no others of its folder.
    fn grant_files(&mut self, path: &Path, is_timed: bool) {
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return; // a pipe or a device has no further files
        }
        let folder = folder_of(path);
        let steady = if is_timed { steady_folder(path) } else { folder };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if steady != folder {
            self.calls.push(Need::Folders);
        }
        self.grants.push(Grant {
            name_prefix: prefix_of_names(&name).to_owned(),
            is_deep: steady != folder,
            folders: folders_below(steady, folder),
            ..Grant::of(steady.to_owned(), GrantKind::Write)
        });
    }
}

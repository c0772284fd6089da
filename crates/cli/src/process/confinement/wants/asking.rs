//! What verbs take that are no jobs and ask: of files, publishers, or machines.
//!
//! Decision 0069: all their threads give up their rights first, so a helper does all of this.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use burstline_port::{CATALOGUE, SetPlaces, index_path, striped_paths};
use burstline_share::{folders_of_names, is_name};
use burstline_sys::direct::is_own_descriptor;
use burstline_sys::folder;
use burstline_sys::helper::{Grant, GrantKind, Names};
use burstline_sys::inode::folder_of;
use burstline_sys::kept;
use burstline_sys::privileges::Need;

use super::super::places::{links_in, make_folder_of_names, places_of, prefix_of_names};
use super::{RINGS_MOST, Wants};
use crate::args::{Doctor, FetchArgs, FilesArgs, FlowsAction, Lab, NOTHING, ReportArgs, Verb};
use crate::verbs::{record_at, top_port};

impl Wants {
    /// The same for verbs that are no jobs and ask others.
    pub(super) fn of_asking(verb: &Verb) -> Option<Self> {
        let mut wants = Self::default();
        match verb {
            Verb::Extract(args) => {
                let places = wants.read_archive(&args.files);
                wants.write_hints(places);
                wants.write_later(args.write.as_deref(), args.links.splits());
            }
            Verb::Recover(args) => {
                wants.read_archive(&args.files);
                wants.write_later(Some(&args.write), args.links.splits());
            }
            Verb::Info(args) => _ = wants.read_archive(&args.files),
            Verb::Check(args) => {
                wants.read_archive(&args.files);
                // A file that is not named may fill a gap.
                let is_file = |target: &&Path| !target.is_dir();
                let files = args.files.files.iter().map(Path::new).filter(is_file);
                let folders: BTreeSet<_> = files.map(folder_of).collect();
                folders.into_iter().for_each(|folder| wants.read_near(folder));
            }
            Verb::Index(args) => {
                let places = wants.read_archive(&args.files);
                wants.write_hints(places);
            }
            Verb::Doctor(args) => {
                if let Some(Doctor::Logs(args)) = &args.about {
                    wants.ask_publishers(args.name.as_deref());
                }
            }
            Verb::Extcap(args) if args.extcap_interfaces => wants.ask_publishers(None),
            // It executes `capture`, which names its own.
            Verb::Extcap(_) => {}
            Verb::Top(args) => {
                if args.address.is_none() {
                    wants.ask_publishers(None);
                }
                wants.tcp_ports.extend(args.address.as_deref().and_then(top_port));
                // Without a terminal as its input it reads keys from /dev/tty.
                let has_keys =
                    io::stdin().is_terminal() || args.once || !io::stdout().is_terminal();
                wants.opens_anything = !has_keys;
                wants.calls.push(Need::Collector);
            }
            // It answers for a service, over connections that the service makes, or writes its log
            // from pipes that it gets. The service itself reads nothing of others.
            Verb::Run(args) if args.answers || args.journal => {}
            Verb::Flows(args) => {
                let FlowsAction::Compact { tree, .. } = args.action.as_ref()?;
                wants.takes_user = true;
                wants.has_files_of_others = true;
                wants.grant(tree.clone(), GrantKind::Write);
            }
            Verb::Lab(args) => return wants.lab(&args.what).then_some(wants),
            _ => return None,
        }
        Some(wants)
    }

    /// An experiment with ports of its own, or what reads records. Returns whether it is one.
    fn lab(&mut self, what: &Lab) -> bool {
        match what {
            Lab::Rfc2544(args) => {
                self.use_ports(args.tx.iter().chain(&args.rx));
                // It opens its ports again for each trial.
                self.opens_ports_later = true;
                // Beside a device that it starts, its own ports are `xdp:`.
                self.calls.push(Need::Maps);
            }
            Lab::Report(args) => self.report(args),
            Lab::Compare(args) => {
                self.takes_user = true;
                for record in [&args.first, &args.second].map(|word| record_at(word, &args.dir)) {
                    match is_own_descriptor(&record) {
                        true => kept::keep(&record, false),
                        false => self.read_near(&record),
                    }
                }
            }
            Lab::Documents(args) => {
                self.takes_user = args.records.is_some();
                if let Some(folder) = &args.records {
                    self.read_linked(folder);
                }
            }
            _ => return false,
        }
        true
    }

    /// A folder of records, and the files that are written of them.
    fn report(&mut self, args: &ReportArgs) {
        self.takes_user = true;
        self.read_near(&args.folder);
        links_in(&args.folder).iter().for_each(|record| self.read_near(record));
        if let Some(charts) = args.charts.as_ref().filter(|_| args.folder.is_dir()) {
            // It may be for all to see; if it cannot be created, the report says so.
            let _ = fs::create_dir_all(charts);
            self.fill(charts);
        }
        let page = args.page();
        for path in [Some(&page), args.markdown.as_ref(), args.csv.as_ref()].into_iter().flatten() {
            self.write_later(path.to_str(), false);
            if path.to_str().is_none() {
                // A grant names only text.
                let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
                self.has_files_of_others = true;
                self.grant_names(folder_of(path).to_owned(), name, name);
            }
        }
    }

    /// Folders of records, where they are links, too.
    fn read_linked(&mut self, folder: &Path) {
        self.grants.push(Grant::of(folder.to_owned(), GrantKind::Read));
        for name in folder::names(folder).into_iter().flatten() {
            let run = folder.join(name);
            links_in(&run).iter().for_each(|record| self.read_near(record));
            if run.is_symlink() && run.is_dir() {
                self.read_near(&run);
            }
        }
    }

    /// What a fetch takes: `folder` for what sensors send, and a file for all of it.
    pub(in super::super) fn of_fetch(args: &FetchArgs, folder: &Path) -> Self {
        let mut wants = Self { takes_user: true, ..Self::default() };
        wants.grant(folder.to_owned(), GrantKind::Write);
        wants.write_later(Some(&args.write), args.links.splits());
        wants
    }

    /// What a demonstration takes, whose user owns `folder`.
    pub(in super::super) fn of_demo(folder: &Path) -> Self {
        let mut wants = Self { rings: RINGS_MOST, ..Self::default() };
        wants.grant(folder.to_owned(), GrantKind::Write);
        wants.calls.push(Need::Maps);
        wants
    }

    /// Captures that are opened one after another. All of them may be root's alone. Returns where
    /// they are: files, and folders of any.
    fn read_archive(&mut self, args: &FilesArgs) -> Vec<PathBuf> {
        self.takes_user = true;
        let mut places = Vec::new();
        for target in args.targets() {
            self.takes_descriptors |= is_own_descriptor(Path::new(target));
            let mut paths = SetPlaces::of(target).paths;
            places.extend(paths.clone());
            // A helper leaves no folder that it may read.
            paths.extend(paths.clone().iter().flat_map(|path| links_in(path)));
            if paths.is_empty() {
                // No regular file: a pipe, or nothing, which opening it says.
                let path = Path::new(target);
                paths = vec![path.to_owned(), folder_of(path).to_owned()];
            }
            paths.iter().for_each(|path| self.read_near(path));
        }
        places
    }

    /// The indexes beside captures in these places, and the catalogues of their folders.
    fn write_hints(&mut self, places: Vec<PathBuf>) {
        self.has_files_of_others = true;
        let of_indexes = index_path(Path::new("")).to_string_lossy().into_owned();
        for path in places {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // Of a folder or a pattern, any file may be a capture.
            let (folder, prefix) = match path.is_dir() {
                true => (path, ""),
                false => (folder_of(&path).to_owned(), &name[..]),
            };
            self.grant_names(folder.clone(), prefix, &of_indexes);
            self.grant_names(folder, CATALOGUE, CATALOGUE);
        }
    }

    /// Files of a folder whose names begin and end so.
    fn grant_names(&mut self, folder: PathBuf, prefix: &str, suffix: &str) {
        let grant = Grant::of(folder, GrantKind::Write);
        let [name_prefix, name_suffix] = [prefix, suffix].map(str::to_owned);
        self.grants.push(Grant { name_prefix, name_suffix, is_deep: false, ..grant });
    }

    /// An output that is opened when packets are known: one file, or if it `splits` one for each
    /// link type.
    fn write_later(&mut self, path: Option<&str>, splits: bool) {
        let Some(path) = path.filter(|path| !["-", NOTHING].contains(path)) else { return };
        self.takes_user = true;
        self.has_files_of_others = true;
        self.takes_descriptors |= is_own_descriptor(Path::new(path));
        self.rings = RINGS_MOST;
        // Invalid paths are rejected where they are used.
        for path in striped_paths(path).unwrap_or_default() {
            let path = Path::new(&path);
            if is_own_descriptor(path) || fs::metadata(path).is_ok_and(|found| !found.is_file()) {
                self.grant_one(path.to_owned(), GrantKind::Write);
                continue;
            }
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let (prefix, suffix) = match splits {
                true => (prefix_of_names(&name), &name[prefix_of_names(&name).len()..]),
                false => (&name[..], &name[..]),
            };
            self.grant_names(folder_of(path).to_owned(), prefix, suffix);
        }
    }

    /// A file, or the files of a folder, but not of folders in it.
    pub(super) fn read_near(&mut self, path: &Path) {
        let grant = Grant::of(path.to_owned(), GrantKind::Read);
        self.grants.push(Grant { is_deep: false, ..grant });
    }

    /// A publisher, or all that there are at some time.
    fn ask_publishers(&mut self, name: Option<&str>) {
        self.takes_user = true;
        self.has_files_of_others = true;
        self.late.has_names = true;
        match name {
            Some(name) => {
                // They are connected to, and not removed.
                let places = places_of(name);
                places.iter().for_each(|path| self.grant_one(path.clone(), GrantKind::Read));
                self.sockets.extend(places);
            }
            None => {
                make_folder_of_names();
                let folders = folders_of_names();
                for folder in &folders {
                    // That of root may be made later.
                    let there = folder.ancestors().find(|place| place.is_dir());
                    self.read_near(there.unwrap_or(folder));
                }
                self.names = Some(Names { folders, is_name });
            }
        }
    }
}

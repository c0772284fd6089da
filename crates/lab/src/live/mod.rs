//! Network interfaces that receive frames, and the programs that compete for the frames.
//!
//! ```text
//!   this process                               its own process, as for every contender
//!   far host's thread, core 0                  core 1
//!   injector --> v1: XDP program or socket --> ring --> contender --> its count, a file
//! ```
//!
//! Everything up to the contender's ring happens on the injector's core, so the contender's core
//! does only the contender's work. Each run has its own [`Road`]. What a contender leaves on its
//! interface (a program, a queue that stays in use for 80 ms) is removed with it.
//!
//! - L1: a contender reports that it is ready before the first frame. It has received or counted
//!   the last one before its counts are read.
//! - L2: a contender and its files are removed with the [`Contender`] and the [`Road`], its huge
//!   pages with its process. The reservation is released as soon as it is ready.
//! - L3: if this process is killed, the kernel kills contenders with all their descendants. The
//!   next [`Road`], of any process, removes the files.

mod contender;
mod core_time;
mod flows;
mod pages;
mod store;
mod turns;

pub(crate) use contender::has_ended;
pub use contender::{Contender, with_all};
pub use core_time::CoreTime;
pub use flows::FLOWS;
pub(crate) use flows::frame as udp_frame;
pub(crate) use pages::{pages_of, programs, watched};
pub use store::Store;
pub(crate) use turns::{Frames, Turn, under_load, with_share};

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use burstline_sys::affinity;
use burstline_sys::temporary::make_own_folder;
use burstline_testbed::{
    Amount, Bed, BedError, FAR, Frames as Numbered, Host, Injected, Injector, InjectorError,
    InjectorOptions, Target,
};

use crate::held::{self, Held};
use crate::threads::Cores;

/// Frame size in bytes without FCS: the minimum.
pub const FRAME_BYTES: usize = 60;

/// The case of a recording to disk.
pub(crate) const ON_DISK: &str = "disk";

/// The usual mount point of an in-memory file system.
const MEMORY: &str = "/dev/shm";

/// Prefix of the folders created there.
const FOLDER: &str = "burstline-bench-";

/// The interface where packets leave.
pub(crate) const OUT: &str = "w1";

/// Default MTU of cables.
const MTU: u32 = 1500;

/// Interval in which the injector checks whether the user stops the run.
const SLICE: Duration = Duration::from_millis(500);
const SLICE_FRAMES: u64 = 1 << 20;

/// The frames to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of frames, or duration.
    pub amount: Amount,
    /// Frames a second; `None` for full speed.
    pub rate_pps: Option<u64>,
}

/// Interfaces in a namespace and a folder in memory, all removed on drop.
pub struct Road {
    place: Place,
    interfaces: Vec<String>,
    cores: Cores,
    folder: Held,
    has_flows: bool,
}

/// Where a road's contender runs.
enum Place {
    /// Between cables created for it.
    Bed(Bed),
    /// In this process's own network namespace, whose interfaces are permanent.
    Here(Host),
}

/// A required program and its Debian package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The command name.
    pub program: &'static str,
    /// The package to install.
    pub package: &'static str,
}

impl Need {
    /// Returns that it is missing, and the fix.
    pub fn lack(&self) -> String {
        let Self { program, package } = self;
        format!("{program} is not installed: sudo apt-get install {package}")
    }

    /// Returns the same, or `None` if it is installed. Whether it runs, its first turn shows.
    pub(crate) fn missing(&self) -> Option<String> {
        (!is_there(self.program)).then(|| self.lack())
    }
}

/// Programs that are needed to start any program.
pub(crate) const STARTER: [Need; 3] = [
    Need { program: "taskset", package: "util-linux" },
    Need { program: "stdbuf", package: "coreutils" },
    Need { program: "kill", package: "procps" },
];

/// Returns why live figures cannot run here and the fix, or `None` if they can.
pub fn missing(needs: &[Need]) -> Option<String> {
    missing_of(needs.iter().chain(&STARTER))
}

/// The same, for these programs alone.
pub(crate) fn missing_of<'a>(mut needs: impl Iterator<Item = &'a Need>) -> Option<String> {
    // Whether a network can be created does not change during the life of this process.
    static NO_BED: OnceLock<Option<String>> = OnceLock::new();
    let no_bed = NO_BED.get_or_init(|| lack_of(&Bed::new()));
    if no_bed.is_some() {
        return no_bed.clone();
    }
    needs.find_map(Need::missing)
}

/// Returns what a bed lacks, and the fix. Any other error is a fault: the first road shows it.
fn lack_of(bed: &Result<Bed, BedError>) -> Option<String> {
    match bed {
        Err(lack @ (BedError::NotPermitted | BedError::Missing { .. })) => Some(lack.to_string()),
        _ => None,
    }
}

/// Runs a script on a host to its end.
///
/// # Errors
/// If it fails: its output on either stream.
pub(crate) fn shell(host: &Host, script: &str) -> Result<(), String> {
    // Only standard error is shown on failure, so standard output goes there, too.
    let script = format!("({script}) >&2");
    host.command("sh", &["-c", &script]).map(drop).map_err(|error| error.to_string())
}

impl Road {
    /// Creates a road. Frames are injected from the producer's core.
    ///
    /// # Errors
    /// Errors of the bed and the file system.
    pub fn new(cores: Cores) -> Result<Self, String> {
        Self::with_ports(cores, 1)
    }

    /// Like [`new`](Self::new), dealing the frames to this many interfaces, at least one.
    ///
    /// # Errors
    /// As there.
    pub fn with_ports(cores: Cores, ports: usize) -> Result<Self, String> {
        Self::with_mtu(cores, ports, MTU)
    }

    /// Like [`with_ports`](Self::with_ports), with this MTU of the cables.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_mtu(cores: Cores, ports: usize, mtu: u32) -> Result<Self, String> {
        Self::at(in_memory(), cores, ports, mtu)
    }

    /// Like [`with_mtu`](Self::with_mtu), but for the case [`ON_DISK`] its folder is where
    /// temporary files are.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn for_case(
        case: Option<&str>,
        cores: Cores,
        ports: usize,
        mtu: u32,
    ) -> Result<Self, String> {
        match case {
            Some(ON_DISK) => Self::at(env::temp_dir(), cores, ports, mtu),
            _ => Self::with_mtu(cores, ports, mtu),
        }
    }

    fn at(place: PathBuf, cores: Cores, ports: usize, mtu: u32) -> Result<Self, String> {
        let bed = Bed::with_mtu(mtu).map_err(|error: BedError| error.to_string())?;
        bed.far.run(move || affinity::pin_to(cores.producer)).map_err(|error| error.to_string())?;
        let folder = folder(&place)?;
        let interfaces = interfaces(ports);
        for name in &interfaces[1..] {
            // Both ends may have the same name, because they are on different hosts.
            bed.connect(name, name, mtu).map_err(|error| error.to_string())?;
        }
        Ok(Self { place: Place::Bed(bed), interfaces, cores, folder, has_flows: false })
    }

    /// Uses an existing interface: frames arrive from another machine at `interface` of this
    /// process's own network namespace. The folder is as in [`for_case`](Self::for_case).
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn here(case: Option<&str>, cores: Cores, interface: &str) -> Result<Self, String> {
        let place = if case == Some(ON_DISK) { env::temp_dir() } else { in_memory() };
        let folder = folder(&place)?;
        let host = Host::here().map_err(|error| error.to_string())?;
        let interfaces = vec![interface.to_owned()];
        Ok(Self { place: Place::Here(host), interfaces, cores, folder, has_flows: false })
    }

    /// Sends UDP frames of [`FLOWS`] flows instead of frames of an unknown protocol.
    #[must_use]
    pub fn with_flows(self) -> Self {
        Self { has_flows: true, ..self }
    }

    /// Returns the first interface.
    pub fn interface(&self) -> &'static str {
        FAR
    }

    /// Returns all interfaces that receive frames.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// Returns the host that contenders run on.
    pub fn host(&self) -> &Host {
        match &self.place {
            Place::Bed(bed) => &bed.far,
            Place::Here(host) => host,
        }
    }

    /// Returns whether its interfaces outlive it.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// Returns the bed, for other traffic.
    ///
    /// # Panics
    /// If frames come from another machine, so that no bed exists.
    pub fn bed(&self) -> &Bed {
        match &self.place {
            Place::Bed(bed) => bed,
            Place::Here(_) => panic!("frames from another machine have no testbed"),
        }
    }

    /// Returns the cores of the injector and the contender.
    pub fn cores(&self) -> Cores {
        self.cores
    }

    /// Returns the path of a file in the road's folder.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Returns the path of a contender's file, which replaces [`FILE`](crate::programs::FILE).
    pub fn data_file(&self) -> String {
        self.file("data")
    }

    /// Injects numbered frames of [`FRAME_BYTES`], the first number 0.
    ///
    /// # Errors
    /// Errors of the injector, or if `stop` was set.
    pub fn inject(
        &self,
        receiver: Target,
        load: Load,
        stop: &Arc<AtomicBool>,
    ) -> Result<Injected, String> {
        let nothing = || Ok(());
        Ok(self.inject_watched(receiver, load, FRAME_BYTES, stop, nothing, |()| Ok(()))?.0)
    }

    /// Like [`inject`](Self::inject), with frames of `bytes` bytes. Calls `begin` when all is
    /// ready, just before the first frame, and passes its result to `end` just after the last.
    /// Creating and removing an injector can take longer than its work.
    ///
    /// # Errors
    /// As there, and those of `begin` and `end`.
    pub fn inject_watched<W, S: Send + 'static>(
        &self,
        receiver: Target,
        load: Load,
        bytes: usize,
        stop: &Arc<AtomicBool>,
        begin: impl FnOnce() -> Result<W, String> + Send + 'static,
        end: impl FnOnce(W) -> Result<S, String> + Send + 'static,
    ) -> Result<(Injected, S), String> {
        let (stop, interfaces) = (Arc::clone(stop), self.interfaces.clone());
        let has_flows = self.has_flows;
        self.host().run(move || {
            let mut options = match has_flows {
                true => flows::options(FAR, bytes),
                false => InjectorOptions::numbered(FAR, &Numbered::new(0, bytes)),
            };
            options.receiver = receiver;
            let injector = Injector::dealing(&options, &interfaces);
            let mut injector = injector.map_err(|error| error.to_string())?;
            let watch = begin()?;
            let injected = inject_in_slices(&mut injector, load, &stop);
            let seen = end(watch)?;
            let injected = injected.map_err(|error| error.to_string())?;
            Ok((injected.ok_or("interrupted")?, seen))
        })
    }
}

/// Returns a folder in memory, so that the disk does not affect the measurement.
fn in_memory() -> PathBuf {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { memory.to_owned() } else { env::temp_dir() }
}

/// Creates a road's folder, after removing abandoned ones of killed processes.
fn folder(place: &Path) -> Result<Held, String> {
    held::left(place, FOLDER).for_each(|(path, _)| held::take_away(&path));
    let folder = Held::create(place, FOLDER, make_own_folder);
    folder.map_err(|error| format!("{}: {error}", place.display()))
}

/// Returns the names of this many interfaces, at least one: v1, v2, ...
pub fn interfaces(ports: usize) -> Vec<String> {
    (1..=ports.max(1)).map(|number| format!("v{number}")).collect()
}

/// Returns `None` if `stop` was set.
fn inject_in_slices(
    injector: &mut Injector,
    load: Load,
    stop: &AtomicBool,
) -> Result<Option<Injected>, InjectorError> {
    let mut all = Injected { offered: 0, elapsed: Duration::ZERO };
    let mut left = load.amount;
    loop {
        let (now, after) = match left {
            Amount::Frames(0) | Amount::Time(Duration::ZERO) => return Ok(Some(all)),
            Amount::Frames(frames) => {
                let now = frames.min(SLICE_FRAMES);
                (Amount::Frames(now), Amount::Frames(frames - now))
            }
            Amount::Time(time) => {
                (Amount::Time(time.min(SLICE)), Amount::Time(time.saturating_sub(SLICE)))
            }
        };
        // Relaxed: no other data depends on the flag.
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let slice = injector.inject(now, load.rate_pps)?;
        all.offered += slice.offered;
        all.elapsed += slice.elapsed;
        left = after;
    }
}

/// Returns whether a program is installed, by its name or path.
pub(crate) fn is_there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$0\" > /dev/null", program])
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_installed_and_does_not_run_is_no_lack() {
        let need = |program| Need { program, package: "coreutils" };
        let lack = "no-such-program is not installed: sudo apt-get install coreutils".to_owned();
        let missing = [need("false"), need("no-such-program")].map(|need| need.missing());
        assert_eq!(missing, [None, Some(lack)]);
    }

    #[test]
    fn only_a_right_or_a_program_that_a_bed_takes_is_a_lack() {
        let missing = BedError::Missing { program: "ip".to_owned(), package: "iproute2" };
        assert!(lack_of(&Err(missing)).unwrap().contains("iproute2"));
        assert!(lack_of(&Err(BedError::NotPermitted)).is_some());
        let failed = BedError::Failed {
            command: "ip link add".to_owned(),
            status: "exit status: 2".to_owned(),
            message: "RTNETLINK answers: File exists".to_owned(),
        };
        assert_eq!(lack_of(&Err(failed)), None);
    }
}

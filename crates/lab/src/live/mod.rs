//! A network interface that frames come in by, and the programs that compete for them.
//!
//! ```text
//!   this process                               its own process, as for every contender
//!   far host's thread, core 0                  core 1
//!   injector --> v1: XDP program or socket --> ring --> contender --> its count, a file
//! ```
//!
//! Everything up to the contender's ring happens on the injector's core, so what the contender's
//! core does is the contender's own work. Each run has its own [`Road`]. What a contender leaves on
//! its interface (a program, a queue that stays taken for 80 ms) goes with it.
//!
//! Invariants:
//! - L1: a contender reports that it is ready before the first frame. It has taken or counted the
//!   last one before we ask for its counts.
//! - L2: a contender and its files go with the [`Contender`] and the [`Road`], its huge pages with
//!   its process. The reservation is taken back as soon as it is ready.
//! - L3: if this process is killed, the kernel kills contenders with all that they have started.
//!   The next [`Road`], of any process, removes the files.

mod contender;
mod core_time;
mod flows;
mod pages;
mod store;
mod turns;

pub use contender::{Contender, with_all};
pub use core_time::CoreTime;
pub use flows::FLOWS;
pub(crate) use flows::frame as udp_frame;
pub(crate) use pages::pages_of;
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

/// Bytes of a frame without FCS: the shortest there is.
pub const FRAME_BYTES: usize = 60;

/// The case of a recording whose file is on a disk.
pub(crate) const ON_DISK: &str = "disk";

/// Where a file system in memory is, on most machines.
const MEMORY: &str = "/dev/shm";

/// What the names of folders there begin with.
const FOLDER: &str = "burstline-bench-";

/// The interface that packets go out by again.
pub(crate) const OUT: &str = "w1";

/// The MTU of cables, unless it is named.
const MTU: u32 = 1500;

/// How often the injector looks whether the user wants an end.
const SLICE: Duration = Duration::from_millis(500);
const SLICE_FRAMES: u64 = 1 << 20;

/// What to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many frames, or for how long.
    pub amount: Amount,
    /// Frames a second; `None`: as fast as it goes.
    pub rate_pps: Option<u64>,
}

/// Interfaces in a namespace, and a folder in memory; all go with it.
pub struct Road {
    place: Place,
    interfaces: Vec<String>,
    cores: Cores,
    folder: Held,
    has_flows: bool,
}

/// Where a road's contender is.
enum Place {
    /// Between cables that were made for it.
    Bed(Bed),
    /// In this process's own network namespace, whose interfaces stay.
    Here(Host),
}

/// A program that is needed, and the Debian package that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// As it is started.
    pub program: &'static str,
    /// To be installed.
    pub package: &'static str,
}

impl Need {
    /// That it is not here, and the mend.
    pub fn lack(&self) -> String {
        let Self { program, package } = self;
        format!("{program} is not installed: sudo apt-get install {package}")
    }
}

/// What everybody needs who starts a program.
pub(crate) const STARTER: [Need; 3] = [
    Need { program: "taskset", package: "util-linux" },
    Need { program: "stdbuf", package: "coreutils" },
    Need { program: "kill", package: "procps" },
];

/// Why live figures cannot be measured here: what is missing, and the mend. `None`: they can.
pub fn missing(needs: &[Need]) -> Option<String> {
    missing_of(needs.iter().chain(&STARTER))
}

/// The same, of these programs alone.
pub(crate) fn missing_of<'a>(mut needs: impl Iterator<Item = &'a Need>) -> Option<String> {
    // Whether a network can be made is the same for as long as this process lives.
    static NO_BED: OnceLock<Option<String>> = OnceLock::new();
    let no_bed = NO_BED.get_or_init(|| Bed::new().err().map(|error| error.to_string()));
    if no_bed.is_some() {
        return no_bed.clone();
    }
    let lacking = needs.find(|need| !is_there(need.program));
    lacking.map(Need::lack)
}

/// Runs a script on a host, to its end.
///
/// # Errors
/// What it said on either stream.
pub(crate) fn shell(host: &Host, script: &str) -> Result<(), String> {
    // What it says is shown where it fails, and that is what is on standard error.
    let script = format!("({script}) >&2");
    host.command("sh", &["-c", &script]).map(drop).map_err(|error| error.to_string())
}

impl Road {
    /// Makes one. Frames are injected from the producer's core.
    ///
    /// # Errors
    /// What the bed or the file system says.
    pub fn new(cores: Cores) -> Result<Self, String> {
        Self::with_ports(cores, 1)
    }

    /// As [`new`](Self::new), with this many interfaces, at least one, that frames are dealt over.
    ///
    /// # Errors
    /// As there.
    pub fn with_ports(cores: Cores, ports: usize) -> Result<Self, String> {
        Self::with_mtu(cores, ports, MTU)
    }

    /// As [`with_ports`](Self::with_ports), the cables with that MTU.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn with_mtu(cores: Cores, ports: usize, mtu: u32) -> Result<Self, String> {
        Self::at(in_memory(), cores, ports, mtu)
    }

    /// As [`with_mtu`](Self::with_mtu); with the files where temporary ones are, if the case is
    /// [`ON_DISK`].
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
            // Both ends may have one name: each is on its own host.
            bed.connect(name, name, mtu).map_err(|error| error.to_string())?;
        }
        Ok(Self { place: Place::Bed(bed), interfaces, cores, folder, has_flows: false })
    }

    /// One that is there already: frames come in by `interface` of this process's own network
    /// namespace, from another machine. Files as in [`for_case`](Self::for_case).
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn here(case: Option<&str>, cores: Cores, interface: &str) -> Result<Self, String> {
        let place = if case == Some(ON_DISK) { env::temp_dir() } else { in_memory() };
        let folder = folder(&place)?;
        let host = Host::here().map_err(|error| error.to_string())?;
        let interfaces = vec![interface.to_owned()];
        Ok(Self { place: Place::Here(host), interfaces, cores, folder, has_flows: false })
    }

    /// The same with frames of [`FLOWS`] flows of UDP, in place of such as no host knows.
    #[must_use]
    pub fn with_flows(self) -> Self {
        Self { has_flows: true, ..self }
    }

    /// The first interface.
    pub fn interface(&self) -> &'static str {
        FAR
    }

    /// All interfaces that frames come in by.
    pub fn interfaces(&self) -> &[String] {
        &self.interfaces
    }

    /// The host that contenders run on.
    pub fn host(&self) -> &Host {
        match &self.place {
            Place::Bed(bed) => &bed.far,
            Place::Here(host) => host,
        }
    }

    /// Whether its interfaces are there when it is gone.
    pub(crate) fn stays(&self) -> bool {
        matches!(self.place, Place::Here(_))
    }

    /// The bed, for other traffic.
    ///
    /// # Panics
    /// If frames come from another machine: then what asks for a bed has no place on this road.
    pub fn bed(&self) -> &Bed {
        match &self.place {
            Place::Bed(bed) => bed,
            Place::Here(_) => panic!("a road from another machine has no bed"),
        }
    }

    /// Where the injector and the contender run.
    pub fn cores(&self) -> Cores {
        self.cores
    }

    /// A file in the road's folder.
    pub fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// Where a contender's file is: what [`FILE`](crate::programs::FILE) stands for.
    pub fn data_file(&self) -> String {
        self.file("data")
    }

    /// Injects numbered frames of [`FRAME_BYTES`], the first number 0.
    ///
    /// # Errors
    /// What the injector says; that `stop` was raised.
    pub fn inject(
        &self,
        receiver: Target,
        load: Load,
        stop: &Arc<AtomicBool>,
    ) -> Result<Injected, String> {
        let nothing = || Ok(());
        Ok(self.inject_watched(receiver, load, FRAME_BYTES, stop, nothing, |()| Ok(()))?.0)
    }

    /// As [`inject`](Self::inject), frames of `bytes` bytes. `begin` is called when all is ready,
    /// just before the first frame; `end` just after the last, with what `begin` returned. Making
    /// and removing an injector can take longer than its work.
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

/// In memory, so that a disk is not what is measured.
fn in_memory() -> PathBuf {
    let memory = Path::new(MEMORY);
    if memory.is_dir() { memory.to_owned() } else { env::temp_dir() }
}

/// A folder of a road's, after those that killed ones have left.
fn folder(place: &Path) -> Result<Held, String> {
    held::left(place, FOLDER).for_each(|(path, _)| held::take_away(&path));
    let folder = Held::create(place, FOLDER, make_own_folder);
    folder.map_err(|error| format!("{}: {error}", place.display()))
}

/// The names of this many interfaces, at least one: v1, v2, ...
pub fn interfaces(ports: usize) -> Vec<String> {
    (1..=ports.max(1)).map(|number| format!("v{number}")).collect()
}

/// `None`: `stop` was raised.
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
        // The flag carries no memory.
        if stop.load(Relaxed) {
            return Ok(None);
        }
        let slice = injector.inject(now, load.rate_pps)?;
        all.offered += slice.offered;
        all.elapsed += slice.elapsed;
        left = after;
    }
}

fn is_there(program: &str) -> bool {
    Command::new("sh")
        .args(["-c", "command -v \"$0\" > /dev/null", program])
        .status()
        .is_ok_and(|status| status.success())
}

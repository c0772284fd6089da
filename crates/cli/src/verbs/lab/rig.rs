//! Devices that are started here, between two cables of their own.
//!
//! ```text
//!   near host                        far host
//!   sender    v0 ================ v1 --.
//!                                       device
//!   receiver  w0 ================ w1 --'
//! ```
//!
//! The hosts are network namespaces of this process. Whoever measures does so on the near host's
//! thread: threads that it starts, and sockets that they open, are in its namespace.
//!
//! Invariants:
//! - R1: a device passes on what it gets by the time that [`Rig::new`] returns.
//! - R2: programs, interfaces and files go with the [`Rig`]; programs and interfaces also when this
//!   process is killed.
//! - R3: a device that cannot be had here is no failure: there is a reason, with the mend.

use std::fs::DirBuilder;
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, process, thread};

use burstline_lab::live::{Need, PAGES};
use burstline_lab::pages::Reservation;
use burstline_lab::programs::{self, Datapath, Launch, Memory, Mode, Ours, Testpmd, bridge};
use burstline_sys::affinity::CoreId;
use burstline_testbed::{Bed, BedError, FAR, Host, Program};

use crate::args::Device;

/// The ends of the second cable, and the default ports of sender and receiver.
const BACK: [&str; 2] = ["w0", "w1"];
pub(super) const TX: &str = "xdp:v0";
pub(super) const RX: &str = "xdp:w0?frames=16384";

/// How long a device may take to begin, and how often it is looked at.
const READY_WITHIN: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(20);

/// From when a device says that it is ready until it is: a moment, by which some are early.
const SETTLE: Duration = Duration::from_millis(300);

/// What every device takes that is a program of its own.
const STARTER: [Need; 2] = [
    Need { program: "stdbuf", package: "coreutils" },
    Need { program: "taskset", package: "util-linux" },
];

/// Bytes of an Ethernet header and the FCS: what a frame has beyond the MTU.
const FRAME_OVERHEAD: u32 = 18;

/// Cores of a run: of the sender, of the receiver, of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) sender: CoreId,
    pub(super) receiver: CoreId,
    pub(super) device: CoreId,
}

/// A device with its two cables.
pub(super) struct Rig {
    // In this order: programs end before their host does.
    programs: Vec<Program>,
    bed: Bed,
    folder: Folder,
    /// What to say of the device.
    pub(super) note: String,
}

/// A folder that goes when it is dropped.
struct Folder(PathBuf);

impl Folder {
    /// A new one, for us alone. One that a killed run has left is passed over.
    fn new() -> io::Result<Self> {
        let mut number = 0;
        loop {
            let name = format!("burstline-lab-{}-{number}", process::id());
            let path = env::temp_dir().join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists && number < 99 => {
                    number += 1
                }
                outcome => return outcome.map(|()| Self(path)),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // gone already: all the better
    }
}

impl Rig {
    /// Starts a device for frames of up to `longest` bytes, FCS included.
    ///
    /// # Errors
    /// Why it cannot be had, and the mend.
    pub(super) fn new(device: Device, places: Places, longest: u32) -> Result<Self, String> {
        if let Some(missing) = missing(device) {
            return Err(missing);
        }
        let text = |error: BedError| error.to_string();
        let mtu = longest.saturating_sub(FRAME_OVERHEAD).max(1500);
        let bed = Bed::with_mtu(mtu).map_err(text)?;
        bed.connect(BACK[0], BACK[1], mtu).map_err(text)?;
        let folder = Folder::new().map_err(|error| format!("make a folder: {error}"))?;
        let mut rig = Self { programs: Vec::new(), bed, folder, note: String::new() };
        // As for the lab's contenders: they are there until the device's memory is made.
        let _pages = Reservation::take(PAGES);
        match device {
            Device::Bounce => rig.bounce(places),
            Device::Bridge => rig.bridge(),
            Device::Testpmd => rig.testpmd(places),
            Device::Ovs => rig.open_vswitch(places, Datapath::Sockets),
            Device::OvsDpdk => rig.open_vswitch(places, Datapath::Dpdk),
        }?;
        thread::sleep(SETTLE);
        Ok(rig)
    }

    /// Where to measure.
    pub(super) fn near(&self) -> &Host {
        &self.bed.near
    }

    /// Why the device is not running any more, if it is not.
    pub(super) fn is_over(&self) -> Option<String> {
        let is_over = self.programs.iter().any(|program| is_over(program.process_id()));
        is_over.then(|| format!("the device has ended: {}", tail(&self.output())))
    }

    fn bounce(&mut self, places: Places) -> Result<(), String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let (core, second) = (places.device, BACK[1]);
        self.note = format!("burstline bounce --both --poll busy on core {core}");
        let words = format!("bounce xdp:{FAR} xdp:{second} --both --poll busy --cores {core}");
        self.start(&Ours::new(&program, &words), &core.to_string())
    }

    fn bridge(&mut self) -> Result<(), String> {
        self.note =
            "the kernel's: its work is done where packets come in, on the sender's core".to_owned();
        bridge::start(&self.bed.far)
    }

    fn testpmd(&mut self, places: Places) -> Result<(), String> {
        let (main, core) = (places.sender, places.device);
        let pages = Memory::now();
        self.note = format!("dpdk-testpmd, io mode over net_af_xdp, on core {core}; {pages}");
        let testpmd = Testpmd::over(main, &[core], &[FAR, BACK[1]], Mode::Forward);
        self.start(&testpmd, &testpmd.core_list())
    }

    /// A database and a switch of our own, in the rig's folder.
    fn open_vswitch(&mut self, places: Places, datapath: Datapath) -> Result<(), String> {
        let (core, memory) = (places.device, Memory::now());
        let by = match datapath {
            Datapath::Sockets => "packet sockets".to_owned(),
            Datapath::Dpdk => format!("DPDK's net_af_xdp, {memory}"),
        };
        self.note = format!("Open vSwitch, datapath_type=netdev, {by}, NORMAL, on core {core}");
        let folder = self.folder.0.display().to_string();
        let cores = (places.sender, &[core][..]);
        self.programs = datapath.start(&self.bed.far, &folder, memory, cores)?;
        Ok(())
    }

    /// Starts a program on the far host, and returns once it is ready.
    fn start(&mut self, launch: &dyn Launch, cores: &str) -> Result<(), String> {
        let output = self.output();
        let script = programs::script(launch, &launch.command(Memory::now()), cores);
        let arguments = ["-c", &script, &output.display().to_string()];
        let program = self.bed.far.start("sh", &arguments, &[]);
        let program = program.map_err(|error| error.to_string())?;
        let process = program.process_id();
        self.programs.push(program);
        let (began, ready) = (Instant::now(), launch.ready());
        let said = || fs::read_to_string(&output).unwrap_or_default();
        while let Some(lack) = ready.lacks(&self.bed.far, &said()) {
            if is_over(process) || began.elapsed() > READY_WITHIN {
                return Err(format!("it did not start: {lack}: {}", tail(&output)));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// What a program has printed.
    fn output(&self) -> PathBuf {
        self.folder.0.join("ovs-output")
    }
}

/// What is not installed that a device takes, and the mend.
fn missing(device: Device) -> Option<String> {
    let needs = match device {
        Device::Bounce | Device::Bridge => &[],
        Device::Testpmd => Testpmd::needs(),
        Device::Ovs => Datapath::Sockets.needs(),
        Device::OvsDpdk => Datapath::Dpdk.needs(),
    };
    let starter = if device == Device::Bridge { &[][..] } else { &STARTER };
    let is_there = |program: &str| {
        let script = format!("command -v {program} > /dev/null");
        Command::new("sh").args(["-c", &script]).status().is_ok_and(|status| status.success())
    };
    let is_lacking = |need: &&Need| !is_there(need.program);
    let Need { program, package } = needs.iter().chain(starter).find(is_lacking)?;
    Some(format!("{program} is not installed: sudo apt-get install {package}"))
}

/// Whether a child of ours has ended, whom nobody has waited for. Source: proc_pid_stat(5).
fn is_over(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, state)| state.starts_with('Z'))
}

/// What a program says is wrong, or its last words, in a line.
fn tail(output: &Path) -> String {
    let said = fs::read(output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_reason = |line: &&&str| line.contains("Cause:") || line.starts_with("burstline:");
    match (lines.iter().find(is_reason), lines.last_chunk::<2>()) {
        (Some(reason), _) => (*reason).to_owned(),
        (None, Some(last)) => last.join("; "),
        (None, None) => lines.first().copied().unwrap_or("it said nothing").to_owned(),
    }
}

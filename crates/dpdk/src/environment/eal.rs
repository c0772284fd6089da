//! EAL, started once per process, and its thread.

use std::ffi::{CString, c_char};
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use burstline_sys::{affinity, privileges};

use crate::error::DpdkError;
use crate::{ffi, log_text};

/// Memory for EAL without huge pages, in MiB; unused memory is never touched.
const MEMORY_MIB: u32 = 512;

/// With fewer free bytes in huge pages than this, EAL runs without them.
const HUGE_BYTES_LEAST: u64 = 128 << 20;

/// Argument for devices that need physical addresses.
const PHYSICAL: &str = "--iova-mode=pa";

/// Options for starting EAL: the same for all ports of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EalOptions {
    /// Whether its memory is in huge pages. `None` to use them if enough are free.
    pub huge: Option<bool>,
    /// Its memory in MiB.
    pub memory_mib: Option<u32>,
    /// Further arguments for EAL, after ours.
    pub arguments: Vec<String>,
}

type Call = Box<dyn FnOnce() + Send>;

enum State {
    Idle,
    Running { options: EalOptions, arguments: String, calls: Sender<Call> },
    Failed(DpdkError),
}

static STATE: Mutex<State> = Mutex::new(State::Idle);

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts EAL, unless it runs. `device` is the device that needs it.
///
/// # Errors
/// [`DpdkError::Eal`], for the rest of the process's life; [`DpdkError::OtherOptions`].
pub(crate) fn start(wanted: &EalOptions, device: &str) -> Result<(), DpdkError> {
    let mut state = state();
    let machine =
        Machine { has_huge_pages: has_huge_pages(), takes_physical: takes_physical(device) };
    match &*state {
        State::Failed(error) => return Err(error.clone()),
        State::Running { options, .. } if options == wanted || *wanted == EalOptions::default() => {
            return Ok(());
        }
        State::Running { arguments, .. } => {
            let wanted = arguments_of(wanted, machine).join(" ");
            let (running, device) = (arguments.clone(), device.to_owned());
            return Err(DpdkError::OtherOptions { running, device, wanted });
        }
        State::Idle => {}
    }
    machine.check(wanted)?;
    let arguments = arguments_of(wanted, machine);
    *state = match begin(&arguments) {
        Ok(calls) => {
            let (options, arguments) = (wanted.clone(), arguments.join(" "));
            State::Running { options, arguments, calls }
        }
        Err(error) => {
            *state = State::Failed(error.clone());
            return Err(error);
        }
    };
    Ok(())
}

/// Properties of the machine that decide how EAL is started.
#[derive(Clone, Copy)]
struct Machine {
    has_huge_pages: bool,
    /// Whether the first device needs physical addresses.
    takes_physical: bool,
}

impl Machine {
    fn is_huge(self, options: &EalOptions) -> bool {
        options.huge.unwrap_or(self.has_huge_pages)
    }

    /// Checks that physical addresses are possible: memory outside huge pages may move, so EAL does
    /// not report its physical addresses.
    fn check(self, options: &EalOptions) -> Result<(), DpdkError> {
        if self.takes_physical && !self.is_huge(options) {
            let reason = "behind uio a device needs memory in huge pages".to_owned();
            let mend = "sysctl vm.nr_hugepages=1024 and huge=yes; or bind it to vfio-pci";
            return Err(DpdkError::Eal { reason, mend });
        }
        Ok(())
    }
}

/// Starts EAL, unless it runs, for a caller without a device.
///
/// # Errors
/// As for a device.
pub fn start_eal(options: &EalOptions) -> Result<(), DpdkError> {
    start(options, "a program without devices")
}

/// Runs `work` on EAL's thread, and waits for it. EAL must run.
pub(crate) fn on_control<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let calls = match &*state() {
        State::Running { calls, .. } => calls.clone(),
        State::Idle | State::Failed(_) => unreachable!("there is no device without EAL"),
    };
    let (send, receive) = mpsc::channel();
    let call: Call = Box::new(move || {
        // This fails only when nothing waits any more.
        let _ = send.send(work());
    });
    calls.send(call).expect("the thread ends with the process");
    receive.recv().expect("no call of DPDK panics")
}

/// A thread's network namespace. The control thread enters that of its caller to open and close
/// devices.
#[derive(Debug)]
pub(crate) struct Network(Option<File>);

impl Network {
    /// Returns the calling thread's network namespace.
    pub(crate) fn of_this_thread() -> Self {
        Self(File::open("/proc/thread-self/ns/net").ok())
    }

    /// Enters it on the control thread. If refused, the thread stays where it is, as without
    /// namespaces.
    pub(crate) fn enter(&self) {
        if let Some(network) = &self.0 {
            // SAFETY: the descriptor is open.
            unsafe { ffi::shim_enter_network(network.as_raw_fd()) };
        }
    }
}

fn begin(arguments: &[String]) -> Result<Sender<Call>, DpdkError> {
    let refused = |reason: String| DpdkError::Eal { mend: mend(arguments, &reason), reason };
    let strings = arguments.iter().map(|argument| CString::new(argument.as_str()));
    let strings: Result<Vec<CString>, _> = strings.collect();
    let strings = strings.map_err(|_| refused("an argument has a zero byte".to_owned()))?;
    let (calls, to_do) = mpsc::channel::<Call>();
    let (started, has_started) = mpsc::channel();
    let live = move || {
        let done = initialise(strings);
        let is_up = done.is_ok();
        // The requesting thread waits for it.
        let _ = started.send(done);
        if is_up {
            to_do.iter().for_each(|call| call());
        }
    };
    let spawned = thread::Builder::new().name("dpdk".to_owned()).spawn(live);
    spawned.map_err(|error| refused(error.to_string()))?;
    let done = has_started.recv().unwrap_or_else(|_| Err("its thread died".to_owned()));
    done.map(|()| calls).map_err(refused)
}

fn initialise(strings: Vec<CString>) -> Result<(), String> {
    // EAL permutes its arguments and keeps some: they live as long as the process.
    let arguments: Vec<*mut c_char> = strings.into_iter().map(CString::into_raw).collect();
    let count = arguments.len() as i32;
    // SAFETY: the call only installs its own log stream.
    unsafe { ffi::shim_log_start() };
    log_text::forget();
    let signal = privileges::library_signal().unwrap_or(0);
    // SAFETY: `count` strings that live as long as the process; this thread belongs to EAL alone.
    let done = unsafe { ffi::shim_eal_init(count, arguments.leak().as_mut_ptr(), signal) };
    match done {
        0 => Ok(()),
        code => Err(log_text::reason(code)),
    }
}

fn mend(arguments: &[String], reason: &str) -> &'static str {
    // EAL's text for EALREADY, and the C library's.
    if reason.contains("already called initialization") || reason.contains("already in progress") {
        return "another part of this program runs DPDK: open dpdk: ports in another process";
    }
    match arguments.iter().any(|argument| argument == "--no-huge") {
        true => "set less memory with memory=MIB, or other arguments with eal=",
        false => "huge=no uses no huge pages; or sysctl vm.nr_hugepages=1024",
    }
}

/// Returns the arguments of EAL. It shares nothing with other processes and leaves no files, so any
/// number of them can run. Its main lcore may run wherever this process may.
fn arguments_of(options: &EalOptions, machine: Machine) -> Vec<String> {
    let cores = affinity::allowed_cores().unwrap_or_default();
    let cores = affinity::format_cores(&cores);
    let process = std::process::id();
    let mut arguments = vec![
        "burstline".to_owned(),
        format!("--lcores=0@({cores})"),
        "--no-telemetry".to_owned(),
        format!("--file-prefix=burstline-{process}"),
        "--log-level=error".to_owned(),
        // A device that does not exist: EAL touches only PCI devices that are requested.
        "--allow=ffff:ff:1f.7".to_owned(),
    ];
    if machine.takes_physical {
        arguments.push(PHYSICAL.to_owned());
    }
    if machine.is_huge(options) {
        arguments.extend(["--in-memory", "--single-file-segments"].map(str::to_owned));
        arguments.extend(options.memory_mib.map(|mib| format!("-m{mib}")));
    } else {
        // EAL refuses --in-memory here; nothing else is shared.
        arguments.extend(["--no-huge", "--no-shconf"].map(str::to_owned));
        arguments.push(format!("-m{}", options.memory_mib.unwrap_or(MEMORY_MIB)));
    }
    arguments.extend(options.arguments.iter().cloned());
    arguments
}

/// Returns whether a device is bound to a uio driver of the kernel, which lets it access any memory
/// without translation. EAL detects that only for devices that exist when it starts, and here it
/// starts without any. With an IOMMU it would then use virtual addresses.
fn takes_physical(device: &str) -> bool {
    let address = device.split(',').next().unwrap_or(device);
    let address = address.strip_prefix("pci:").unwrap_or(address);
    let domain = if address.matches(':').count() == 1 { "0000:" } else { "" };
    let driver = fs::read_link(format!("/sys/bus/pci/devices/{domain}{address}/driver"));
    let driver = driver.ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    driver.is_some_and(|driver| driver.contains("uio"))
}

/// Whether enough huge pages are free. Source: Documentation/admin-guide/mm/hugetlbpage.rst.
fn has_huge_pages() -> bool {
    let sizes = fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free = sizes.filter_map(|size| {
        let name = size.file_name().into_string().ok()?;
        let kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let pages = fs::read_to_string(size.path().join("free_hugepages")).ok()?;
        Some(kib * 1024 * pages.trim().parse::<u64>().ok()?)
    });
    free.sum::<u64>() >= HUGE_BYTES_LEAST
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_finds_dpdk_running_that_is_not_ours_is_told() {
        start(&crate::device::tests::eal(), "a test").unwrap();
        // As if someone else had started it before us.
        let name = CString::new("burstline").unwrap();
        let reason = on_control(|| initialise(vec![name])).unwrap_err();
        assert!(reason.contains("already") && !reason.contains('\n'), "{reason}");
        assert!(mend(&[], &reason).starts_with("another part"), "{reason}");
    }

    #[test]
    fn huge_pages_are_used_where_there_are_some_and_as_asked_for() {
        let is_huge = |huge, has_huge_pages| {
            let options = EalOptions { huge, ..EalOptions::default() };
            let machine = Machine { has_huge_pages, takes_physical: false };
            !arguments_of(&options, machine).contains(&"--no-huge".to_owned())
        };
        assert!(is_huge(None, true) && !is_huge(None, false));
        assert!(is_huge(Some(true), false) && !is_huge(Some(false), true));
        let options = EalOptions {
            huge: Some(false),
            memory_mib: Some(64),
            arguments: vec!["--iova-mode=va".to_owned()],
        };
        let machine = Machine { has_huge_pages: true, takes_physical: true };
        let arguments = arguments_of(&options, machine);
        assert!(arguments.contains(&"-m64".to_owned()));
        // User arguments come last, and EAL obeys the last one.
        assert!(arguments.contains(&PHYSICAL.to_owned()));
        assert_eq!(arguments.last().unwrap(), "--iova-mode=va");
        let refused = machine.check(&options).unwrap_err().to_string();
        assert!(refused.contains("huge=yes"), "{refused}");
        assert_eq!(machine.check(&EalOptions::default()), Ok(()));
        assert!(!takes_physical("net_null0,size=64") && !takes_physical("00:99.0"));
    }
}

//! Resource usage of a run: processor time, context switches, resident memory.
//!
//! Processor time and switches come from `getrusage`, for the process or for the calling thread.
//! Resident memory comes from `/proc/self/status`, because packet memory is shared or huge, and the
//! usual figure (`VmRSS`) omits huge pages. Shared memory counts in every process that has touched
//! it, so figures of several processes do not add up.
//!
//! The kernel receives packets in softirqs, and accounts those by core, not by process. So we can
//! only report the softirq time of the whole machine.
//!
//! Source: getrusage(2), proc_pid_status(5), proc_stat(5).

use std::ffi::OsString;
use std::path::PathBuf;
use std::{fs, io};

use crate::folder;

/// Processor time and context switches, since the start of the process or thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuUsage {
    /// Time in the program's own code, in ns. The kernel counts in microseconds.
    pub user_ns: u64,
    /// Time in the kernel on its behalf, in ns. Softirqs are not in it.
    pub system_ns: u64,
    /// Switches because the thread waited for something.
    pub voluntary_switches: u64,
    /// Switches because another thread wanted the core.
    pub involuntary_switches: u64,
}

impl CpuUsage {
    /// Returns the usage since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(earlier.involuntary_switches),
        }
    }
}

/// Memory of this process that is in RAM, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResidentMemory {
    /// Heap and stacks.
    pub anonymous_bytes: u64,
    /// Shared memory that this process has touched: memfds without reserved pages.
    pub shared_bytes: u64,
    /// Reserved huge pages.
    pub huge_page_bytes: u64,
}

impl ResidentMemory {
    /// Returns the sum of the three. Program text and other file pages, which the kernel can drop
    /// at any time, are not included.
    pub fn total_bytes(&self) -> u64 {
        self.anonymous_bytes + self.shared_bytes + self.huge_page_bytes
    }
}

/// Why usage could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UsageError {
    /// The file could not be read.
    #[error("/proc/self/status: {0}")]
    Unreadable(io::Error),
    /// A field is missing, or is not a number of kB.
    #[error("/proc/self/status: field {0} is missing or not a number of kB")]
    Malformed(&'static str),
}

/// Returns the usage of this process, all threads together.
pub fn process() -> CpuUsage {
    read(libc::RUSAGE_SELF)
}

/// Returns the usage of the calling thread.
pub fn thread() -> CpuUsage {
    read(libc::RUSAGE_THREAD)
}

/// Returns the usage of the child programs that this process waited for, and of their children.
pub fn children() -> CpuUsage {
    read(libc::RUSAGE_CHILDREN)
}

/// Returns the processor time of all threads of a process so far, in ns, as the scheduler accounts
/// it. Cost: it reads a file for each thread.
///
/// # Errors
/// Errors of `/proc` if there is no such process; `Unsupported` if the kernel does not keep this
/// account (`CONFIG_SCHED_INFO`).
pub fn processor_ns(process: u32) -> io::Result<u64> {
    let tasks = PathBuf::from(format!("/proc/{process}/task"));
    let threads = folder::names(&tasks)?;
    // Source: Documentation/scheduler/sched-stats.rst: time on a processor, in ns, comes first.
    let of_thread = |thread: &OsString| {
        let said = fs::read_to_string(tasks.join(thread).join("schedstat")).ok()?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    };
    let spent: Vec<u64> = threads.iter().filter_map(of_thread).collect();
    match spent.is_empty() {
        true => Err(io::Error::new(io::ErrorKind::Unsupported, "no thread has a schedstat")),
        false => Ok(spent.iter().sum()),
    }
}

/// Returns the resident memory of this process. Cost: tens of microseconds; it reads a file.
///
/// # Errors
/// [`UsageError`] if `/proc` is not mounted.
pub fn resident() -> Result<ResidentMemory, UsageError> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(UsageError::Unreadable)?;
    parse_resident(&status)
}

/// Returns the time that all cores of the machine have spent in softirqs since boot, in ns. `None`
/// if the kernel does not report it. It counts in ticks of 10 ms and, unless built to account for
/// interrupts, charges each tick to whatever runs then. Cost: tens of microseconds; it reads a
/// file.
pub fn machine_softirq_ns() -> Option<u64> {
    parse_softirq(&std::fs::read_to_string("/proc/stat").ok()?)
}

/// The columns of the first line are user, nice, system, idle, iowait, irq, softirq.
fn parse_softirq(stat: &str) -> Option<u64> {
    /// The unit of /proc/stat. Source: `USER_HZ`, 100 on every architecture but Alpha and IA-64.
    const TICK_NS: u64 = 10_000_000;
    let mut columns = stat.lines().next()?.split_whitespace();
    (columns.next()? == "cpu").then_some(())?;
    columns.nth(6)?.parse::<u64>().ok()?.checked_mul(TICK_NS)
}

fn parse_resident(status: &str) -> Result<ResidentMemory, UsageError> {
    let field = |name: &'static str| {
        let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = value.and_then(|value| value.trim().strip_suffix(" kB")?.parse().ok());
        let bytes = kibibytes.and_then(|kibibytes: u64| kibibytes.checked_mul(1024));
        bytes.ok_or(UsageError::Malformed(name))
    };
    Ok(ResidentMemory {
        anonymous_bytes: field("RssAnon")?,
        shared_bytes: field("RssShmem")?,
        // A kernel without huge pages has no such line.
        huge_page_bytes: match status.contains("\nHugetlbPages:") {
            true => field("HugetlbPages")?,
            false => 0,
        },
    })
}

fn read(who: libc::c_int) -> CpuUsage {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer refers to memory of the right size and alignment; the call fills it in.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    assert_eq!(result, 0, "getrusage takes these arguments since Linux 2.6.26");
    // SAFETY: rusage has only integers, zeroed above, so it is initialised in any case.
    let usage = unsafe { usage.assume_init() };
    let nanoseconds = |time: libc::timeval| {
        let microseconds = (time.tv_sec as u64).saturating_mul(1_000_000) + time.tv_usec as u64;
        microseconds.saturating_mul(1000)
    };
    CpuUsage {
        user_ns: nanoseconds(usage.ru_utime),
        system_ns: nanoseconds(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(not(miri))]
    #[test]
    fn sleeping_is_a_voluntary_switch_and_spinning_is_time() {
        let before = thread();
        std::thread::sleep(std::time::Duration::from_millis(1));
        while thread().since(&before).user_ns + thread().since(&before).system_ns == 0 {
            std::hint::spin_loop();
        }
        assert!(thread().since(&before).voluntary_switches >= 1);
        let all = process();
        assert!(all.user_ns + all.system_ns > 0);
    }

    #[cfg(not(miri))]
    #[test]
    fn processor_time_grows_with_work() {
        use std::io::{Read as _, Write as _};
        use std::process::{Command, Stdio};

        let work = "read go; i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo; read end";
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let child = Command::new("sh").args(["-c", work]).stdin(input).stdout(output).spawn();
        let mut child = child.unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let before = processor_ns(child.id()).unwrap();
        input.write_all(b"\n").unwrap();
        output.read_exact(&mut [0]).unwrap();
        assert!(processor_ns(child.id()).unwrap() > before);
        drop(input);
        child.wait().unwrap();
        assert!(processor_ns(u32::MAX).is_err());
    }
    #[cfg(not(miri))]
    #[test]
    fn a_region_shows_in_resident_memory() {
        use crate::memory::{PageChoice, Region, RegionRequest};

        let (bytes, pages) = (64 << 20, PageChoice::Size4K);
        let request = RegionRequest { name: "usage".to_owned(), bytes, pages, node: None };
        let _region = Region::create(&request).unwrap();
        let resident = resident().unwrap();
        assert!(resident.shared_bytes >= 64 << 20, "{resident:?}");
        assert!(resident.total_bytes() > resident.shared_bytes, "{resident:?}");
    }

    #[test]
    fn status_is_read_exactly() {
        let status = "VmRSS:\t  99 kB\nRssAnon:\t     4 kB\nRssFile:\t 8 kB\nRssShmem:\t 16 kB\n\
                      HugetlbPages:\t    2048 kB\n";
        let resident = parse_resident(status).unwrap();
        assert_eq!(
            resident,
            ResidentMemory {
                anonymous_bytes: 4096,
                shared_bytes: 16_384,
                huge_page_bytes: 2 << 20
            }
        );
        assert_eq!(resident.total_bytes(), 4096 + 16_384 + (2 << 20));
        let error = parse_resident("RssAnon:\t4 kB\nRssShmem: x kB\n").unwrap_err().to_string();
        assert_eq!(error, "/proc/self/status: field RssShmem is missing or not a number of kB");
    }

    #[test]
    fn softirqs_are_the_seventh_column_of_all_cores() {
        let stat =
            "cpu  1371341 0 191712 846104 8701 0 3251 27082 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n";
        assert_eq!(parse_softirq(stat), Some(32_510_000_000));
        assert_eq!(parse_softirq("cpu0 1 2 3 4 5 6 7 8 9 10\n"), None);
        assert_eq!(parse_softirq("cpu  1 2\n"), None);
    }
}

//! Events that the kernel and the processor count on a core, for everything that runs there.
//!
//! Counters of the kernel's own (context switches) work everywhere; those of the processor need one
//! that lets itself be asked, which most virtual machines do not.
//!
//! Source: perf_event_open(2); include/uapi/linux/perf_event.h, `PERF_ATTR_SIZE_VER0`.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::affinity::CoreId;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Another thread gets the core.
    ContextSwitches,
    /// A thread comes from another core.
    Migrations,
    /// A page was not there.
    PageFaults,
    /// Cycles of the core.
    Cycles,
    /// Instructions that were finished.
    Instructions,
    /// Questions to the last cache.
    CacheReferences,
    /// Those that memory had to answer.
    CacheMisses,
    /// Branches that went another way than expected.
    BranchMisses,
    /// Loads that the first cache did not have.
    FirstCacheMisses,
    /// Loads whose page the TLB did not have.
    TlbMisses,
    /// Loads from another node's memory.
    RemoteLoads,
}

impl Event {
    /// Those of the processor.
    pub const HARDWARE: [Self; 8] = [
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::BranchMisses,
        Self::FirstCacheMisses,
        Self::TlbMisses,
        Self::RemoteLoads,
    ];

    /// Those of the kernel.
    pub const SOFTWARE: [Self; 3] = [Self::ContextSwitches, Self::Migrations, Self::PageFaults];

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContextSwitches => "context_switches",
            Self::Migrations => "migrations",
            Self::PageFaults => "page_faults",
            Self::Cycles => "cycles",
            Self::Instructions => "instructions",
            Self::CacheReferences => "llc_references",
            Self::CacheMisses => "llc_misses",
            Self::BranchMisses => "branch_misses",
            Self::FirstCacheMisses => "l1d_misses",
            Self::TlbMisses => "dtlb_misses",
            Self::RemoteLoads => "remote_loads",
        }
    }

    /// Type and number. Caches: which one, `<< 8` what is done (0: load), `<< 16` how it goes (1: a
    /// miss).
    fn code(self) -> (u32, u64) {
        const HARDWARE: u32 = 0;
        const SOFTWARE: u32 = 1;
        const CACHE: u32 = 3;
        const MISS: u64 = 1 << 16;
        match self {
            Self::ContextSwitches => (SOFTWARE, 3),
            Self::Migrations => (SOFTWARE, 4),
            Self::PageFaults => (SOFTWARE, 2),
            Self::Cycles => (HARDWARE, 0),
            Self::Instructions => (HARDWARE, 1),
            Self::CacheReferences => (HARDWARE, 2),
            Self::CacheMisses => (HARDWARE, 3),
            Self::BranchMisses => (HARDWARE, 5),
            Self::FirstCacheMisses => (CACHE, MISS),
            Self::TlbMisses => (CACHE, 3 | MISS),
            Self::RemoteLoads => (CACHE, 6 | MISS),
        }
    }
}

/// The first version of the struct that tells the kernel what to count.
#[repr(C)]
#[derive(Default)]
pub(crate) struct Attributes {
    pub(crate) kind: u32,
    bytes: u32,
    pub(crate) config: u64,
    /// Takes a sample after this many events; 0: never.
    pub(crate) sample_period: u64,
    /// Bits: what is in a sample.
    pub(crate) sample_type: u64,
    read_format: u64,
    /// Bits; none set: it counts from now on, in user mode and in the kernel.
    flags: u64,
    wakeup: u32,
    breakpoint: u32,
    address: u64,
}

impl Attributes {
    /// Starts counting everything that runs on a core.
    pub(crate) fn open(mut self, core: CoreId) -> io::Result<OwnedFd> {
        /// The descriptor closes in programs that are started.
        const CLOSE: libc::c_ulong = 8;
        self.bytes = size_of::<Self>() as u32;
        let (anybody, core, no_group) = (-1_i32, core.0 as i32, -1_i32);
        let (call, place) = (libc::SYS_perf_event_open, &raw const self);
        // SAFETY: `place` is a live struct that says how long it is, and which the call reads; the
        // other arguments are numbers.
        let fd = unsafe { libc::syscall(call, place, anybody, core, no_group, CLOSE) };
        match i32::try_from(fd) {
            // SAFETY: the descriptor is new, and nobody else knows it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// A running count.
#[derive(Debug)]
pub struct Counter(OwnedFd);

impl Counter {
    /// Counts everything that runs on a core from now on. Needs `CAP_PERFMON`, or
    /// `kernel.perf_event_paranoid` below 1.
    ///
    /// # Errors
    /// What the kernel says: `ENOENT` or `EOPNOTSUPP` where the processor does not count that.
    pub fn on_core(event: Event, core: CoreId) -> io::Result<Self> {
        let (kind, config) = event.code();
        Attributes { kind, config, ..Attributes::default() }.open(core).map(Self)
    }

    /// The count so far. Cost: a system call, and an interrupt of the core if it is another one.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn value(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // SAFETY: the call writes at most 8 bytes to the live array of 8.
        let read = unsafe { libc::read(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), 8) };
        match read {
            8 => Ok(u64::from_ne_bytes(bytes)),
            0.. => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::affinity;

    #[test]
    fn switches_of_a_core_are_counted() {
        let core = affinity::allowed_cores().unwrap()[0];
        let counter = match Counter::on_core(Event::ContextSwitches, core) {
            Ok(counter) => counter,
            Err(error) => {
                return burstline_skip::skip("switches_of_a_core_are_counted", error);
            }
        };
        let before = counter.value().unwrap();
        std::thread::spawn(move || {
            affinity::pin_to(core).unwrap();
            (0..10).for_each(|_| std::thread::sleep(std::time::Duration::from_micros(100)));
        })
        .join()
        .unwrap();
        assert!(counter.value().unwrap() >= before + 10);
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(Counter::on_core(Event::ContextSwitches, CoreId(1 << 20)).is_err());
    }
}

//! Counts kernel and processor events on a core, for any program.
//!
//! The kernel's software counters (context switches) work everywhere. The processor's counters need
//! access that most virtual machines do not give.

use std::io;
use std::sync::{Mutex, PoisonError};

use burstline_sys::affinity::CoreId;
use perf_event::Builder;
use perf_event::events::{Cache, CacheId, CacheOp, CacheResult, Hardware, Software};

/// A countable event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Another thread gets the core.
    ContextSwitches,
    /// A thread moves here from another core.
    Migrations,
    /// A page was not mapped.
    PageFaults,
    /// Cycles of the core.
    Cycles,
    /// Instructions executed.
    Instructions,
    /// Accesses to the last-level cache.
    CacheReferences,
    /// Accesses that missed the last-level cache.
    CacheMisses,
    /// Mispredicted branches.
    BranchMisses,
    /// Loads that missed the first-level cache.
    FirstCacheMisses,
    /// Loads that missed the TLB.
    TlbMisses,
    /// Loads from another node's memory.
    RemoteLoads,
}

impl Event {
    /// Events of the processor.
    pub(crate) const HARDWARE: [Self; 8] = [
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::BranchMisses,
        Self::FirstCacheMisses,
        Self::TlbMisses,
        Self::RemoteLoads,
    ];

    /// Events of the kernel.
    pub(crate) const SOFTWARE: [Self; 3] =
        [Self::ContextSwitches, Self::Migrations, Self::PageFaults];

    /// Returns the name in reports.
    pub(crate) fn name(self) -> &'static str {
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

    /// Returns a builder for a counter on a core.
    fn on_core<'a>(self, core: CoreId) -> Builder<'a> {
        let missed = |which| Cache { which, operation: CacheOp::READ, result: CacheResult::MISS };
        match self {
            Self::ContextSwitches => super::on_core(Software::CONTEXT_SWITCHES, core),
            Self::Migrations => super::on_core(Software::CPU_MIGRATIONS, core),
            Self::PageFaults => super::on_core(Software::PAGE_FAULTS, core),
            Self::Cycles => super::on_core(Hardware::CPU_CYCLES, core),
            Self::Instructions => super::on_core(Hardware::INSTRUCTIONS, core),
            Self::CacheReferences => super::on_core(Hardware::CACHE_REFERENCES, core),
            Self::CacheMisses => super::on_core(Hardware::CACHE_MISSES, core),
            Self::BranchMisses => super::on_core(Hardware::BRANCH_MISSES, core),
            Self::FirstCacheMisses => super::on_core(missed(CacheId::L1D), core),
            Self::TlbMisses => super::on_core(missed(CacheId::DTLB), core),
            Self::RemoteLoads => super::on_core(missed(CacheId::NODE), core),
        }
    }
}

/// A running counter.
#[derive(Debug)]
pub(crate) struct Counter(Mutex<perf_event::Counter>);

impl Counter {
    /// Starts counting on a core, for any program. Needs `CAP_PERFMON`, or
    /// `kernel.perf_event_paranoid` below 1.
    ///
    /// # Errors
    /// The kernel's error: `ENOENT` or `EOPNOTSUPP` if the processor does not count that.
    pub(crate) fn on_core(event: Event, core: CoreId) -> io::Result<Self> {
        Ok(Self(Mutex::new(event.on_core(core).build()?)))
    }

    /// Returns the count so far. Cost: a system call, and an interrupt of the core if not its own.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn value(&self) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_sys::affinity;

    #[test]
    fn switches_of_a_core_are_counted() {
        let core = affinity::allowed_cores().unwrap()[0];
        let counter = match Counter::on_core(Event::ContextSwitches, core) {
            Ok(counter) => counter,
            Err(error) => return burstline_skip::skip(error),
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

//! What runs on a core: the address, noted again and again by the kernel's clock.
//!
//! ```text
//!   first page                         data, a power of two of pages
//!   | .. head (K) .. tail, stays 0 |   | record | record | record | ..
//! ```
//!
//! No counter of the processor is needed, so this works in virtual machines, too. The kernel writes
//! records until the data is full, and then no more: nothing is ever overwritten.
//!
//! Source: perf_event_open(2); include/uapi/linux/perf_event.h, `struct perf_event_mmap_page`,
//! `PERF_RECORD_SAMPLE`.
//!
//! Invariants:
//! - P1. `start` is the first of `bytes` bytes, mapped readable and writable from creation to drop,
//!   and aligned to a page; nobody in this process writes there.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::affinity::CoreId;
use crate::counters::Attributes;

/// Type and number of the clock. Source: PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK.
const SOFTWARE: u32 = 1;
const CPU_CLOCK: u64 = 0;

/// The address, and process and thread. Source: PERF_SAMPLE_IP, PERF_SAMPLE_TID.
const ADDRESS_AND_THREAD: u64 = 1 | 1 << 1;

/// A sample is such a record. Source: PERF_RECORD_SAMPLE.
const SAMPLE: u32 = 9;

/// Words of a sample: header; address; process and thread.
const SAMPLE_WORDS: usize = 3;

/// Where it ran. Source: PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_KERNEL.
const MODE: u16 = 7;
const KERNEL: u16 = 1;

/// The place of `data_head`, in words.
const HEAD: usize = 1024 / WORD_BYTES;

const WORD_BYTES: usize = size_of::<u64>();
const PAGE_BYTES: usize = 4096;

/// What ran at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// The instruction's address, in the process or in the kernel.
    pub address: u64,
    /// The process; 0 is the core's idle loop, and whatever interrupts it.
    pub process: u32,
    /// Whether it was in the kernel.
    pub is_kernel: bool,
}

/// Samples everything that runs on a core, from creation to drop.
#[derive(Debug)]
pub struct Sampler {
    start: NonNull<u64>,
    bytes: usize,
    /// Closing it ends the sampling.
    _event: OwnedFd,
}

impl Sampler {
    /// Begins: a sample each `period_ns` ns, and at least `most` of them in all. Needs
    /// `CAP_PERFMON`.
    ///
    /// Cost: an interrupt of the core each time.
    ///
    /// # Errors
    /// What the kernel says.
    ///
    /// # Panics
    /// If the period is 0.
    pub fn on_core(core: CoreId, period_ns: u64, most: usize) -> io::Result<Self> {
        assert!(period_ns > 0, "a sample each 0 ns");
        let mut event = Attributes::default();
        (event.kind, event.config) = (SOFTWARE, CPU_CLOCK);
        (event.sample_period, event.sample_type) = (period_ns, ADDRESS_AND_THREAD);
        let event = event.open(core)?;
        let data = (most * SAMPLE_WORDS * WORD_BYTES).div_ceil(PAGE_BYTES).next_power_of_two();
        let bytes = (1 + data) * PAGE_BYTES;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs no other.
        let start = unsafe { mmap(ptr::null_mut(), bytes, access, flags, &event, 0) }?;
        let start = NonNull::new(start.cast());
        let start = start.ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))?;
        Ok(Self { start, bytes, _event: event })
    }

    /// The samples so far.
    pub fn samples(&self) -> Vec<Sampled> {
        // P1 pairs with the kernel's release of `data_head`: records below it are whole.
        let head = self.word(HEAD).load(Acquire) as usize;
        let end = (PAGE_BYTES + head).min(self.bytes) / WORD_BYTES;
        // Records below the head do not change any more.
        let word = |at: usize| self.word(at).load(Relaxed);
        let (mut at, mut samples) = (PAGE_BYTES / WORD_BYTES, Vec::new());
        while at < end {
            let [a, b, c, d, mode_low, mode_high, size_low, size_high] = word(at).to_ne_bytes();
            let kind = u32::from_ne_bytes([a, b, c, d]);
            let mode = u16::from_ne_bytes([mode_low, mode_high]);
            let words = usize::from(u16::from_ne_bytes([size_low, size_high])) / WORD_BYTES;
            if words == 0 || at + words > end {
                break;
            }
            if kind == SAMPLE && words == SAMPLE_WORDS {
                let [a, b, c, d, ..] = word(at + 2).to_ne_bytes();
                samples.push(Sampled {
                    address: word(at + 1),
                    process: u32::from_ne_bytes([a, b, c, d]),
                    is_kernel: mode & MODE == KERNEL,
                });
            }
            at += words;
        }
        samples
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.bytes / WORD_BYTES, "word {at} of {} bytes", self.bytes);
        // SAFETY: P1 and the check: the place is inside the mapping.
        let place = unsafe { self.start.add(at) };
        // SAFETY: P1: aligned, mapped as long as `self` lives, and the kernel writes whole words.
        unsafe { AtomicU64::from_ptr(place.as_ptr()) }
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        // SAFETY: P1: the mapping is ours, and `word` lends only as long as `self` lives. An error
        // would leave it mapped, which harms nobody.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::hint::spin_loop;

    use super::*;
    use crate::{affinity, usage};

    /// So long in user mode, on the core.
    fn spin(core: CoreId, user_ns: u64) {
        let thread = std::thread::spawn(move || {
            affinity::pin_to(core).unwrap();
            while usage::thread().user_ns < user_ns {
                spin_loop();
            }
        });
        thread.join().unwrap();
    }

    #[test]
    fn a_core_that_works_is_seen_at_it() {
        let core = affinity::allowed_cores().unwrap()[0];
        let sampler = match Sampler::on_core(core, 1_000_000, 10_000) {
            Ok(sampler) => sampler,
            Err(error) => return burstline_skip::skip("a_core_that_works_is_seen_at_it", error),
        };
        spin(core, 100_000_000);
        let samples = sampler.samples();
        let own = samples.iter().filter(|sample| sample.process == std::process::id());
        let (user, kernel): (Vec<&Sampled>, Vec<&Sampled>) =
            own.partition(|sample| !sample.is_kernel);
        // Of 100, unless the clock of a machine in a machine stood still.
        assert!(user.len() > 10, "{} and {} of {}", user.len(), kernel.len(), samples.len());
        // Addresses of user mode are the lower half, and the kernel's the upper one.
        assert!(user.iter().all(|sample| sample.address >> 63 == 0));
        assert!(kernel.iter().all(|sample| sample.address >> 63 == 1));
    }

    #[test]
    fn full_is_full() {
        let core = affinity::allowed_cores().unwrap()[0];
        let sampler = match Sampler::on_core(core, 100_000, 1) {
            Ok(sampler) => sampler,
            Err(error) => return burstline_skip::skip("full_is_full", error),
        };
        spin(core, 100_000_000);
        let most = PAGE_BYTES / (SAMPLE_WORDS * WORD_BYTES);
        let count = sampler.samples().len();
        assert!((most / 2..=most).contains(&count), "{count}");
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(Sampler::on_core(CoreId(1 << 20), 1_000_000, 1).is_err());
    }
}

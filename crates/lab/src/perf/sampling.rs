//! Samples what runs on a core: the address of the next instruction at each tick of a clock.
//!
//! The clock is the kernel's own, so samples also work in a virtual machine, where the processor's
//! counters are not available. The kernel writes samples to a ring from an interrupt. A full ring
//! accepts no more until it is read.

use std::io;
use std::sync::{Mutex, PoisonError};

use burstline_sys::affinity::CoreId;
use perf_event::SampleFlag;
use perf_event::data::Record;
use perf_event::events::Software;

/// Size of a sample in bytes: header, address, process and thread.
const SAMPLE_BYTES: usize = 24;

/// Type of a sample record. Source: include/uapi/linux/perf_event.h, PERF_RECORD_SAMPLE.
const SAMPLE: u32 = 9;

/// CPU mode. Source: as above, PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_KERNEL.
const MODE: u16 = 7;
const KERNEL: u16 = 1;

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sampled {
    /// The instruction's address, in the process or in the kernel.
    pub(crate) address: u64,
    /// The process; 0 for the core's idle loop and its interrupts.
    pub(crate) process: u32,
    /// Whether it was in the kernel.
    pub(crate) is_kernel: bool,
}

/// Samples a core from creation to drop, for any program.
pub(crate) struct Sampler(Mutex<Taken>);

/// The ring, and the samples taken from it.
struct Taken {
    ring: perf_event::Sampler,
    samples: Vec<Sampled>,
}

impl Sampler {
    /// Starts sampling every `period_ns` ns. At least `most` samples fit between two calls of
    /// [`samples`](Self::samples). Needs `CAP_PERFMON`.
    ///
    /// Cost: an interrupt of the core per sample.
    ///
    /// # Errors
    /// Errors of the kernel.
    ///
    /// # Panics
    /// If the period is 0.
    pub(crate) fn on_core(core: CoreId, period_ns: u64, most: usize) -> io::Result<Self> {
        assert!(period_ns > 0, "a sample each 0 ns");
        let mut event = super::on_core(Software::CPU_CLOCK, core);
        event.sample_period(period_ns).sample(SampleFlag::IP | SampleFlag::TID);
        let ring = event.build()?.sampled(most * SAMPLE_BYTES)?;
        Ok(Self(Mutex::new(Taken { ring, samples: Vec::new() })))
    }

    /// Returns the samples so far.
    pub(crate) fn samples(&self) -> Vec<Sampled> {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Taken { ring, samples } = &mut *taken;
        while let Some(record) = ring.next_record() {
            if record.ty() != SAMPLE {
                continue;
            }
            let is_kernel = record.misc() & MODE == KERNEL;
            if let Ok(Record::Sample(sample)) = record.parse_record()
                && let (Some(address), Some(process)) = (sample.ip(), sample.pid())
            {
                samples.push(Sampled { address, process, is_kernel });
            }
        }
        samples.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;

    use super::*;
    use burstline_sys::{affinity, usage};

    /// Spins on the core for this much user time.
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
            Err(error) => return burstline_skip::skip(error),
        };
        spin(core, 100_000_000);
        let samples = sampler.samples();
        let own = samples.iter().filter(|sample| sample.process == std::process::id());
        let (user, kernel): (Vec<&Sampled>, Vec<&Sampled>) =
            own.partition(|sample| !sample.is_kernel);
        // Of 100, unless the clock of a nested virtual machine stood still.
        assert!(user.len() > 10, "{} and {} of {}", user.len(), kernel.len(), samples.len());
        // User addresses are in the lower half, kernel addresses in the upper half.
        assert!(user.iter().all(|sample| sample.address >> 63 == 0));
        assert!(kernel.iter().all(|sample| sample.address >> 63 == 1));
    }

    #[test]
    fn full_is_full() {
        let core = affinity::allowed_cores().unwrap()[0];
        let sampler = match Sampler::on_core(core, 100_000, 1) {
            Ok(sampler) => sampler,
            Err(error) => return burstline_skip::skip(error),
        };
        spin(core, 100_000_000);
        // No more samples arrive while they are read.
        sampler.0.lock().unwrap().ring.disable().unwrap();
        // Of 1,000 samples, one page holds this many.
        let most = 4096 / SAMPLE_BYTES;
        let count = sampler.samples().len();
        assert!((most / 2..=most).contains(&count), "{count}");
    }

    #[test]
    fn a_core_that_is_not_there_is_an_error() {
        assert!(Sampler::on_core(CoreId(1 << 20), 1_000_000, 1).is_err());
    }
}

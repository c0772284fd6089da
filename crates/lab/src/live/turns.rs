//! Runs a side of this process that receives frames on its core, while the other core injects.
//!
//! ```text
//!   injector's core --> v1, v2, ... --> a side that never sleeps, on the consumer's core
//! ```

use std::sync::Arc;
use std::sync::atomic::Ordering::Release;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::affinity;
use burstline_sys::memory::PageKind;
use burstline_testbed::{Amount, Target};

use super::{Load, Road};
use crate::record::Interface;
use crate::rivals::staged::cpu_ns;
use crate::scenario::machine::{Served, on_hosts};

/// Time for a side to start, and to process its ring after the last frame.
const SETTLE: Duration = Duration::from_millis(200);

/// Frames to inject at top speed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames<'a> {
    /// Number of frames, or duration.
    pub(crate) amount: Amount,
    /// Size of each frame, without FCS.
    pub(crate) bytes: usize,
    /// Set when the user stops the run.
    pub(crate) stop: &'a Arc<AtomicBool>,
}

/// The result of one side's run.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Frames injected.
    pub(crate) offered: u64,
    /// Packets that reached the end.
    pub(crate) taken: u64,
    /// Duration of the injection in s.
    pub(crate) seconds: f64,
    /// Share of its core that the never sleeping side got. Below 1, other programs had the rest.
    pub(crate) share: f64,
    /// Page kind of the side's packets, as the side reports it.
    pub(crate) page: Option<PageKind>,
    /// Interfaces that the frames used.
    pub(crate) interfaces: Vec<Interface>,
}

/// Packets that a side received, and its share of the core.
pub(crate) type Taken = (u64, f64);

impl Turn {
    /// Returns millions of packets a second.
    pub(crate) fn mpps(&self) -> f64 {
        self.taken as f64 / self.seconds / 1e6
    }

    /// Returns the loss in per cent of the injected frames.
    pub(crate) fn lost_percent(&self) -> f64 {
        100.0 * (self.offered - self.taken) as f64 / self.offered as f64
    }
}

/// Runs `side` on its core until the flag is not 0, while the other core injects frames.
///
/// # Errors
/// Errors of the side and the injector, or if more was received than injected.
pub(crate) fn under_load(
    road: &Road,
    frames: Frames<'_>,
    side: impl FnOnce(&AtomicU32) -> Result<Taken, String> + Send,
) -> Result<Turn, String> {
    let served = Served::now();
    let load = Load { amount: frames.amount, rate_pps: None };
    let is_over = AtomicU32::new(0);
    let core = road.cores().consumer;
    thread::scope(|scope| {
        let side = scope.spawn(|| {
            // If this fails, the kernel chooses the core.
            let _ = affinity::pin_to(core);
            side(&is_over)
        });
        thread::sleep(SETTLE);
        let nothing = || Ok(());
        let injected =
            road.inject_watched(Target::Program, load, frames.bytes, frames.stop, nothing, Ok);
        thread::sleep(SETTLE);
        is_over.store(1, Release); // pairs with the loads of either side
        let (taken, share) = side.join().expect("a side does not panic")?;
        let (injected, ()) = injected?;
        if taken > injected.offered {
            return Err(format!("{taken} frames were taken, of {}", injected.offered));
        }
        let seconds = injected.elapsed.as_secs_f64();
        let interfaces = on_hosts(road.bed(), &served);
        let offered = injected.offered;
        Ok(Turn { offered, taken, seconds, share, page: None, interfaces })
    })
}

/// Does some work that never sleeps. Also returns the share of a core that it got.
pub(crate) fn with_share<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (start, mut done) = (Instant::now(), None);
    let cpu_ns = cpu_ns(|| done = Some(work()));
    let share = cpu_ns as f64 / start.elapsed().as_nanos() as f64;
    (done.expect("the work was done"), share)
}

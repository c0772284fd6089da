//! A side of this process that takes frames on its core, while the other one injects them.
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

/// How long a side may take to begin, and for what is in its ring after the last frame.
const SETTLE: Duration = Duration::from_millis(200);

/// What is injected at top speed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frames<'a> {
    /// How many, or for how long.
    pub(crate) amount: Amount,
    /// Of each, without FCS.
    pub(crate) bytes: usize,
    /// Raised when the user wants an end.
    pub(crate) stop: &'a Arc<AtomicBool>,
}

/// One side's run.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    /// Frames injected.
    pub(crate) offered: u64,
    /// Packets that went all the way.
    pub(crate) taken: u64,
    /// Of injection.
    pub(crate) seconds: f64,
    /// What the side had of its core, as it never sleeps: less than 1 where others had the rest.
    pub(crate) share: f64,
    /// Pages that the packets of the side were in, which says so itself.
    pub(crate) page: Option<PageKind>,
    /// What frames went through.
    pub(crate) interfaces: Vec<Interface>,
}

/// What a side took, and what it had of its core.
pub(crate) type Taken = (u64, f64);

impl Turn {
    /// Millions of packets a second.
    pub(crate) fn mpps(&self) -> f64 {
        self.taken as f64 / self.seconds / 1e6
    }

    /// Of the frames injected.
    pub(crate) fn lost_percent(&self) -> f64 {
        100.0 * (self.offered - self.taken) as f64 / self.offered as f64
    }
}

/// Has `side` take frames on its core until the flag is not 0, while the other injects them.
///
/// # Errors
/// The side's, and the injector's; more was taken than injected.
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
            // Where the core is not available, the kernel chooses.
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

/// Does some work that never sleeps; the second is the share of a core that it had.
pub(crate) fn with_share<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let (start, mut done) = (Instant::now(), None);
    let cpu_ns = cpu_ns(|| done = Some(work()));
    let share = cpu_ns as f64 / start.elapsed().as_nanos() as f64;
    (done.expect("the work was done"), share)
}

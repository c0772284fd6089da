//! Pools of mbufs. Each lives until all of its mbufs are back.
//!
//! A device that sends mbufs of another one's pool may return them only when it is closed. So an
//! unneeded pool waits for that. Each time a device is closed, the waiting pools that are full are
//! freed. Mbufs still missing when no device is left are leaked.
//!
//! Without reserved huge pages, mbufs are laid out so that those of one burst do not evict each
//! other from the first cache: `stagger` in `shim.c`.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ffi;

/// Maximum number of mbufs in a thread's cache. Source: `RTE_MEMPOOL_CACHE_MAX_SIZE` is 512; a pool
/// must have 1.5 times as many.
const CACHE: u32 = 256;

/// Bytes in front of a packet. Source: `RTE_PKTMBUF_HEADROOM`, rte_config.h.
pub(crate) const HEADROOM: u32 = 128;

/// A pool that is in use.
#[derive(Debug)]
pub(crate) struct Pool {
    pool: NonNull<ffi::Mempool>,
    /// Mbufs that its device's driver never returns.
    kept: u64,
}

// SAFETY: a mempool is made for many threads: its ring supports several producers and consumers.
unsafe impl Send for Pool {}
// SAFETY: shared, it only gives out the mempool's address, which the library may use from any
// thread.
unsafe impl Sync for Pool {}

#[derive(Default)]
struct Pools {
    /// Pools made so far: part of a pool's name.
    made: u64,
    /// Pools that are no longer needed.
    waiting: Vec<Pool>,
    devices: u64,
    leaked: u64,
}

static POOLS: Mutex<Pools> =
    Mutex::new(Pools { made: 0, waiting: Vec::new(), devices: 0, leaked: 0 });

fn pools() -> MutexGuard<'static, Pools> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the mbufs that were missing when the last device was closed, over the process's life.
/// Anything but 0 is a bug, of ours or of a driver.
pub fn leaked_mbufs() -> u64 {
    pools().leaked
}

impl Pool {
    /// Makes a pool of mbufs with `room` bytes for headroom and packet. If `is_staggered`, mbufs in
    /// small pages begin at different offsets of each page. `None` if out of memory. On the control
    /// thread.
    pub(crate) fn create(mbufs: u32, room: u16, node: i32, is_staggered: bool) -> Option<Self> {
        let number = {
            let mut pools = pools();
            pools.made += 1;
            pools.made
        };
        let name = CString::new(format!("burstline-{number}")).expect("no zero byte");
        let cache = CACHE.min(mbufs / 4);
        let name = name.as_ptr();
        // SAFETY: EAL runs, and the name ends with a 0.
        let pool = unsafe { ffi::shim_pool(name, mbufs, cache, room, node, is_staggered) };
        NonNull::new(pool).map(|pool| Self { pool, kept: 0 })
    }

    pub(crate) fn as_ptr(&self) -> *mut ffi::Mempool {
        self.pool.as_ptr()
    }

    /// Returns the address range of its mbufs.
    pub(crate) fn home(&self) -> ffi::Home {
        let pool = self.as_ptr();
        let mut home = ffi::Home { pool, start: 0, end: 0 };
        // SAFETY: the pool is alive, and `home` is written only during the call.
        unsafe { ffi::shim_pool_home(pool, &mut home) };
        home
    }

    /// Allows the driver to keep this many mbufs.
    pub(crate) fn allow(&mut self, kept: u64) {
        self.kept = kept;
    }

    /// Returns the number of mbufs that are not in it.
    fn missing(&self) -> u64 {
        // SAFETY: the pool is alive as long as `self`.
        unsafe { ffi::shim_pool_missing(self.as_ptr()) }.into()
    }
}

pub(crate) fn device_opened() {
    pools().devices += 1;
}

/// Counts a closed device. On the control thread.
pub(crate) fn device_closed() {
    let mut pools = pools();
    pools.devices -= 1;
    sweep(&mut pools);
}

/// Releases a device's reference to a pool. The last one retires the pool, on the control thread.
pub(crate) fn retire(pool: Arc<Pool>) {
    let Some(pool) = Arc::into_inner(pool) else { return };
    let mut pools = pools();
    pools.waiting.push(pool);
    sweep(&mut pools);
}

fn sweep(pools: &mut Pools) {
    pools.waiting.retain(|pool| {
        let is_full = pool.missing() == 0;
        if is_full {
            // SAFETY: all mbufs are in it, and nothing has a reference to it any more.
            unsafe { ffi::shim_pool_free(pool.as_ptr()) }
        }
        !is_full
    });
    if pools.devices == 0 {
        // Their memory stays: the owners of the mbufs may still write there.
        let leaked = |pool: Pool| pool.missing().saturating_sub(pool.kept);
        pools.leaked += pools.waiting.drain(..).map(leaked).sum::<u64>();
    }
}

//! A send queue, and a way to send packets that are not in an mbuf yet.

use std::sync::Arc;

use crate::device::Device;
use crate::error::DpdkError;
use crate::receiver::Receiver;
use crate::statistics::Statistics;
use crate::{ffi, thread};

/// Mbufs that a [`Sender`] fills before sending.
pub const SENT_AT_ONCE: usize = 32;

/// One send queue of a device.
#[derive(Debug)]
pub struct Exit {
    queue: u16,
    device: Arc<Device>,
}

impl Exit {
    /// Takes a free send queue of the device.
    ///
    /// # Errors
    /// [`DpdkError::Taken`].
    pub fn new(device: &Arc<Device>) -> Result<Self, DpdkError> {
        Ok(Self { queue: device.own_exit()?, device: Arc::clone(device) })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Packets that the device reports as sent on this queue since it was opened. `None` if the
    /// driver does not count queues separately.
    pub fn confirmed(&self, statistics: &Statistics) -> Option<u64> {
        statistics.sent_by(self.queue, self.device.exits())
    }

    /// Packets that the driver counts as sent but the other end has not taken yet. Known only for
    /// rings that we can inspect: `net_ring`, and virtio with split rings. Otherwise 0. They are
    /// lost when the device is closed. Cost: a search of EAL's tables.
    pub fn untaken(&self) -> u64 {
        self.device.untaken(self.queue)
    }

    /// Sends a receiver's undelivered packets, mbufs unchanged, as far as there is room. Returns
    /// the number of packets and bytes.
    #[inline]
    pub fn forward(&mut self, from: &mut Receiver) -> (u64, u64) {
        let mbufs = from.undelivered_mbufs();
        if mbufs.is_empty() {
            return (0, 0);
        }
        thread::enter();
        let (port, count, mut bytes) = (self.device.port(), mbufs.len() as u16, 0);
        let (first, queue) = (mbufs.as_mut_ptr(), self.queue);
        // SAFETY: the mbufs are live and belong to the receiver, which hands over sent ones.
        let sent = unsafe { ffi::shim_forward(port, queue, first, count, &raw mut bytes) };
        let sent = usize::from(sent).min(mbufs.len());
        from.hand_over(sent);
        (sent as u64, bytes)
    }

    /// Asks the driver to free sent mbufs, if it supports that.
    pub fn reclaim(&mut self) {
        thread::enter();
        // SAFETY: the device is open, and the queue is ours.
        unsafe { ffi::shim_reclaim(self.device.port(), self.queue) }
    }

    /// Returns how many of `mbufs`, from the first on, now belong to the device.
    #[inline]
    fn send(&mut self, mbufs: &mut [*mut ffi::Mbuf]) -> usize {
        let (port, count) = (self.device.port(), mbufs.len() as u16);
        // SAFETY: the mbufs belong to the caller, which forgets those that are sent.
        let sent = unsafe { ffi::shim_send(port, self.queue, mbufs.as_mut_ptr(), count) };
        usize::from(sent).min(mbufs.len())
    }
}

impl Drop for Exit {
    fn drop(&mut self) {
        self.device.disown(None, Some(self.queue));
    }
}

/// Copies packets into mbufs from its own pool and sends them.
///
/// ```text
/// mbufs   | sent | filled | fresh |
///         0      sent     filled  fresh
/// ```
#[derive(Debug)]
pub struct Sender {
    mbufs: Fresh,
    exit: Exit,
}

/// # Invariants
/// F1. `mbufs[sent..fresh]` are live and ours.
/// F2. `sent <= filled <= fresh <= SENT_AT_ONCE`.
#[derive(Debug)]
struct Fresh {
    mbufs: Box<[*mut ffi::Mbuf; SENT_AT_ONCE]>,
    pool: *mut ffi::Mempool,
    sent: usize,
    filled: usize,
    fresh: usize,
}

// SAFETY: by F1 the mbufs are ours alone, and a pool is made for many threads.
unsafe impl Send for Fresh {}

impl Sender {
    /// Opens a sender on a free send queue of the device.
    ///
    /// # Errors
    /// [`DpdkError::Taken`]; [`DpdkError::NoPool`].
    pub fn new(device: &Arc<Device>) -> Result<Self, DpdkError> {
        let exit = Exit::new(device)?;
        let pool = device.pool_to_send()?;
        let mbufs = Box::new([std::ptr::null_mut(); SENT_AT_ONCE]);
        Ok(Self { mbufs: Fresh { mbufs, pool, sent: 0, filled: 0, fresh: 0 }, exit })
    }

    /// The device.
    pub fn device(&self) -> &Arc<Device> {
        &self.exit.device
    }

    /// Returns the send queue.
    pub fn exit(&self) -> &Exit {
        &self.exit
    }

    /// Length of the longest packet that fits the device's MTU, in bytes.
    pub fn longest(&self) -> usize {
        usize::from(self.device().facts().mtu) + 14
    }

    /// Copies a packet into an mbuf, to be sent with others. Returns false if there is no mbuf or
    /// no slot until [`send`](Self::send) has sent some.
    #[inline]
    pub fn push(&mut self, packet: &[u8]) -> bool {
        let own = &mut self.mbufs;
        if own.filled == own.fresh && !own.refill() {
            return false;
        }
        let mbuf = own.mbufs[own.filled];
        let length = packet.len() as u32;
        // SAFETY: by F1 the mbuf is ours and fresh; the shim chains more mbufs if it is too small.
        if unsafe { ffi::shim_write(own.pool, mbuf, packet.as_ptr(), length) } {
            own.filled += 1;
            return true;
        }
        own.renew();
        false
    }

    /// Hands filled mbufs to the device. Returns how many it took.
    #[inline]
    pub fn send(&mut self) -> u64 {
        let own = &mut self.mbufs;
        if own.sent == own.filled {
            return 0;
        }
        thread::enter();
        let sent = self.exit.send(&mut own.mbufs[own.sent..own.filled]);
        own.sent += sent;
        sent as u64
    }

    /// Asks the driver to free sent mbufs, if it supports that.
    pub fn reclaim(&mut self) {
        self.exit.reclaim();
    }

    /// Packets pushed and not sent.
    pub fn unsent(&self) -> u64 {
        (self.mbufs.filled - self.mbufs.sent) as u64
    }

    /// Discards packets that were pushed and not sent. Returns their number.
    pub fn discard(&mut self) -> u64 {
        let discarded = self.unsent();
        self.mbufs.give_back();
        discarded
    }
}

impl Fresh {
    /// Allocates mbufs for all free slots. Returns false if some must be sent first, or none are
    /// left.
    fn refill(&mut self) -> bool {
        if self.sent < self.fresh {
            return false;
        }
        thread::enter();
        (self.sent, self.filled, self.fresh) = (0, 0, 0);
        let (mbufs, most) = (self.mbufs.as_mut_ptr(), SENT_AT_ONCE as u32);
        // SAFETY: the pool lives as long as the device, and there is room for this many.
        if unsafe { ffi::shim_allocate(self.pool, mbufs, most) } {
            self.fresh = SENT_AT_ONCE;
        }
        self.fresh > 0
    }

    /// Replaces the next mbuf, which is partly filled, by another one, if there is one.
    #[cold]
    fn renew(&mut self) {
        let filled = self.filled;
        // SAFETY: by F1 it is ours, with the mbufs chained to it.
        unsafe { ffi::shim_free(self.mbufs[filled..].as_mut_ptr(), 1) };
        self.fresh -= 1;
        self.mbufs[filled] = self.mbufs[self.fresh];
    }

    fn give_back(&mut self) {
        thread::enter();
        let own = &mut self.mbufs[self.sent..self.fresh];
        // SAFETY: by F1 they are ours.
        unsafe { ffi::shim_free(own.as_mut_ptr(), own.len() as u32) };
        (self.sent, self.filled, self.fresh) = (0, 0, 0);
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        self.give_back();
    }
}

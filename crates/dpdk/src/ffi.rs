//! Rust declarations of `shim.h`: change both together.

use std::ffi::{c_char, c_int};

use burstline_log::Desc;

/// A DPDK mbuf; only C looks into it.
#[repr(C)]
pub(crate) struct Mbuf {
    opaque: [u8; 0],
}

/// A DPDK mempool; only C looks into it.
#[repr(C)]
pub(crate) struct Mempool {
    opaque: [u8; 0],
}

/// A received packet's first segment.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Packet {
    pub(crate) data: *const u8,
    /// Bytes of all segments.
    pub(crate) length: u32,
    pub(crate) marks: u32,
    /// As reported by the device.
    pub(crate) time: u64,
    pub(crate) hash: u32,
}

pub(crate) const CHAINED: u32 = 1;
pub(crate) const PARTIAL_CHECKSUM: u32 = 2;
pub(crate) const MERGED: u32 = 4;
pub(crate) const BAD_CHECKSUM: u32 = 8;
pub(crate) const TIMED: u32 = 16;
pub(crate) const HASHED: u32 = 32;

pub(crate) const SUM_IP: u8 = 1;
pub(crate) const SUM_UDP: u8 = 2;
pub(crate) const SUM_TCP: u8 = 4;

pub(crate) const RSS_IP: u32 = 1;
pub(crate) const RSS_TCP: u32 = 2;
pub(crate) const RSS_UDP: u32 = 4;

/// Bytes of the longest key.
pub(crate) const KEY_MOST: usize = 128;

/// The hash functions, and the key.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Rss {
    pub(crate) functions: u32,
    pub(crate) key_bytes: u8,
    pub(crate) key: [u8; KEY_MOST],
}

impl Default for Rss {
    fn default() -> Self {
        Self { functions: 0, key_bytes: 0, key: [0; KEY_MOST] }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Offers {
    pub(crate) rss: u32,
    pub(crate) key_bytes: u8,
    pub(crate) has_hash: u8,
    pub(crate) has_times: u8,
}

/// Summary of all packets of a call of [`shim_look`].
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Batch {
    pub(crate) lowest: u64,
    pub(crate) highest: u64,
    pub(crate) marks: u32,
}

/// A pool, and the address range of its mbufs.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Home {
    pub(crate) pool: *mut Mempool,
    pub(crate) start: u64,
    pub(crate) end: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Device {
    pub(crate) port: u16,
    pub(crate) rx_queues_max: u16,
    pub(crate) tx_queues_max: u16,
    pub(crate) mtu_max: u16,
    pub(crate) mtu: u16,
    pub(crate) rx_ring: u16,
    pub(crate) tx_ring: u16,
    pub(crate) node: i32,
    pub(crate) interface: u32,
    pub(crate) is_pci: u8,
    /// Bits of the checksums that it can check.
    pub(crate) checksums: u8,
    pub(crate) has_scatter: u8,
    pub(crate) has_segments: u8,
    pub(crate) driver: [u8; 32],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) queues: u16,
    pub(crate) mtu: u16,
    pub(crate) checksum: u8,
    pub(crate) scatter: u8,
    pub(crate) rss: u8,
    pub(crate) hash: u8,
    pub(crate) times: u8,
    pub(crate) node: i32,
    pub(crate) keyed: *const Rss,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) ipackets: u64,
    pub(crate) opackets: u64,
    pub(crate) ibytes: u64,
    pub(crate) obytes: u64,
    pub(crate) imissed: u64,
    pub(crate) ierrors: u64,
    pub(crate) oerrors: u64,
    pub(crate) rx_nombuf: u64,
    pub(crate) q_ipackets: [u64; 16],
    pub(crate) q_opackets: [u64; 16],
}

unsafe extern "C" {
    pub(crate) fn shim_version() -> *const c_char;
    pub(crate) fn shim_drivers_folder() -> *const c_char;

    pub(crate) fn shim_log_start() -> c_int;
    pub(crate) fn shim_log_take(text: *mut u8, room: usize) -> usize;
    pub(crate) fn shim_eal_init(count: c_int, arguments: *mut *mut c_char, signal: c_int) -> c_int;
    pub(crate) fn shim_enter_network(descriptor: c_int) -> c_int;

    pub(crate) fn shim_probe(devargs: *const c_char, device: *mut Device) -> c_int;
    pub(crate) fn shim_configure(device: *mut Device, plan: *const Plan) -> c_int;
    pub(crate) fn shim_start(device: *const Device, plan: *const Plan, pool: *mut Mempool)
    -> c_int;
    pub(crate) fn shim_offers(port: u16, offers: *mut Offers) -> c_int;
    pub(crate) fn shim_rss_told(port: u16, rss: *mut Rss) -> c_int;
    pub(crate) fn shim_rss_change(port: u16, rss: *const Rss) -> c_int;
    pub(crate) fn shim_times_start() -> c_int;
    pub(crate) fn shim_close(port: u16, queues: u16);
    pub(crate) fn shim_counts(port: u16, counts: *mut Counts) -> c_int;
    pub(crate) fn shim_xstats(port: u16, text: *mut u8, room: usize) -> usize;
    pub(crate) fn shim_link(port: u16) -> c_int;
    pub(crate) fn shim_is_gone(port: u16, interface: u32, socket: c_int) -> bool;
    pub(crate) fn shim_waiting(port: u16, queue: u16) -> u32;
    pub(crate) fn shim_reclaim(port: u16, queue: u16);
    pub(crate) fn shim_untaken(port: u16, queue: u16) -> u32;

    pub(crate) fn shim_pool(
        name: *const c_char,
        mbufs: u32,
        cache: u32,
        room: u16,
        node: i32,
        is_staggered: bool,
    ) -> *mut Mempool;
    pub(crate) fn shim_pool_free(pool: *mut Mempool);
    pub(crate) fn shim_pool_missing(pool: *const Mempool) -> u32;
    pub(crate) fn shim_pool_home(pool: *mut Mempool, home: *mut Home);

    pub(crate) fn shim_thread_enter() -> c_int;
    pub(crate) fn shim_thread_leave();

    pub(crate) fn shim_take(port: u16, queue: u16, mbufs: *mut *mut Mbuf, most: u16) -> u16;
    pub(crate) fn shim_look(
        mbufs: *const *mut Mbuf,
        count: u32,
        packets: *mut Packet,
        batch: *mut Batch,
    );
    pub(crate) fn shim_describe(
        mbufs: *const *mut Mbuf,
        count: u32,
        home: *const Home,
        interface: u32,
        descs: *mut Desc,
    ) -> bool;
    pub(crate) fn shim_send(port: u16, queue: u16, mbufs: *mut *mut Mbuf, count: u16) -> u16;
    pub(crate) fn shim_forward(
        port: u16,
        queue: u16,
        mbufs: *mut *mut Mbuf,
        count: u16,
        bytes: *mut u64,
    ) -> u16;
    pub(crate) fn shim_free(mbufs: *mut *mut Mbuf, count: u32);
    pub(crate) fn shim_free_plain(pool: *mut Mempool, mbufs: *mut *mut Mbuf, count: u32);
    pub(crate) fn shim_first_length(mbuf: *const Mbuf) -> u32;
    pub(crate) fn shim_read(mbuf: *const Mbuf, bytes: *mut u8, room: u32) -> u32;
    pub(crate) fn shim_allocate(pool: *mut Mempool, mbufs: *mut *mut Mbuf, count: u32) -> bool;
    pub(crate) fn shim_write(
        pool: *mut Mempool,
        mbuf: *mut Mbuf,
        bytes: *const u8,
        length: u32,
    ) -> bool;
}

//! A device: opened, started, counted, closed.

use std::ffi::CString;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixDatagram;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use burstline_sys::foreign::OpenSockets;

use crate::devargs;
use crate::eal::{self, EalOptions, Network};
use crate::error::DpdkError;
use crate::ffi;
use crate::kernel::KernelLosses;
use crate::log_text::{self, reason};
use crate::offloads::{Asked, Offloads, Rss};
use crate::pool::{self, HEADROOM, Pool};

/// What a frame has besides the MTU: Ethernet header, two VLAN tags, FCS.
const FRAME_EXTRA: u32 = 14 + 8 + 4;

/// Bytes for a packet in an mbuf at least. Source: `RTE_MBUF_DEFAULT_DATAROOM`, rte_mbuf_core.h.
const ROOM_LEAST: u32 = 2048;

/// A driver that gives back nothing of its fill and completion rings when it is closed, and how
/// many they have room for. Source: `ETH_AF_XDP_DFLT_NUM_DESCS`, rte_eth_af_xdp.c, DPDK 22.11.
const KEEPER: (&str, u64) = ("net_af_xdp", 2 * 2048);

/// Drivers that take a packet in first and then drop it where no mbuf is free for it, or none in
/// its place. With others `rx_nombuf` counts vain attempts, tens of them for a packet that is not
/// lost. Source: pcap_ethdev.c, rte_eth_tap.c, hn_rxtx.c, mlx4_rxtx.c and mlx5_rx.c, DPDK 22.11.
const LOSES_WITHOUT_MBUF: [&str; 5] = ["net_pcap", "net_tap", "net_netvsc", "net_mlx4", "mlx5_pci"];

/// Queues whose packets a driver can count apart.
/// Source: `RTE_ETHDEV_QUEUE_STAT_CNTRS`, rte_config.h.
const COUNTED_QUEUES: usize = 16;

/// Memory from wherever there is some. Source: `SOCKET_ID_ANY`, rte_memory.h.
const ANY_NODE: i32 = -1;

/// How a device is to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Its name and arguments, as EAL's `--vdev` or `--allow` take them.
    pub devargs: String,
    /// Receive queues, and as many to send by as the device has.
    pub queues: u16,
    /// Descriptors of each queue; the device may adjust it.
    pub ring: u16,
    /// Bytes behind an Ethernet header. `None`: as the device has it.
    pub mtu: Option<u16>,
    /// Mbufs to receive into. `None`: enough for the rings, and for what is lent.
    pub mbufs: Option<u32>,
    /// Whether the device looks at checksums, at those that it can.
    pub checksums: bool,
    /// Whether packets are spread over the queues by a hash.
    pub rss: Rss,
    /// Whether the device says when each packet came.
    pub times: bool,
    /// The NUMA node of its pools. `None`: the device's own.
    pub node: Option<u32>,
}

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The driver's name.
    pub driver: String,
    /// Bytes behind an Ethernet header that it takes.
    pub mtu: u16,
    /// Descriptors of a receive queue.
    pub rx_ring: u16,
    /// Whether packets are counted by the card, before they are in our memory; else the driver
    /// counts them when they are taken.
    pub is_hardware: bool,
    /// Whether each time that no mbuf was free is a packet lost; else it stays where it is, and the
    /// driver asks for an mbuf again.
    pub loses_without_mbuf: bool,
    /// What work it does for us.
    pub offloads: Offloads,
}

/// A device's own counts since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// `ipackets`.
    pub received: u64,
    /// `opackets`.
    pub sent: u64,
    /// `imissed`: the device had no room for them.
    pub missed: u64,
    /// `ierrors`.
    pub errors: u64,
    /// `rx_nombuf`: no mbuf was free. What became of the packet is the driver's affair: see
    /// [`DeviceFacts::loses_without_mbuf`].
    pub no_mbuf: u64,
    /// The kernel had no room for them in front of the driver, which does not tell. `None`: there is
    /// no kernel in front of it.
    pub kernel_lost: Option<u64>,
    /// `oerrors`.
    pub send_errors: u64,
    received_by_queue: [u64; COUNTED_QUEUES],
    sent_by_queue: [u64; COUNTED_QUEUES],
    apart: Apart,
}

/// Whether the driver counts queues apart: it does, once any queue has a count. The counts of one
/// reading are not of one moment, and so their sum says nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Apart {
    received: bool,
    sent: bool,
}

impl Apart {
    /// Learns from counts, for good.
    fn learn(&mut self, counts: &Statistics) {
        let has_counted = |by_queue: &[u64]| by_queue.iter().any(|&packets| packets > 0);
        self.received |= has_counted(&counts.received_by_queue);
        self.sent |= has_counted(&counts.sent_by_queue);
    }
}

impl Statistics {
    /// Packets received by one of `queues` queues. `None`: the driver does not count them apart.
    pub fn received_by(&self, queue: u16, queues: u16) -> Option<u64> {
        let known = self.apart.received.then_some(&self.received_by_queue);
        of_queue(self.received, known, queue, queues)
    }

    /// As [`received_by`](Self::received_by), of packets sent.
    pub fn sent_by(&self, queue: u16, queues: u16) -> Option<u64> {
        let known = self.apart.sent.then_some(&self.sent_by_queue);
        of_queue(self.sent, known, queue, queues)
    }

    fn read(port: u16) -> Self {
        let mut counts = ffi::Counts::default();
        // SAFETY: it is written for the call's time only. What cannot be read stays 0.
        unsafe { ffi::shim_counts(port, &mut counts) };
        Self {
            received: counts.ipackets,
            sent: counts.opackets,
            missed: counts.imissed,
            errors: counts.ierrors,
            no_mbuf: counts.rx_nombuf,
            kernel_lost: None,
            send_errors: counts.oerrors,
            received_by_queue: counts.q_ipackets,
            sent_by_queue: counts.q_opackets,
            apart: Apart::default(),
        }
    }

    fn since(&self, before: &Self) -> Self {
        let less = |now: &[u64; COUNTED_QUEUES], before: &[u64; COUNTED_QUEUES]| {
            std::array::from_fn(|queue| now[queue].saturating_sub(before[queue]))
        };
        Self {
            received: self.received.saturating_sub(before.received),
            sent: self.sent.saturating_sub(before.sent),
            missed: self.missed.saturating_sub(before.missed),
            errors: self.errors.saturating_sub(before.errors),
            no_mbuf: self.no_mbuf.saturating_sub(before.no_mbuf),
            kernel_lost: self.kernel_lost,
            send_errors: self.send_errors.saturating_sub(before.send_errors),
            received_by_queue: less(&self.received_by_queue, &before.received_by_queue),
            sent_by_queue: less(&self.sent_by_queue, &before.sent_by_queue),
            apart: self.apart,
        }
    }
}

/// Of `all` packets those of a queue; `by_queue` is what the driver counts apart.
fn of_queue(
    all: u64,
    by_queue: Option<&[u64; COUNTED_QUEUES]>,
    queue: u16,
    queues: u16,
) -> Option<u64> {
    match by_queue {
        _ if queues == 1 => Some(all),
        Some(counts) if usize::from(queues) <= COUNTED_QUEUES => {
            counts.get(usize::from(queue)).copied()
        }
        _ => (all == 0).then_some(0),
    }
}

/// What calls that ask a device something learn.
#[derive(Debug, Default)]
struct Control {
    apart: Apart,
    kernel: KernelLosses,
}

/// Which queues have an owner.
#[derive(Debug, Default)]
struct Owned {
    receivers: Vec<u16>,
    exits: Vec<u16>,
}

/// A device that is started. It is closed when the last of its queues is dropped.
#[derive(Debug)]
pub struct Device {
    options: DeviceOptions,
    facts: DeviceFacts,
    raw: ffi::Device,
    node: i32,
    /// Where its interface is, if it has one.
    network: Arc<Network>,
    /// Made in that network, and so sees its interfaces from any other.
    in_network: Option<UnixDatagram>,
    exits: u16,
    before: Statistics,
    /// Held in a control call, of which a device takes one at a time. Source: rte_ethdev.h.
    control: Mutex<Control>,
    owned: Mutex<Owned>,
    pools: Mutex<Vec<Pool>>,
}

/// The devices that are open.
static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Opens a device, or finds it where it is open with these options. Starts EAL, if need be.
    ///
    /// Cost: tens of milliseconds; the first time as long as EAL takes to load its drivers.
    ///
    /// # Errors
    /// What EAL or the driver says.
    pub fn open(options: &DeviceOptions, eal: &EalOptions) -> Result<Arc<Self>, DpdkError> {
        let mut open = lock(&OPEN);
        open.retain(|device| device.strong_count() > 0);
        let known = open.iter().filter_map(Weak::upgrade);
        let same = known.into_iter().find(|device| device.options.devargs == options.devargs);
        if let Some(device) = same {
            let otherwise = DpdkError::OpenOtherwise { device: options.devargs.clone() };
            return if device.options == *options { Ok(device) } else { Err(otherwise) };
        }
        eal::start(eal, &options.devargs)?;
        let (wanted, network) = (options.clone(), Network::of_this_thread());
        let device = Arc::new(eal::on_control(move || Self::start(wanted, network))?);
        open.push(Arc::downgrade(&device));
        Ok(device)
    }

    /// On the control thread.
    fn start(options: DeviceOptions, network: Network) -> Result<Self, DpdkError> {
        network.enter();
        let before = OpenSockets::now();
        let raw = probe(&options)?;
        pool::device_opened();
        let mut unused = None;
        Self::set_up(options, raw, (network, &before), &mut unused).inspect_err(|_| {
            // SAFETY: it was probed, and nobody else knows of it.
            unsafe { ffi::shim_close(raw.port, 0) };
            unused.into_iter().for_each(pool::retire);
            pool::device_closed();
        })
    }

    /// Where this fails with a pool already made, that is left in `unused`, for after the closing.
    fn set_up(
        options: DeviceOptions,
        mut raw: ffi::Device,
        (network, sockets): (Network, &OpenSockets),
        unused: &mut Option<Pool>,
    ) -> Result<Self, DpdkError> {
        let failed = |action, code| DpdkError::Device {
            device: options.devargs.clone(),
            action,
            reason: reason(code),
        };
        let asked = Asked::of(raw.port, &driver_name(&raw), &options)?;
        let mut plan = plan(&options, &raw)?;
        asked.enter_into(&mut plan);
        // SAFETY: it was probed; the structures and the key live for the call.
        let code = unsafe { ffi::shim_configure(&mut raw, &plan) };
        if code != 0 {
            return Err(failed("configure", code));
        }
        let rings = u32::from(raw.rx_ring) + u32::from(raw.tx_ring);
        let enough = (u32::from(plan.queues) * rings + 4096).next_power_of_two() - 1;
        let mbufs = options.mbufs.unwrap_or(enough);
        let mut pool = new_pool(&raw, &options.devargs, mbufs, plan.node)?;
        if driver_name(&raw) == KEEPER.0 {
            pool.allow(u64::from(plan.queues) * KEEPER.1);
        }
        let before = Statistics::read(raw.port);
        // SAFETY: as above; the pool is retired only after the device was closed.
        let code = unsafe { ffi::shim_start(&raw, &plan, pool.as_ptr()) };
        let started = if code == 0 { Ok(()) } else { Err(failed("start", code)) };
        let offloads = match started.and_then(|()| asked.settle(&raw, &plan, &options)) {
            Ok(offloads) => offloads,
            Err(error) => {
                *unused = Some(pool);
                return Err(error);
            }
        };
        let driver = driver_name(&raw);
        let kernel = KernelLosses::watch(&driver, raw.interface, sockets);
        let facts = DeviceFacts {
            loses_without_mbuf: LOSES_WITHOUT_MBUF.contains(&driver.as_str()),
            driver,
            mtu: raw.mtu,
            rx_ring: raw.rx_ring,
            is_hardware: raw.is_pci != 0,
            offloads,
        };
        let exits = plan.queues.min(raw.tx_queues_max);
        Ok(Self {
            options,
            facts,
            raw,
            node: plan.node,
            network: Arc::new(network),
            in_network: UnixDatagram::unbound().ok(),
            exits,
            before,
            control: Mutex::new(Control { apart: Apart::default(), kernel }),
            owned: Mutex::default(),
            pools: Mutex::new(vec![pool]),
        })
    }

    /// What it is.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Its name and arguments.
    pub fn devargs(&self) -> &str {
        &self.options.devargs
    }

    /// How many queues it receives by.
    pub fn queues(&self) -> u16 {
        self.options.queues
    }

    /// Its counts since it was opened. Cost: what the driver takes; of a card, reads over its bus.
    /// Waits for another thread's call that asks the device something.
    pub fn statistics(&self) -> Statistics {
        let control = &mut *lock(&self.control);
        let counts = Statistics::read(self.raw.port).since(&self.before);
        control.apart.learn(&counts);
        let kernel_lost = control.kernel.packets();
        Statistics { apart: control.apart, kernel_lost, ..counts }
    }

    /// Those of the driver's own counters that are not 0, as `name=value`, a space after each.
    pub fn extended_statistics(&self) -> String {
        let mut text = vec![0; 4096];
        let _one_call = lock(&self.control);
        // SAFETY: the shim writes at most as many bytes as it is told there is room for.
        let length = unsafe { ffi::shim_xstats(self.raw.port, text.as_mut_ptr(), text.len()) };
        text.truncate(length);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Whether there is a link; for a device without one, whether its other end is there.
    pub fn is_up(&self) -> bool {
        let _one_call = lock(&self.control);
        // SAFETY: the device is open.
        unsafe { ffi::shim_link(self.raw.port) > 0 }
    }

    /// Whether it was unplugged, or its interface was deleted.
    pub fn is_gone(&self) -> bool {
        let _one_call = lock(&self.control);
        let socket = self.in_network.as_ref().map_or(-1, |socket| socket.as_raw_fd());
        // SAFETY: the device is open; a descriptor that is none finds nothing out.
        unsafe { ffi::shim_is_gone(self.raw.port, self.raw.interface, socket) }
    }

    /// What lies in a queue to send by, and was not taken yet.
    pub(crate) fn untaken(&self, exit: u16) -> u64 {
        let _one_call = lock(&self.control);
        // SAFETY: the device is open.
        unsafe { ffi::shim_untaken(self.raw.port, exit) }.into()
    }

    pub(crate) fn port(&self) -> u16 {
        self.raw.port
    }

    /// Where the mbufs are that it receives into.
    pub(crate) fn home(&self) -> ffi::Home {
        lock(&self.pools).first().expect("a device has its pool, until it is dropped").home()
    }

    pub(crate) fn exits(&self) -> u16 {
        self.exits
    }

    pub(crate) fn own_receiver(&self, queue: u16) -> Result<(), DpdkError> {
        let owned = &mut lock(&self.owned).receivers;
        if owned.contains(&queue) {
            return Err(self.taken("the queue to receive by"));
        }
        owned.push(queue);
        Ok(())
    }

    /// The first queue to send by that is free.
    pub(crate) fn own_exit(&self) -> Result<u16, DpdkError> {
        let owned = &mut lock(&self.owned).exits;
        let free = (0..self.exits).find(|queue| !owned.contains(queue));
        let free = free.ok_or_else(|| self.taken("each queue to send by"))?;
        owned.push(free);
        Ok(free)
    }

    fn taken(&self, what: &'static str) -> DpdkError {
        DpdkError::Taken { device: self.options.devargs.clone(), what }
    }

    pub(crate) fn disown(&self, receiver: Option<u16>, exit: Option<u16>) {
        let mut owned = lock(&self.owned);
        owned.receivers.retain(|queue| Some(*queue) != receiver);
        owned.exits.retain(|queue| Some(*queue) != exit);
    }

    /// A pool to send from, which lives as long as the device.
    pub(crate) fn pool_to_send(self: &Arc<Self>) -> Result<*mut ffi::Mempool, DpdkError> {
        let mbufs = (u32::from(self.raw.tx_ring) + 2048).next_power_of_two() - 1;
        let (raw, devargs, node) = (self.raw, self.options.devargs.clone(), self.node);
        let pool = eal::on_control(move || new_pool(&raw, &devargs, mbufs, node))?;
        let pointer = pool.as_ptr();
        lock(&self.pools).push(pool);
        Ok(pointer)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (port, queues) = (self.raw.port, self.options.queues);
        let pools = std::mem::take(&mut *lock(&self.pools));
        let network = Arc::clone(&self.network);
        eal::on_control(move || {
            network.enter();
            // SAFETY: the last reference has gone, so nobody sends or receives by it.
            unsafe { ffi::shim_close(port, queues) };
            pools.into_iter().for_each(pool::retire);
            pool::device_closed();
        });
    }
}

fn probe(options: &DeviceOptions) -> Result<ffi::Device, DpdkError> {
    let refused = |reason| DpdkError::Probe { device: options.devargs.clone(), reason };
    let devargs = CString::new(options.devargs.as_str());
    let devargs = devargs.map_err(|_| refused("there is a zero byte in it".to_owned()))?;
    if let Some(file) = devargs::missing_file(&options.devargs) {
        let (device, file) = (options.devargs.clone(), file.to_owned());
        return Err(DpdkError::NoFile { device, file });
    }
    let mut raw = ffi::Device::default();
    log_text::forget();
    // SAFETY: EAL runs, the string ends with a 0, and `raw` is written for the call's time only.
    let code = unsafe { ffi::shim_probe(devargs.as_ptr(), &mut raw) };
    if code != 0 {
        return Err(refused(reason(code)));
    }
    raw.rx_ring = options.ring;
    raw.tx_ring = options.ring;
    Ok(raw)
}

fn plan(options: &DeviceOptions, raw: &ffi::Device) -> Result<ffi::Plan, DpdkError> {
    let device = || options.devargs.clone();
    if options.queues > raw.rx_queues_max {
        let (wanted, most) = (options.queues, raw.rx_queues_max);
        return Err(DpdkError::TooManyQueues { device: device(), wanted, most });
    }
    if options.checksums && raw.checksums == 0 {
        let action = "look at checksums";
        let reason = format!("{} does not: without checksums=", driver_name(raw));
        return Err(DpdkError::Device { device: device(), action, reason });
    }
    let node = options.node.map_or(raw.node, |node| node as i32);
    let frame = u32::from(options.mtu.unwrap_or(raw.mtu)) + FRAME_EXTRA;
    let is_long = frame > u32::from(room_of(frame - FRAME_EXTRA)) - HEADROOM;
    Ok(ffi::Plan {
        queues: options.queues,
        mtu: options.mtu.unwrap_or(0),
        checksum: options.checksums.into(),
        scatter: u8::from(is_long && raw.has_scatter != 0),
        rss: 0,
        hash: 0,
        times: 0,
        node,
        keyed: std::ptr::null(),
    })
}

/// Bytes of an mbuf that has room for any packet of this MTU, and at least the usual.
fn room_of(mtu: u32) -> u16 {
    let room = (mtu + FRAME_EXTRA).next_multiple_of(64).max(ROOM_LEAST) + HEADROOM;
    room.min(u32::from(u16::MAX)) as u16
}

fn new_pool(raw: &ffi::Device, device: &str, mbufs: u32, node: i32) -> Result<Pool, DpdkError> {
    let room = room_of(u32::from(raw.mtu));
    // net_af_xdp gives the kernel its mbufs as they lie, which takes none that is longer than a
    // page. Where there is no memory for what is best, what is next is better than no device.
    let can_stagger = driver_name(raw) != KEEPER.0;
    let shapes = [(node, true), (ANY_NODE, true), (node, false), (ANY_NODE, false)];
    let mut shapes = shapes.into_iter().filter(|(_, is_staggered)| can_stagger || !is_staggered);
    let pool =
        shapes.find_map(|(node, is_staggered)| Pool::create(mbufs, room, node, is_staggered));
    pool.ok_or_else(|| DpdkError::NoPool { device: device.to_owned(), mbufs, room })
}

fn driver_name(raw: &ffi::Device) -> String {
    let length = raw.driver.iter().position(|&byte| byte == 0).unwrap_or(raw.driver.len());
    String::from_utf8_lossy(&raw.driver[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(apart: &mut Apart, all: u64, by_queue: [u64; 2]) -> Statistics {
        let mut counts = Statistics { received: all, ..Statistics::default() };
        counts.received_by_queue[..2].copy_from_slice(&by_queue);
        apart.learn(&counts);
        Statistics { apart: *apart, ..counts }
    }

    #[test]
    fn queues_that_were_once_counted_apart_stay_so_whatever_the_sum_is() {
        let mut apart = Apart::default();
        assert_eq!(counts(&mut apart, 0, [0, 0]).received_by(1, 2), Some(0));
        assert_eq!(counts(&mut apart, 9, [0, 0]).received_by(1, 2), None);
        let apart = &mut apart;
        assert_eq!(counts(apart, 10, [3, 7]).received_by(1, 2), Some(7));
        // Read while packets came in: more altogether, then more apart.
        assert_eq!(counts(apart, 15, [3, 8]).received_by(1, 2), Some(8));
        assert_eq!(counts(apart, 15, [9, 9]).received_by(0, 2), Some(9));
        // There are no counters for all of so many, and nothing was learnt of what is sent.
        let last = Statistics { sent: 5, ..counts(apart, 15, [9, 9]) };
        assert_eq!((last.received_by(0, 17), last.received_by(0, 1)), (None, Some(15)));
        assert_eq!(last.sent_by(0, 2), None);
    }
}

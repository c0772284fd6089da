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
use crate::offloads::{Asked, Offloads};
use crate::options::DeviceOptions;
use crate::pool::{self, HEADROOM, Pool};
use crate::sockets::{self, Unused};
use crate::statistics::{Counted, Statistics};

/// Bytes of a frame besides the MTU: Ethernet header, two VLAN tags, FCS.
const FRAME_EXTRA: u32 = 14 + 8 + 4;

/// Minimum packet bytes of an mbuf. Source: `RTE_MBUF_DEFAULT_DATAROOM`, rte_mbuf_core.h.
const ROOM_LEAST: u32 = 2048;

/// A driver that keeps the mbufs of its fill and completion rings when it is closed, and the size
/// of those rings. Source: `ETH_AF_XDP_DFLT_NUM_DESCS`, rte_eth_af_xdp.c, DPDK 22.11.
const KEEPER: (&str, u64) = ("net_af_xdp", 2 * 2048);

/// Drivers that receive a packet and then drop it if no mbuf, or no replacement mbuf, is free. With
/// others `rx_nombuf` counts failed attempts, tens of them for a packet that is not lost. Source:
/// pcap_ethdev.c, rte_eth_tap.c, hn_rxtx.c, mlx4_rxtx.c and mlx5_rx.c, DPDK 22.11.
const LOSES_WITHOUT_MBUF: [&str; 5] = ["net_pcap", "net_tap", "net_netvsc", "net_mlx4", "mlx5_pci"];

/// Memory of any node. Source: `SOCKET_ID_ANY`, rte_memory.h.
const ANY_NODE: i32 = -1;

/// Properties of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The driver's name.
    pub driver: String,
    /// Its MTU: bytes behind an Ethernet header.
    pub mtu: u16,
    /// Descriptors of a receive queue.
    pub rx_ring: u16,
    /// Whether the card counts packets, before they are in our memory. Otherwise the driver counts
    /// them when they are taken.
    pub is_hardware: bool,
    /// Whether a packet is lost each time that no mbuf is free. If not, the packet stays in place,
    /// and the driver retries.
    pub loses_without_mbuf: bool,
    /// The offloads it does for us.
    pub offloads: Offloads,
}

/// A device to open, and the options for starting EAL.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRequest<'a> {
    /// The device.
    pub options: &'a DeviceOptions,
    /// Options of EAL, if it does not run yet.
    pub eal: &'a EalOptions,
}

/// Another device, to receive into the same pool if the two are alike.
enum Mate {
    None,
    /// It will be opened next.
    Expected,
    Is(Arc<Device>),
}

impl Mate {
    /// Returns the pool of a device that has room for this one's mbufs.
    fn pool_for(&self, raw: &ffi::Device, options: &DeviceOptions, node: i32) -> Option<Arc<Pool>> {
        let Self::Is(device) = self else { return None };
        let has_room = device.has_mate
            && (device.options.mbufs, options.mbufs) == (None, None)
            && options.queues <= device.options.queues
            && descriptors(raw) <= descriptors(&device.raw);
        let room = |raw: &ffi::Device| room_of(u32::from(raw.mtu));
        let is_alike = device.node == node
            && room(&device.raw) == room(raw)
            && device.facts.driver != KEEPER.0
            && driver_name(raw) != KEEPER.0;
        if has_room && is_alike { lock(&device.pools).first().map(Arc::clone) } else { None }
    }
}

/// Queues that have an owner.
#[derive(Debug, Default)]
struct Owned {
    receivers: Vec<u16>,
    exits: Vec<u16>,
}

/// A started device. It is closed when the last of its queues is dropped.
#[derive(Debug)]
pub struct Device {
    options: DeviceOptions,
    facts: DeviceFacts,
    raw: ffi::Device,
    node: i32,
    /// The network namespace of its interface, if it has one.
    network: Arc<Network>,
    /// A socket made in that namespace, to query its interfaces from any other.
    in_network: Option<UnixDatagram>,
    exits: u16,
    /// Whether its pool has room for the mbufs of another device.
    has_mate: bool,
    /// Held during a control call: a device supports one at a time. Source: rte_ethdev.h.
    control: Mutex<Counted>,
    kernel: Mutex<KernelLosses>,
    owned: Mutex<Owned>,
    pools: Mutex<Vec<Arc<Pool>>>,
}

static OPEN: Mutex<Vec<Weak<Device>>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Opens a device, or returns it if already open with these options. Starts EAL if needed.
    ///
    /// Cost: tens of milliseconds; the first time as long as EAL takes to load its drivers.
    ///
    /// # Errors
    /// Errors from EAL or the driver.
    pub fn open(options: &DeviceOptions, eal: &EalOptions) -> Result<Arc<Self>, DpdkError> {
        Self::open_with(options, eal, Mate::None)
    }

    /// Opens two devices that send each other's packets. If they are alike, and no address sets the
    /// number of mbufs, both receive into one pool. Then forwarded packets return to the pool that
    /// serves the next ones, and half as much memory is in the cache.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_both(
        first: &DeviceRequest<'_>,
        second: &DeviceRequest<'_>,
    ) -> Result<[Arc<Self>; 2], DpdkError> {
        let one = Self::open_with(first.options, first.eal, Mate::Expected)?;
        let other = Self::open_with(second.options, second.eal, Mate::Is(Arc::clone(&one)))?;
        Ok([one, other])
    }

    fn open_with(
        options: &DeviceOptions,
        eal: &EalOptions,
        mate: Mate,
    ) -> Result<Arc<Self>, DpdkError> {
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
        let device = Arc::new(eal::on_control(move || Self::start(wanted, network, &mate))?);
        open.push(Arc::downgrade(&device));
        Ok(device)
    }

    /// Runs on the control thread.
    fn start(options: DeviceOptions, network: Network, mate: &Mate) -> Result<Self, DpdkError> {
        network.enter();
        let (before, unused_paths) = (OpenSockets::now(), Unused::of(&options.devargs));
        let raw = probe(&options)?;
        pool::device_opened();
        let mut unused = None;
        let set_up = Self::set_up(options, raw, network, &before, mate, &mut unused);
        let device = set_up.inspect_err(|_| {
            // SAFETY: it was probed, and nothing else knows of it.
            unsafe { ffi::shim_close(raw.port, 0) };
            unused.into_iter().for_each(pool::retire);
            pool::device_closed();
        })?;
        sockets::opened(device.devargs(), &unused_paths);
        Ok(device)
    }

    /// On a failure after the pool was made, leaves the pool in `unused`, to retire after closing.
    fn set_up(
        options: DeviceOptions,
        mut raw: ffi::Device,
        network: Network,
        sockets: &OpenSockets,
        mate: &Mate,
        unused: &mut Option<Arc<Pool>>,
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
        let pool = match mate.pool_for(&raw, &options, plan.node) {
            Some(pool) => pool,
            None => own_pool(&raw, &options, plan.node, mate)?,
        };
        let before = Statistics::read(raw.port).unwrap_or_default();
        // SAFETY: it was probed and configured; the pool is retired only after the device was
        // closed.
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
            has_mate: matches!(mate, Mate::Expected),
            control: Mutex::new(Counted::new(before)),
            kernel: Mutex::new(kernel),
            owned: Mutex::default(),
            pools: Mutex::new(vec![pool]),
        })
    }

    /// Returns its properties.
    pub fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    /// Returns its name and arguments.
    pub fn devargs(&self) -> &str {
        &self.options.devargs
    }

    /// Returns the number of receive queues.
    pub fn queues(&self) -> u16 {
        self.options.queues
    }

    /// Returns its counts since it was opened. Cost: depends on the driver; reads over the bus for
    /// a card. Waits for another thread's control call.
    pub fn statistics(&self) -> Statistics {
        let mut counted = lock(&self.control);
        counted.see(Statistics::read(self.raw.port))
    }

    /// Packets lost in the kernel before an unaware driver, since the device was opened. `None` if
    /// there is no kernel in front of the driver. Cost: system calls for each queue.
    pub fn kernel_lost(&self) -> Option<u64> {
        lock(&self.kernel).packets()
    }

    /// Returns the driver's own counters that are not 0, as `name=value`, a space after each.
    pub fn extended_statistics(&self) -> String {
        let mut text = vec![0; 4096];
        let _one_call = lock(&self.control);
        // SAFETY: the shim writes at most as many bytes as the given length.
        let length = unsafe { ffi::shim_xstats(self.raw.port, text.as_mut_ptr(), text.len()) };
        text.truncate(length);
        String::from_utf8_lossy(&text).into_owned()
    }

    /// Whether there is a link; for a device without one, whether its other end exists.
    pub fn is_up(&self) -> bool {
        let _one_call = lock(&self.control);
        // SAFETY: the device is open.
        unsafe { ffi::shim_link(self.raw.port) > 0 }
    }

    /// Whether it was unplugged or its interface was deleted.
    pub fn is_gone(&self) -> bool {
        let _one_call = lock(&self.control);
        let socket = self.in_network.as_ref().map_or(-1, |socket| socket.as_raw_fd());
        // SAFETY: the device is open; an invalid descriptor only makes the query fail.
        unsafe { ffi::shim_is_gone(self.raw.port, self.raw.interface, socket) }
    }

    /// Packets in a send queue that the other end has not taken yet.
    pub(crate) fn untaken(&self, exit: u16) -> u64 {
        let _one_call = lock(&self.control);
        // SAFETY: the device is open.
        unsafe { ffi::shim_untaken(self.raw.port, exit) }.into()
    }

    pub(crate) fn port(&self) -> u16 {
        self.raw.port
    }

    /// Returns the addresses of the mbufs that it receives into.
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

    /// Takes the first free send queue.
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

    /// Makes a pool to send from, which lives as long as the device.
    pub(crate) fn pool_to_send(self: &Arc<Self>) -> Result<*mut ffi::Mempool, DpdkError> {
        let mbufs = (u32::from(self.raw.tx_ring) + 2048).next_power_of_two() - 1;
        let (raw, devargs, node) = (self.raw, self.options.devargs.clone(), self.node);
        let pool = eal::on_control(move || new_pool(&raw, &devargs, mbufs, node))?;
        let pointer = pool.as_ptr();
        lock(&self.pools).push(Arc::new(pool));
        Ok(pointer)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let (port, queues) = (self.raw.port, self.options.queues);
        let pools = std::mem::take(&mut *lock(&self.pools));
        let (network, devargs) = (Arc::clone(&self.network), self.options.devargs.clone());
        eal::on_control(move || {
            network.enter();
            // SAFETY: this was the last reference, so nothing sends or receives on it.
            unsafe { ffi::shim_close(port, queues) };
            sockets::closed(&devargs);
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
    // SAFETY: EAL runs, the string ends with a 0, and `raw` is written only during the call.
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
        let action = "check checksums";
        let reason = format!("{} cannot: leave out checksums=", driver_name(raw));
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

/// Bytes of an mbuf with room for any packet of this MTU, and at least the usual size.
fn room_of(mtu: u32) -> u16 {
    let room = (mtu + FRAME_EXTRA).next_multiple_of(64).max(ROOM_LEAST) + HEADROOM;
    room.min(u32::from(u16::MAX)) as u16
}

/// Makes a pool to receive into, for all queues of a device and of its mate.
fn own_pool(
    raw: &ffi::Device,
    options: &DeviceOptions,
    node: i32,
    mate: &Mate,
) -> Result<Arc<Pool>, DpdkError> {
    let devices = if matches!(mate, Mate::Expected) { 2 } else { 1 };
    let queues = u32::from(options.queues) * devices;
    let enough = (queues * descriptors(raw) + 4096).next_power_of_two() - 1;
    let mbufs = options.mbufs.unwrap_or(enough);
    let mut pool = new_pool(raw, &options.devargs, mbufs, node)?;
    if driver_name(raw) == KEEPER.0 {
        pool.allow(u64::from(options.queues) * KEEPER.1);
    }
    Ok(Arc::new(pool))
}

/// Descriptors of a pair of queues.
fn descriptors(raw: &ffi::Device) -> u32 {
    u32::from(raw.rx_ring) + u32::from(raw.tx_ring)
}

fn new_pool(raw: &ffi::Device, device: &str, mbufs: u32, node: i32) -> Result<Pool, DpdkError> {
    let room = room_of(u32::from(raw.mtu));
    // net_af_xdp gives its mbufs to the kernel unchanged, and the kernel takes none longer than a
    // page. If there is no memory for the best layout, the next best is better than no device.
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
pub(crate) mod tests {
    use super::*;
    use crate::Rss;

    /// Held by a test during which no other may have a device open.
    pub(crate) static TURN: Mutex<()> = Mutex::new(());

    /// The process has one EAL, for all tests. A pool takes 34 MiB, and several are alive at once.
    pub(crate) fn eal() -> EalOptions {
        EalOptions { huge: Some(false), memory_mib: Some(512), ..EalOptions::default() }
    }

    pub(crate) fn options(number: u32, mbufs: Option<u32>) -> DeviceOptions {
        DeviceOptions {
            devargs: format!("net_null{number}"),
            queues: 1,
            ring: 256,
            mtu: None,
            mbufs,
            checksums: false,
            rss: Rss::default(),
            times: false,
            node: None,
        }
    }

    #[test]
    fn two_that_are_alike_receive_into_one_pool() {
        let _turn = lock(&TURN);
        let eal = eal();
        let open = |number: u32, other: DeviceOptions| {
            let one = options(number, None);
            let first = DeviceRequest { options: &one, eal: &eal };
            let second = DeviceRequest { options: &other, eal: &eal };
            let devices = Device::open_both(&first, &second);
            let devices = devices.unwrap();
            let [one, other] = devices.each_ref().map(|device| device.home().pool);
            (one == other, devices)
        };
        assert!(open(80, options(81, None)).0);
        assert!(!open(82, options(83, Some(1023))).0);
        assert!(!open(84, DeviceOptions { mtu: Some(3000), ..options(85, None) }).0);
        assert!(!open(86, DeviceOptions { queues: 2, ..options(87, None) }).0);
        // Whichever device closes first, the pool lives as long as one of them is open.
        let (is_one, [first, second]) = open(88, options(89, None));
        drop(first);
        let mut receiver = crate::Receiver::new(&second, 0, 32).unwrap();
        assert_eq!((is_one, receiver.poll(32)), (true, 32));
        drop((receiver, second));
        assert_eq!(pool::leaked_mbufs(), 0);
    }
}

//! Reads the features of an interface's driver, by queries that disturb nothing and need no
//! privilege.
//!
//! ```text
//!   generic netlink, family netdev   XDP in the driver, zero-copy, several buffers    Linux 6.3
//!   SIOCETHTOOL                      driver, bus, VLAN offload, hardware timestamps, speed
//!   /sys/class/net/X/device          the NUMA node of the device
//! ```
//!
//! Source: Documentation/netlink/specs/netdev.yaml and include/uapi/linux/ethtool.h of Linux 6.18.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixDatagram;

use crate::interface::request;
use crate::memory::NodeId;
use crate::netlink::{self, attribute, find, half};
use crate::option::check;

/// XDP features of a driver. Source: `NETDEV_XDP_ACT_`, include/uapi/linux/netdev.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Whether programs can run in the driver.
    pub fn has_native(self) -> bool {
        self.0 & 1 != 0
    }

    /// Whether packets can be redirected to sockets and other interfaces.
    pub fn has_redirect(self) -> bool {
        self.0 & 1 << 1 != 0
    }

    /// Whether the device can write into a socket's memory itself.
    pub fn has_zero_copy(self) -> bool {
        self.0 & 1 << 3 != 0
    }

    /// Whether programs can handle packets of several buffers.
    pub fn has_several_buffers(self) -> bool {
        self.0 & 1 << 5 != 0
    }
}

/// Known properties of a device. Unknown ones are `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Device {
    /// The driver's name.
    pub driver: Option<String>,
    /// Its bus address, as `0000:01:00.0`. `None` for a software device.
    pub bus: Option<String>,
    /// Its NUMA node.
    pub node: Option<NodeId>,
    /// The driver's XDP features. Linux 6.3.
    pub xdp: Option<XdpFeatures>,
    /// Whether the device strips VLAN tags.
    pub strips_vlan_tags: Option<bool>,
    /// Whether the device can timestamp received packets.
    pub has_hardware_timestamps: Option<bool>,
    /// Current and maximum frames of the driver's receive ring.
    pub receive_ring: Option<(u32, u32)>,
}

impl Device {
    /// Queries an interface of the calling thread's network namespace.
    pub fn ask(name: &str, interface_index: u32) -> Self {
        let socket = UnixDatagram::unbound().ok();
        let socket = socket.as_ref();
        let driver = socket.and_then(|socket| driver(socket, name));
        let (driver, bus) = driver.map_or((None, None), |(driver, bus)| (Some(driver), bus));
        let node = bus.as_ref().and_then(|_| node(name));
        Self {
            driver,
            bus,
            node,
            xdp: xdp_features(interface_index).ok(),
            strips_vlan_tags: socket.and_then(|socket| strips_vlan_tags(socket, name).ok()),
            has_hardware_timestamps: socket
                .and_then(|socket| has_hardware_timestamps(socket, name).ok()),
            receive_ring: socket.and_then(|socket| receive_ring(socket, name).ok()),
        }
    }
}

/// Source: `struct genlmsghdr`, include/uapi/linux/genetlink.h: command, version, 2 of padding.
const GENERIC_BYTES: usize = 4;
/// The generic netlink controller. Source: GENL_ID_CTRL, CTRL_CMD_GETFAMILY, CTRL_ATTR_FAMILY_.
const CONTROL: u16 = 0x10;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Source: NETDEV_CMD_DEV_GET, NETDEV_A_DEV_, include/uapi/linux/netdev.h.
const DEVICE_GET: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP_FEATURES: u16 = 3;

/// Queries a driver's XDP features. `ENOENT` before Linux 6.3, `ENODEV` without such an interface.
pub fn xdp_features(interface_index: u32) -> io::Result<XdpFeatures> {
    let family = generic(CONTROL, GET_FAMILY, &attribute(FAMILY_NAME, b"netdev\0"))?;
    let family = find(&family, |kind| kind == FAMILY_ID).and_then(half);
    let family = family.ok_or_else(netlink::malformed)?;
    let which = attribute(DEVICE_INDEX, &interface_index.to_ne_bytes());
    let answer = generic(family, DEVICE_GET, &which)?;
    let bits = find(&answer, |kind| kind == DEVICE_XDP_FEATURES).and_then(<[u8]>::first_chunk);
    bits.map(|&bits| XdpFeatures(u64::from_ne_bytes(bits))).ok_or_else(netlink::malformed)
}

/// Returns the link speed of an interface of the calling thread's network namespace, in Mbit/s;
/// `None` if unknown.
pub fn link_megabits(name: &str) -> Option<u64> {
    let socket = UnixDatagram::unbound().ok()?;
    let mut settings = [0_u32; 11];
    settings[0] = SETTINGS;
    // SAFETY: `struct ethtool_cmd`, 44 bytes, which this request fills in.
    unsafe { ethtool(&socket, name, &mut settings) }.ok()?;
    // `speed` and `speed_hi`, each the first half of its word. Source: ethtool_cmd_speed().
    let half = |word: u32| {
        let [first, second, ..] = word.to_ne_bytes();
        u32::from(u16::from_ne_bytes([first, second]))
    };
    let megabits = half(settings[7]) << 16 | half(settings[3]);
    (megabits > 0 && !SPEED_UNKNOWN.contains(&megabits)).then(|| megabits.into())
}

/// Work that the kernel leaves to a device for packets it sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SendOffloads {
    /// Checksums of TCP and UDP are not filled in yet.
    pub checksums: bool,
    /// Packets may be longer than the MTU, to be cut into segments.
    pub segments: bool,
}

/// Returns the send offloads of an interface of the calling thread's network namespace; `None` if
/// its driver does not report them. A software device leaves this work undone.
pub fn send_offloads(name: &str) -> Option<SendOffloads> {
    let socket = UnixDatagram::unbound().ok()?;
    let is_on = |question: u32| {
        let mut value = [question, 0];
        // SAFETY: `struct ethtool_value`, which this request fills in.
        unsafe { ethtool(&socket, name, &mut value) }.ok()?;
        Some(value[1] != 0)
    };
    Some(SendOffloads { checksums: is_on(SEND_CHECKSUMS)?, segments: is_on(SEND_SEGMENTS)? })
}

/// Returns the number of active receive queues of an interface in the namespace of `socket`.
///
/// # Errors
/// Errors from the kernel; many drivers cannot report it.
pub fn receive_queues(socket: impl AsFd, name: &str) -> io::Result<u32> {
    let mut channels = [0_u32; 9];
    channels[0] = CHANNELS;
    // SAFETY: `struct ethtool_channels`, 36 bytes, which this request fills in.
    unsafe { ethtool(socket, name, &mut channels) }?;
    // After the command and the four limits: receive, send, other, and combined.
    let [receiving, combined] = [channels[5], channels[8]];
    Ok(receiving + combined)
}

fn generic(family: u16, command: u8, attributes: &[u8]) -> io::Result<Vec<u8>> {
    let question = [&[command, 1, 0, 0][..], attributes].concat();
    let answer = netlink::ask(libc::NETLINK_GENERIC, family, &question)?;
    answer.get(GENERIC_BYTES..).map(<[u8]>::to_vec).ok_or_else(netlink::malformed)
}

/// Source: `ETHTOOL_`, include/uapi/linux/ethtool.h; sockios.h.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const SETTINGS: u32 = 0x01;
const DRIVER_INFO: u32 = 0x03;
const RING_SIZES: u32 = 0x10;
const SEND_CHECKSUMS: u32 = 0x16;
const SEND_SEGMENTS: u32 = 0x1e;
const FLAGS: u32 = 0x25;
const CHANNELS: u32 = 0x3c;
const FLAG_RX_VLAN: u32 = 1 << 8;
const TIMESTAMP_INFO: u32 = 0x41;
/// Drivers that do not know the speed report this value, in 32 bits or in 16.
const SPEED_UNKNOWN: [u32; 2] = [u32::MAX, 0xffff];
/// Raw hardware timestamps, on receive. Source: `SOF_TIMESTAMPING_`, net_tstamp.h.
const RX_HARDWARE: u32 = 1 << 2 | 1 << 6;

/// `struct ethtool_drvinfo`: name, version, firmware, bus, and fields not used here.
#[repr(C)]
struct DriverInfo {
    command: u32,
    texts: [[u8; 32]; 5],
    others: [u32; 8],
}

const _: () = assert!(size_of::<DriverInfo>() == 196);

fn driver(socket: &UnixDatagram, name: &str) -> Option<(String, Option<String>)> {
    let mut info = DriverInfo { command: DRIVER_INFO, texts: [[0; 32]; 5], others: [0; 8] };
    // SAFETY: `struct ethtool_drvinfo`, which this request fills in.
    unsafe { ethtool(socket, name, &mut info) }.ok()?;
    let text = |bytes: &[u8]| {
        let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let bus = text(&info.texts[3]);
    Some((text(&info.texts[0]), (!bus.is_empty() && bus != "N/A").then_some(bus)))
}

fn strips_vlan_tags(socket: &UnixDatagram, name: &str) -> io::Result<bool> {
    let mut value = [FLAGS, 0];
    // SAFETY: `struct ethtool_value`, which this request fills in.
    unsafe { ethtool(socket, name, &mut value) }?;
    Ok(value[1] & FLAG_RX_VLAN != 0)
}

fn has_hardware_timestamps(socket: &UnixDatagram, name: &str) -> io::Result<bool> {
    let mut info = [0_u32; 11];
    info[0] = TIMESTAMP_INFO;
    // SAFETY: `struct ethtool_ts_info`, 44 bytes, which this request fills in.
    unsafe { ethtool(socket, name, &mut info) }?;
    Ok(info[1] & RX_HARDWARE == RX_HARDWARE)
}

/// Source: `struct ethtool_ringparam`: four maxima (rx, mini, jumbo, tx), then the current sizes.
fn receive_ring(socket: &UnixDatagram, name: &str) -> io::Result<(u32, u32)> {
    let mut sizes = [0_u32; 9];
    sizes[0] = RING_SIZES;
    // SAFETY: `struct ethtool_ringparam`, 36 bytes, which this request fills in.
    unsafe { ethtool(socket, name, &mut sizes) }?;
    Ok((sizes[5], sizes[1]))
}

/// Makes one ethtool request about an interface of the namespace of `socket`. Any socket but an XDP
/// socket will do.
///
/// # Safety
/// `T` is the struct that the request, its first word, reads and fills in.
pub(crate) unsafe fn ethtool<T>(socket: impl AsFd, name: &str, question: &mut T) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut *question).cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the ioctl's request points to a live struct of the kind that the caller guarantees.
    check(unsafe { libc::ioctl(fd, SIOCETHTOOL as _, &raw mut request) }).map(drop)
}

/// `/sys` shows the namespace that it was mounted in, so we ask only for devices on a bus.
fn node(name: &str) -> Option<NodeId> {
    // A virtio device is a child of the bus device.
    let mut paths = ["device/numa_node", "device/../numa_node"].into_iter();
    let number =
        paths.find_map(|path| fs::read_to_string(format!("/sys/class/net/{name}/{path}")).ok())?;
    // A machine without nodes reports -1.
    number.trim().parse().ok().map(NodeId)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_is_made_of_software_and_has_no_native_mode() {
        let device = Device::ask("lo", 1);
        assert_eq!((device.bus, device.node), (None, None));
        // Linux reports this only since 6.3.
        assert_ne!(device.xdp.map(XdpFeatures::has_native), Some(true));
        assert_ne!(device.has_hardware_timestamps, Some(true));
    }

    #[test]
    fn an_interface_that_is_not_there_is_known_by_nothing() {
        assert_eq!(Device::ask("no-such-one", 1 << 30), Device::default());
        assert_eq!(send_offloads("no-such-one"), None);
    }

    #[test]
    fn a_veth_pair_has_a_speed_a_queue_and_work_left_to_it() {
        crate::tap::tests::in_namespace(|| {
            crate::tap::tests::ip("link add v0 type veth peer name v1");
            assert_eq!(link_megabits("v0"), Some(10_000));
            let all = SendOffloads { checksums: true, segments: true };
            assert_eq!(send_offloads("v0"), Some(all));
            let socket = UnixDatagram::unbound().unwrap();
            assert!(receive_queues(&socket, "v0").unwrap() >= 1);
        });
    }
}

//! What may be asked of a device when it is opened.

/// Bytes of a key of ours; cards that take longer ones do not use the rest for IPv4, IPv6, TCP and
/// UDP. Source: Microsoft, "RSS Hashing Functions": 36 bytes of input, a window of 32 bits.
pub const RSS_KEY_BYTES: usize = 40;

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

/// Whether packets are spread over queues by a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rss {
    /// With several queues, where the device can do that, and with the driver's own key.
    #[default]
    AsItCan,
    /// Never.
    Off,
    /// With this key, by one queue too; a device that cannot is refused.
    Keyed([u8; RSS_KEY_BYTES]),
}

//! Options for opening a device.

/// Bytes of our key. Cards with longer keys do not use the rest for IPv4, IPv6, TCP and UDP.
/// Source: Microsoft, "RSS Hashing Functions": 36 bytes of input, a window of 32 bits.
pub const RSS_KEY_BYTES: usize = 40;

/// Options for opening a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Its name and arguments, in the format of EAL's `--vdev` or `--allow`.
    pub devargs: String,
    /// Receive queues, with as many send queues as the device has.
    pub queues: u16,
    /// Descriptors of each queue; the device may adjust it.
    pub ring: u16,
    /// The MTU: bytes behind an Ethernet header. `None` for the device's own.
    pub mtu: Option<u16>,
    /// Mbufs to receive into. `None` for enough for the rings and for lent packets.
    pub mbufs: Option<u32>,
    /// Whether the device checks the checksums that it can.
    pub checksums: bool,
    /// Whether packets are spread over the queues by a hash.
    pub rss: Rss,
    /// Whether the device timestamps packets.
    pub times: bool,
    /// The NUMA node of its pools. `None` for the device's own.
    pub node: Option<u32>,
}

/// Whether packets are spread over queues by a hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rss {
    /// With several queues, if the device can, with the driver's own key.
    #[default]
    AsItCan,
    /// Never.
    Off,
    /// With this key, even for one queue; a device that cannot is refused.
    Keyed([u8; RSS_KEY_BYTES]),
}

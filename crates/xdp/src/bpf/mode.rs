//! Where an XDP program runs.

/// Where in the packets' way an XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver if it can do that, otherwise generic.
    #[default]
    Auto,
    /// In the driver, before there is anything around the packet.
    Native,
    /// In the network stack: on any interface, and slower.
    Generic,
}

impl XdpMode {
    /// Source: `XDP_FLAGS_`, include/uapi/linux/if_link.h.
    pub(super) fn flags(self) -> u32 {
        match self {
            Self::Auto => 0,
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// The program that is on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its number, for [`Program::from_id`](super::Program::from_id).
    pub program_id: u32,
    /// Where it runs; [`XdpMode::Auto`] if that is neither of the two, but the device itself.
    pub mode: XdpMode,
}

//! Execution modes of XDP programs.

/// Where on the receive path an XDP program runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver if it supports XDP, otherwise generic.
    #[default]
    Auto,
    /// In the driver, before the kernel builds an sk_buff.
    Native,
    /// In the network stack: works on any interface, but slower.
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

/// The program attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Its number, for [`Program::from_id`](super::Program::from_id).
    pub program_id: u32,
    /// Where it runs; [`XdpMode::Auto`] if it runs in the device itself.
    pub mode: XdpMode,
}

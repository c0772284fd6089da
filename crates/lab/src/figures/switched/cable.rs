//! What is between the load and who is measured: rings in memory that both have.

use crate::programs::{Device, Peer};

/// Two of them, a socket each. Who is measured makes the sockets, except Open vSwitch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cable {
    /// The rings of a guest's card, in the guest's memory: the load is the guest.
    VhostUser,
    /// Those of memif, in the client's memory: the load is the client. It lends its buffers as they
    /// are, so that all copies are the measured core's.
    Memif,
}

impl Cable {
    /// The load's port.
    pub(super) fn far_end(self, socket: String, is_server: bool) -> Device {
        let peer = Peer { socket, is_server };
        match self {
            Self::VhostUser => Device::Guest(peer),
            Self::Memif => Device::Memif(peer),
        }
    }

    /// The port of a testpmd that is measured.
    pub(super) fn near_end(self, socket: String) -> Device {
        let peer = Peer { socket, is_server: true };
        match self {
            Self::VhostUser => Device::Vhost(peer),
            Self::Memif => Device::Memif(peer),
        }
    }

    /// Our port.
    pub(super) fn address(self, socket: &str) -> String {
        match self {
            Self::VhostUser => format!("vhost:{socket}"),
            Self::Memif => format!("memif:{socket}"),
        }
    }
}

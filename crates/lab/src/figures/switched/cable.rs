//! The connection between the load and the measured side: rings in shared memory.

use crate::programs::{Device, Peer};

/// Two connections, a socket each. The measured side creates the sockets, except for Open vSwitch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cable {
    /// The rings of a guest's card in the guest's memory; the load is the guest.
    VhostUser,
    /// memif rings in the client's memory; the load is the client. It lends its buffers without
    /// copying, so the measured core makes all copies.
    Memif,
}

impl Cable {
    /// Returns the load's port.
    pub(super) fn far_end(self, socket: String, is_server: bool) -> Device {
        let peer = Peer { socket, is_server };
        match self {
            Self::VhostUser => Device::Guest(peer),
            Self::Memif => Device::Memif(peer),
        }
    }

    /// Returns the port of a testpmd that is measured.
    pub(super) fn near_end(self, socket: String) -> Device {
        let peer = Peer { socket, is_server: true };
        match self {
            Self::VhostUser => Device::Vhost(peer),
            Self::Memif => Device::Memif(peer),
        }
    }

    /// Returns the address of our port.
    pub(super) fn address(self, socket: &str) -> String {
        match self {
            Self::VhostUser => format!("vhost:{socket}"),
            Self::Memif => format!("memif:{socket}"),
        }
    }
}

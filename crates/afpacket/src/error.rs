//! Errors of opening a packet socket, in one line each, with the remedy.

use std::io;

use burstline_sys::interface::InterfaceError;
use burstline_sys::machine::program;

/// Why a packet socket could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AfPacketError {
    /// The interface was not found.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The process may not open packet sockets.
    #[error(
        "packet sockets need CAP_NET_RAW: sudo setcap cap_net_raw+ep {program}, \
         or run it in a user namespace: unshare -Urn"
    )]
    NotPermitted {
        /// The path of this program.
        program: String,
    },
    /// The requested ring is invalid.
    #[error(
        "a ring of {blocks} blocks of {block_bytes} bytes: a block is a power of two from 4 KiB to \
         1 GiB, there are 2 to 65536 of them, and all together are below 4 GiB"
    )]
    BadRing {
        /// Bytes of a block.
        block_bytes: usize,
        /// The requested blocks.
        blocks: usize,
    },
    /// The requested tx ring is invalid.
    #[error("a ring of {slots} slots: their number is a power of two from 64 to 65536")]
    BadTxRing {
        /// The requested slots.
        slots: usize,
    },
    /// The kernel has no memory for the ring.
    #[error("{interface}: no memory for a ring of {bytes} bytes; ask for fewer or smaller blocks")]
    NoMemory {
        /// The interface.
        interface: String,
        /// The requested bytes.
        bytes: usize,
    },
    /// The filter is too long.
    #[error("a filter of {instructions} instructions; the kernel accepts 1 to {most}")]
    BadFilter {
        /// Instructions of the filter.
        instructions: usize,
        /// The maximum.
        most: usize,
    },
    /// The inherited descriptor is not a suitable packet socket.
    #[error(
        "descriptor {number}: {source}; it must be socket(AF_PACKET, SOCK_RAW, 0), unbound and \
         kept open across exec"
    )]
    BadInherited {
        /// Its number.
        number: i32,
        /// What is wrong.
        source: io::Error,
    },
    /// Any other system call that failed.
    #[error("{interface}: {call}: {source}")]
    System {
        /// The interface.
        interface: String,
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl AfPacketError {
    /// Wraps the error of `call` on `interface`, for use in `map_err`.
    pub(super) fn system(interface: &str, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        let interface = interface.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { program: program() },
            _ => Self::System { interface, call, source },
        }
    }

    /// Wraps the error of `call`, which requested a ring of `bytes` bytes.
    pub(super) fn no_ring(
        interface: &str,
        call: &'static str,
        bytes: usize,
    ) -> impl FnOnce(io::Error) -> Self {
        let interface = interface.to_owned();
        move |source| match source.raw_os_error() {
            Some(libc::ENOMEM) => Self::NoMemory { interface, bytes },
            _ => Self::System { interface, call, source },
        }
    }
}

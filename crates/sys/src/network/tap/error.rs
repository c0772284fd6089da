//! Errors of opening a device, in one line each, with the remedy.

use std::io;

use crate::machine::program;

/// Why a TAP device could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TapError {
    /// The kernel has no driver for such devices, or this process may not see it.
    #[error("/dev/net/tun: {source}: sudo modprobe tun; a container needs --device /dev/net/tun")]
    NoDriver {
        /// The kernel's error.
        source: io::Error,
    },
    /// The process may not make interfaces.
    #[error(
        "tap devices need CAP_NET_ADMIN: sudo setcap cap_net_admin+ep {program}, or run it in a \
         user namespace: unshare -Urn"
    )]
    NotPermitted {
        /// The path of this program.
        program: String,
    },
    /// Another process has the device.
    #[error("{name}: another process has opened this tap device")]
    Busy {
        /// Its name.
        name: String,
    },
    /// The name is invalid, or belongs to another kind of interface.
    #[error(
        "{name}: the kernel refuses to open it as a tap device with {queues} queues: another kind \
         of interface, or one with another number of queues, may have the name (ip tuntap)"
    )]
    NotATap {
        /// The name.
        name: String,
        /// The requested queues.
        queues: u32,
    },
    /// Any other system call that failed.
    #[error("{name}: {call}: {source}")]
    System {
        /// The device.
        name: String,
        /// The attempted call.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TapError {
    /// Wraps the error of `call` on `name`, for use in `map_err`.
    pub(super) fn system(name: &str, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        let name = name.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotPermitted { program: program() },
            _ => Self::System { name, call, source },
        }
    }
}

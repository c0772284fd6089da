//! Errors of ports. Each message is one line that includes the numbers, and a fix if there is one.

use std::io;
use std::path::PathBuf;

use burstline_wire::headers::LinkType;

use crate::{AddressError, FilterProblem, Loss};

/// Why a port could not be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The address is invalid.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The port is not a source.
    #[error("{port} cannot receive")]
    CannotReceive {
        /// Its address.
        port: String,
    },
    /// The port is not a sink.
    #[error("{port} cannot send")]
    CannotTransmit {
        /// Its address.
        port: String,
    },
    /// A file or device operation failed.
    #[error("{action} {}: {error}", path.display())]
    Io {
        /// What was tried: "open", "read", "write to".
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// It is not a capture file.
    #[error("{}: {reason}", path.display())]
    NotACapture {
        /// Which file.
        path: PathBuf,
        /// What it contains instead.
        reason: String,
    },
    /// An output ended early. The file is intact and readable up to `bytes`.
    #[error(
        "write to {}: {error}: {kept_packets} packets in {bytes} bytes are {}",
        path.display(), if *is_synced { "safe" } else { "in the file, not synced" }
    )]
    OutputFailed {
        /// Which output.
        path: PathBuf,
        /// The system's error: `ENOSPC` for a full disk, `EPIPE` for a reader that has exited.
        error: io::Error,
        /// Packets that are certainly in it.
        kept_packets: u64,
        /// Its size now, at the end of a block.
        bytes: u64,
        /// Whether these are synced; data that a pipe took counts as synced.
        is_synced: bool,
    },
    /// The output would overwrite the input, or another output.
    #[error("this job already reads or writes {}: choose another output", path.display())]
    SameFile {
        /// Which file.
        path: PathBuf,
    },
    /// More interfaces than port numbers in descs.
    #[error(
        "{port} has interface number {number}: at most {most} sources per run; split the input"
    )]
    TooManyInterfaces {
        /// Its address.
        port: String,
        /// The number that it would have got.
        number: usize,
        /// The maximum number.
        most: usize,
    },
    /// The filter cannot be used on packets of this link type.
    #[error("{port}, link type {}: {problem}", link.0)]
    Filter {
        /// The source's address.
        port: String,
        /// The link type.
        link: LinkType,
        /// Why.
        problem: FilterProblem,
    },
    /// An interface was not found.
    #[error(transparent)]
    Interface(#[from] burstline_sys::interface::InterfaceError),
    /// A packet socket could not be opened.
    #[error(transparent)]
    AfPacket(#[from] burstline_afpacket::AfPacketError),
    /// An XDP socket could not be opened, or cannot go on.
    #[error(transparent)]
    Xdp(#[from] burstline_xdp::XdpError),
    /// An XDP program could not be loaded or attached.
    #[error(transparent)]
    Bpf(#[from] burstline_xdp::bpf::BpfError),
    /// Packets could not be injected into an interface.
    #[error(transparent)]
    Inject(#[from] burstline_xdp::inject::InjectError),
    /// A TAP device could not be opened.
    #[error(transparent)]
    Tap(#[from] burstline_sys::tap::TapError),
    /// The device is already open in this role.
    #[error("{port}: this program already uses the device in this direction")]
    DeviceTaken {
        /// The address.
        port: String,
    },
    /// The device is already open with other settings.
    #[error("{port}: the device is already open with other settings: use the same for both ports")]
    DeviceDiffers {
        /// The address.
        port: String,
    },
    /// A port to a process that shares memory with us could not be opened.
    #[error(transparent)]
    Peer(#[from] burstline_peer::AttendError),
    /// DPDK or one of its drivers reports an error.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Dpdk(#[from] burstline_dpdk::DpdkError),
    /// This program was built without DPDK, which is optional.
    #[error("{port}: built without DPDK: make dpdk builds a program with it")]
    WithoutDpdk {
        /// The address.
        port: String,
    },
    /// The host would lose packets that it depends on.
    #[error(
        "{port} takes packets away from the host, and {reason}: use afpacket:{interface}, or \
         --steal to do it anyway, with --only EXPR to take only some"
    )]
    WouldSteal {
        /// Its name.
        interface: String,
        /// Why not.
        reason: String,
        /// The address.
        port: String,
    },
    /// A single port was requested.
    #[error("{port} has {queues} receive queues, one port each: name one, e.g. xdp:eth0@0")]
    SeveralQueues {
        /// The address.
        port: String,
        /// How many.
        queues: usize,
    },
    /// The interface no longer exists. Packets delivered before are in the account.
    #[error("{interface} is gone: it was deleted, or moved to another network namespace")]
    InterfaceGone {
        /// Its last name.
        interface: String,
    },
    /// The interface's link type is not supported.
    #[error(
        "{interface}: hardware type {hardware_type} is not supported: Ethernet, loopback and bare \
         IP are"
    )]
    UnknownLink {
        /// Its name.
        interface: String,
        /// Its `ARPHRD_` number.
        hardware_type: u16,
    },
    /// A published log cannot be read.
    #[error("{error}{near}")]
    Log {
        /// Why not.
        #[source]
        error: burstline_share::ShareError,
        /// Similar names that exist, or empty.
        near: String,
    },
    /// A simulated card could not be built.
    #[error("{port}: {error}")]
    Card {
        /// Its address.
        port: String,
        /// Why not.
        #[source]
        error: burstline_nicsim::CardError,
    },
    /// The device of a simulated card stopped during a run.
    #[error("{port}: the simulated card's thread panicked; the packets on the card are lost")]
    CardDied {
        /// Its address.
        port: String,
    },
    /// The log that a sink publishes could not be created.
    #[error(transparent)]
    LogMemory(#[from] burstline_log::CreateError),
    /// The fault injector failed, as requested.
    #[error("{port}: injected failure after {packets} packets")]
    Injected {
        /// Its address.
        port: String,
        /// Packets delivered before.
        packets: u64,
    },
}

impl PortError {
    /// Whether it only means that the pipe's reader has exited.
    pub fn is_pipe_closed(&self) -> bool {
        let broken = io::ErrorKind::BrokenPipe;
        matches!(self, Self::OutputFailed { error, .. } if error.kind() == broken)
    }

    /// Returns the cause of loss for packets that a sink cannot take because of this error.
    pub fn loss(&self) -> Loss {
        use io::ErrorKind::{BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull, TimedOut};
        match self {
            Self::OutputFailed { error, .. } | Self::Io { error, .. } => match error.kind() {
                BrokenPipe => Loss::PipeClosed,
                // A timeout of the kernel, such as on a network file system, is a different case.
                TimedOut if error.raw_os_error().is_none() => Loss::PipeFull,
                StorageFull | QuotaExceeded | FileTooLarge => Loss::DiskFull,
                _ => Loss::WriteError,
            },
            Self::InterfaceGone { .. } | Self::Xdp(_) | Self::Inject(_) => Loss::LinkDown,
            _ => Loss::WriteError,
        }
    }
}

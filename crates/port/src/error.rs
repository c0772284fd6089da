//! What can go wrong with a port. Each message is one line with the numbers, and the mend where
//! there is one.

use std::io;
use std::path::PathBuf;

use burstline_wire::headers::LinkType;

use crate::{AddressError, FilterProblem, Loss};

/// Why a port could not be opened, or cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PortError {
    /// The address makes no sense.
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
    /// A file or device said no.
    #[error("{action} {}: {error}", path.display())]
    Io {
        /// What was tried: "open", "read", "write to".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is not a capture file.
    #[error("{}: {reason}", path.display())]
    NotACapture {
        /// Which file.
        path: PathBuf,
        /// What is there instead.
        reason: String,
    },
    /// An output ended early. What is in the file before `bytes` is whole and can be read.
    #[error(
        "write to {}: {error}: {kept_packets} packets in {bytes} bytes are {}",
        path.display(), if *is_synced { "safe" } else { "in the file, not synced" }
    )]
    OutputFailed {
        /// Which output.
        path: PathBuf,
        /// What the system said: `ENOSPC` for a full disk, `EPIPE` for a reader that has gone.
        error: io::Error,
        /// Packets that are surely in it.
        kept_packets: u64,
        /// Its size now, at the end of a block.
        bytes: u64,
        /// Whether these are synced; what a pipe took counts as if it were.
        is_synced: bool,
    },
    /// The output would overwrite the input, or another output.
    #[error("this job already reads or writes {}: choose another output", path.display())]
    SameFile {
        /// Which file.
        path: PathBuf,
    },
    /// More interfaces than descs can tell apart.
    #[error(
        "{port} has interface number {number}: at most {most} sources per run; split the input"
    )]
    TooManyInterfaces {
        /// Its address.
        port: String,
        /// The number it would have got.
        number: usize,
        /// How many there can be.
        most: usize,
    },
    /// The filter cannot be used on packets of this link type.
    #[error("{port}, link type {}: {problem}", link.0)]
    Filter {
        /// The source's address.
        port: String,
        /// What its packets begin with.
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
    /// The device is open in this role.
    #[error("{port}: this program already uses the device in this direction")]
    DeviceTaken {
        /// The address.
        port: String,
    },
    /// The device is open already, with other settings.
    #[error("{port}: this program has opened the device with other settings: write the same twice")]
    DeviceDiffers {
        /// The address.
        port: String,
    },
    /// A port to a process that shares memory with us could not be opened.
    #[error(transparent)]
    Peer(#[from] burstline_peer::AttendError),
    /// DPDK or one of its drivers says no.
    #[cfg(feature = "dpdk")]
    #[error(transparent)]
    Dpdk(#[from] burstline_dpdk::DpdkError),
    /// This program can do without DPDK, and was built so.
    #[error("{port}: built without DPDK: make dpdk builds a program with it")]
    WithoutDpdk {
        /// The address.
        port: String,
    },
    /// The host would lose packets that it lives on.
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
    /// One port was asked for.
    #[error("{port} has {queues} receive queues, a port each: name one, e.g. xdp:eth0@0")]
    SeveralQueues {
        /// The address.
        port: String,
        /// How many.
        queues: usize,
    },
    /// The interface does not exist any more. All that it delivered before is in the account.
    #[error("{interface} is gone: it was deleted, or moved to another network namespace")]
    InterfaceGone {
        /// Its last name.
        interface: String,
    },
    /// What the interface's frames begin with is not known here.
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
        /// Names like the one that is missing, or nothing.
        near: String,
    },
    /// A simulated card could not be put together.
    #[error("{port}: {error}")]
    Card {
        /// Its address.
        port: String,
        /// Why not.
        #[source]
        error: burstline_nicsim::CardError,
    },
    /// The device of a simulated card has stopped in mid-run.
    #[error("{port}: the simulated card's thread panicked; the packets on the card are lost")]
    CardDied {
        /// Its address.
        port: String,
    },
    /// The log that a sink publishes could not be made.
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
    /// Whether it only says that the pipe's reader has gone.
    pub fn is_pipe_closed(&self) -> bool {
        let broken = io::ErrorKind::BrokenPipe;
        matches!(self, Self::OutputFailed { error, .. } if error.kind() == broken)
    }

    /// What packets are lost to that a sink cannot take because of this.
    pub fn loss(&self) -> Loss {
        use io::ErrorKind::{BrokenPipe, FileTooLarge, QuotaExceeded, StorageFull, TimedOut};
        match self {
            Self::OutputFailed { error, .. } | Self::Io { error, .. } => match error.kind() {
                BrokenPipe => Loss::PipeClosed,
                // The kernel's own, as of a network file system, is another matter.
                TimedOut if error.raw_os_error().is_none() => Loss::PipeFull,
                StorageFull | QuotaExceeded | FileTooLarge => Loss::DiskFull,
                _ => Loss::WriteError,
            },
            Self::InterfaceGone { .. } | Self::Xdp(_) | Self::Inject(_) => Loss::LinkDown,
            _ => Loss::WriteError,
        }
    }
}

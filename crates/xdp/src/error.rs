//! Errors of XDP sockets, in one line each, with the remedy.

use std::io;

use burstline_sys::interface::InterfaceError;
use burstline_sys::machine::program;
use burstline_sys::memory::MemoryError;

/// Why an XDP socket could not be opened or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// The interface was not found.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// The interface has fewer receive queues.
    #[error("{interface} has {queues} receive queues, numbered from 0; there is no queue {queue}")]
    NoSuchQueue {
        /// The interface.
        interface: String,
        /// The requested queue.
        queue: u32,
        /// The number of queues.
        queues: u32,
    },
    /// The process may not open XDP sockets.
    #[error(
        "XDP sockets need CAP_NET_RAW, and their program CAP_BPF and CAP_NET_ADMIN: \
         sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw,cap_ipc_lock+ep {program}"
    )]
    NotPermitted {
        /// The path of this program.
        program: String,
    },
    /// The kernel was built without XDP sockets.
    #[error("this kernel has no XDP sockets (CONFIG_XDP_SOCKETS); use afpacket:{interface}")]
    NotSupported {
        /// The interface.
        interface: String,
    },
    /// The driver does not support zero-copy.
    #[error("{interface}: its driver cannot write into our memory; use copy=copy or copy=auto")]
    NoZeroCopy {
        /// The interface.
        interface: String,
    },
    /// Another process has the queue, and did not release it within two seconds.
    #[error("{interface}@{queue} is in use by another XDP socket; to see whose: ss --xdp -p")]
    Busy {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
    },
    /// The requested sizes are invalid.
    #[error(
        "{frames} frames of {frame_bytes} bytes and rings of {entries} entries: a frame has 2048 \
         or 4096 bytes, all others are powers of two from 64 to 1 Mi, the UMEM below 4 GiB"
    )]
    BadShape {
        /// Frames to receive into.
        frames: u32,
        /// Bytes of each.
        frame_bytes: u32,
        /// Entries of the smallest ring.
        entries: u32,
    },
    /// Pinned memory would exceed the process's limit.
    #[error(
        "{interface}: no memory for {bytes} bytes of frames, pinned: raise ulimit -l (now \
         {limit}), or cap_ipc_lock for this program, or frames=N with fewer"
    )]
    NoMemory {
        /// The interface.
        interface: String,
        /// Bytes requested.
        bytes: usize,
        /// The limit as text.
        limit: String,
    },
    /// The UMEM could not be created.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The kernel described an impossible packet.
    #[error(
        "{interface}@{queue}: the kernel described {length} bytes at {address:#x}: no frame there"
    )]
    BadDescriptor {
        /// The interface.
        interface: String,
        /// The queue.
        queue: u32,
        /// The address in the UMEM.
        address: u64,
        /// The length.
        length: u32,
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

impl XdpError {
    /// Wraps the error of `call` on `interface`, for use in `map_err`.
    pub(super) fn system(interface: &str, call: &'static str) -> impl FnOnce(io::Error) -> Self {
        let interface = interface.to_owned();
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { program: program() },
            Some(libc::EAFNOSUPPORT) => Self::NotSupported { interface },
            _ => Self::System { interface, call, source },
        }
    }
}

//! The parts of libpcap's headers that callers depend on: structs and result codes.
//!
//! Source: `pcap/pcap.h` and `pcap/bpf.h` of libpcap 1.10. A test uses a C compiler to compare all
//! of this with the headers of Debian 12 and 13.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

/// The size of a caller's buffer for an error's text.
pub(crate) const ERRBUF_BYTES: usize = 256;

/// Encodes a text for a caller's buffer: truncated to fit, at a character, and ended by a 0.
pub(crate) fn errbuf_bytes(text: &str) -> impl Iterator<Item = u8> {
    let kept = text.floor_char_boundary(ERRBUF_BYTES - 1);
    text.as_bytes()[..kept].iter().map(|&byte| byte.max(1)).chain([0])
}

/// The call failed; `pcap_geterr` says why.
pub(crate) const ERROR: c_int = -1;
/// `pcap_breakloop` was called, or no more packets will come.
pub(crate) const ERROR_BREAK: c_int = -2;
pub(crate) const ERROR_NOT_ACTIVATED: c_int = -3;
pub(crate) const ERROR_ACTIVATED: c_int = -4;
pub(crate) const ERROR_NO_SUCH_DEVICE: c_int = -5;
/// The device has no monitor mode.
pub(crate) const ERROR_RFMON_NOTSUP: c_int = -6;
/// The caller may not capture there.
pub(crate) const ERROR_PERM_DENIED: c_int = -8;
/// The precision of time stamps is not supported.
pub(crate) const ERROR_TSTAMP_PRECISION_NOTSUP: c_int = -12;
/// A warning: time stamps come from another source than requested.
pub(crate) const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;

/// Time stamps in microseconds.
pub(crate) const PRECISION_MICRO: c_int = 0;
/// Time stamps in nanoseconds.
pub(crate) const PRECISION_NANO: c_int = 1;
pub(crate) const TSTAMP_HOST: c_int = 0;
pub(crate) const DIRECTION_BOTH: c_int = 0;
/// The longest packet that libpcap returns; a snapshot length of 0 means this.
pub(crate) const SNAPLEN_MAX: u32 = burstline_wire::files::MAX_CAPTURED;
/// Flags of a listed device: up, running, and connection status not applicable.
pub(crate) const IF_UP_RUNNING: c_uint = 0x02 | 0x04 | 0x30;

/// libpcap's `pcap_t`: an opaque pointer that programs only pass on.
#[repr(C)]
pub struct Pcap {
    _private: [u8; 0],
}

/// `struct timeval`; the second field has nanoseconds if they were requested.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeval {
    /// Seconds since 1970.
    pub seconds: libc::time_t,
    /// The fraction, in the handle's precision.
    pub rest: libc::suseconds_t,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketHeader {
    /// When the packet arrived.
    pub time: Timeval,
    /// Bytes stored here.
    pub captured: u32,
    /// Bytes on the wire.
    pub length: u32,
}

/// `struct pcap_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Packets that passed the filter, including those lost for lack of room.
    pub received: c_uint,
    /// Packets lost for lack of room.
    pub dropped: c_uint,
    /// Packets that the interface lost.
    pub interface_dropped: c_uint,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a test is true.
    pub jt: u8,
    /// Instructions to skip if it is false.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

/// `struct bpf_program`.
#[repr(C)]
pub struct BpfProgram {
    /// The number of instructions.
    pub count: c_uint,
    /// The first instruction.
    pub instructions: *mut Instruction,
}

/// `struct pcap_if`.
#[repr(C)]
pub struct Interface {
    /// The next entry of the list.
    pub next: *mut Interface,
    /// The name to open it by.
    pub name: *mut c_char,
    /// A description.
    pub description: *mut c_char,
    /// Its addresses.
    pub addresses: *mut c_void,
    /// `PCAP_IF_` flags.
    pub flags: c_uint,
}

/// `pcap_handler`.
pub type Handler = unsafe extern "C" fn(*mut c_uchar, *const PacketHeader, *const c_uchar);

//! What libpcap's headers fix: structs that its callers hold, and the numbers of its answers.
//!
//! Source: `pcap/pcap.h` and `pcap/bpf.h` of libpcap 1.10. A test has a compiler compare all of
//! this with the headers of Debian 12 and 13.

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_void};

/// Bytes of a caller's buffer for an error's text.
pub(crate) const ERRBUF_BYTES: usize = 256;

/// A text as it goes into a caller's buffer: cut at a letter to what has room, and ended by a 0.
pub(crate) fn errbuf_bytes(text: &str) -> impl Iterator<Item = u8> {
    let kept = text.floor_char_boundary(ERRBUF_BYTES - 1);
    text.as_bytes()[..kept].iter().map(|&byte| byte.max(1)).chain([0])
}

/// The call failed; `pcap_geterr` says why.
pub(crate) const ERROR: c_int = -1;
/// `pcap_breakloop` was called, or there will never be another packet.
pub(crate) const ERROR_BREAK: c_int = -2;
/// The handle was created and not activated.
pub(crate) const ERROR_NOT_ACTIVATED: c_int = -3;
/// The handle is activated already.
pub(crate) const ERROR_ACTIVATED: c_int = -4;
/// There is no such device.
pub(crate) const ERROR_NO_SUCH_DEVICE: c_int = -5;
/// The device has no monitor mode.
pub(crate) const ERROR_RFMON_NOTSUP: c_int = -6;
/// The caller may not capture there.
pub(crate) const ERROR_PERM_DENIED: c_int = -8;
/// No such precision of time stamps.
pub(crate) const ERROR_TSTAMP_PRECISION_NOTSUP: c_int = -12;
/// A warning: time stamps come from elsewhere than was asked.
pub(crate) const WARNING_TSTAMP_TYPE_NOTSUP: c_int = 3;

/// Time stamps in microseconds.
pub(crate) const PRECISION_MICRO: c_int = 0;
/// Time stamps in nanoseconds.
pub(crate) const PRECISION_NANO: c_int = 1;
/// Time stamps of the host.
pub(crate) const TSTAMP_HOST: c_int = 0;
/// Packets of both directions.
pub(crate) const DIRECTION_BOTH: c_int = 0;
/// The longest packet that libpcap gives: what a snapshot length of 0 stands for.
pub(crate) const SNAPLEN_MAX: u32 = burstline_wire::files::MAX_CAPTURED;
/// Flags of a listed device: it is up, running, and has no link to be connected.
pub(crate) const IF_UP_RUNNING: c_uint = 0x02 | 0x04 | 0x30;

/// libpcap's `pcap_t`: a pointer that programs pass on and never look behind.
#[repr(C)]
pub struct Pcap {
    _private: [u8; 0],
}

/// `struct timeval`, where nanoseconds were asked with nanoseconds in the second field.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Timeval {
    /// Seconds since 1970.
    pub seconds: libc::time_t,
    /// The rest, in the handle's precision.
    pub rest: libc::suseconds_t,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketHeader {
    /// When the packet came.
    pub time: Timeval,
    /// Bytes that are here.
    pub captured: u32,
    /// Bytes on the wire.
    pub length: u32,
}

/// `struct pcap_stat`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    /// Packets that the filter let through, and those that were lost because there was no room.
    pub received: c_uint,
    /// Of these, packets lost because there was no room.
    pub dropped: c_uint,
    /// Packets that the interface lost.
    pub interface_dropped: c_uint,
}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Instruction {
    /// What to do.
    pub code: u16,
    /// Instructions to skip if a test holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

/// `struct bpf_program`.
#[repr(C)]
pub struct BpfProgram {
    /// How many instructions.
    pub count: c_uint,
    /// The first.
    pub instructions: *mut Instruction,
}

/// `struct pcap_if`.
#[repr(C)]
pub struct Interface {
    /// The next of the list.
    pub next: *mut Interface,
    /// What to open it by.
    pub name: *mut c_char,
    /// What it is.
    pub description: *mut c_char,
    /// Its addresses.
    pub addresses: *mut c_void,
    /// `PCAP_IF_` flags.
    pub flags: c_uint,
}

/// `pcap_handler`.
pub type Handler = unsafe extern "C" fn(*mut c_uchar, *const PacketHeader, *const c_uchar);

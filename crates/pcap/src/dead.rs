//! A handle of the real library without a device, which compiles filters and writes files for ours.

use std::ffi::{CStr, c_char, c_int, c_void};

use crate::abi::{BpfProgram, PRECISION_MICRO, PRECISION_NANO, Pcap};
use crate::real::real;
use crate::session::Shape;

/// The handle. Dropping it closes it.
///
/// Invariant: the pointer is an open `pcap_t` of the real library.
pub(crate) struct Dead(*mut Pcap);

// SAFETY: a dead handle has no thread-specific state. libpcap requires that calls with one handle
// do not overlap; our callers must ensure that, as for any handle of libpcap.
unsafe impl Send for Dead {}
// SAFETY: the callers ensure that calls with one handle do not overlap, as for `Send`.
unsafe impl Sync for Dead {}

impl Dead {
    /// Opens one with the same link type, snapshot length and precision; `None` without libpcap.
    pub(crate) fn open(shape: Shape) -> Option<Self> {
        let precision = if shape.is_nano { PRECISION_NANO } else { PRECISION_MICRO } as u32;
        let opened = real!(pcap_open_dead_with_tstamp_precision(
            shape.datalink => c_int,
            shape.snaplen as c_int => c_int,
            precision => u32,
        ) -> *mut Pcap);
        (!opened.is_null()).then_some(Self(opened))
    }

    pub(crate) fn raw(&self) -> *mut Pcap {
        self.0
    }

    pub(crate) fn error(&self) -> String {
        let text = real!(pcap_geterr(self.0 => *mut Pcap) -> *mut c_char);
        if text.is_null() {
            return String::new();
        }
        // SAFETY: libpcap's text ends in NUL and lives as long as the handle.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// Compiles a filter, or returns what is wrong with it.
    pub(crate) fn compile(
        &self,
        program: *mut BpfProgram,
        text: *const c_char,
        optimize: c_int,
        netmask: u32,
    ) -> Result<(), String> {
        let code = real!(pcap_compile(
            self.0 => *mut Pcap,
            program => *mut BpfProgram,
            text => *const c_char,
            optimize => c_int,
            netmask => u32,
        ) -> c_int);
        if code == 0 { Ok(()) } else { Err(self.error()) }
    }
}

impl Drop for Dead {
    fn drop(&mut self) {
        real!(pcap_close(self.0 => *mut Pcap));
    }
}

/// Frees memory from malloc(3).
pub(crate) fn free(memory: *mut c_void) {
    // SAFETY: libpcap's callers return memory that it, or we, got from malloc(3), once.
    unsafe { libc::free(memory) };
}

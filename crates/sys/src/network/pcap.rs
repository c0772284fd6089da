//! Filter expressions, compiled by libpcap if this machine has it.
//!
//! libpcap defines the language of pcap-filter(7), so libpcap translates it. It is loaded by name
//! at run time, and is needed neither to build nor to start.
//!
//! ```text
//!   "udp port 53" --> dead handle (a link type, a snapshot length, no device) --> instructions
//!                     libpcap.so.0.8, loaded by the first call, never unloaded
//! ```
//!
//! A dead handle has no kernel beneath it, so the program looks only at the packet's bytes: a VLAN
//! tag is at its place on the wire. So the program works on every port.
//!
//! Ownership: libpcap's handle and its program live for the length of a call, which frees them.
//! What the call returns is ours.
//!
//! # Invariants
//! - I1. One call at a time is inside libpcap: before 1.8 its compiler had global state.
//! - I2. The library is never unloaded, so a function that was found stays where it is.
//!
//! Source: pcap_compile(3PCAP), pcap_open_dead(3PCAP), dlopen(3).

mod library;
mod tool;

use std::ffi::CString;
use std::sync::{Mutex, MutexGuard, PoisonError};

use library::Library;

/// The maximum length of an expression, in bytes. libpcap recurses for every alternative, and its
/// optimiser's time grows with the cube of their number: 200 take seconds, a thousand take hours.
pub const EXPRESSION_BYTES_MAX: usize = 4 << 10;

/// The names of libpcap: Debian's, upstream's, and that of its development package.
const NAMES: [&std::ffi::CStr; 3] = [c"libpcap.so.0.8", c"libpcap.so.1", c"libpcap.so"];

/// One instruction of classic BPF, not checked. `burstline-wire` has an equivalent:
/// `Instruction { code: raw.code, jt: raw.jt, jf: raw.jf, k: raw.k }`.
///
/// Source: `struct bpf_insn`, `pcap/bpf.h`; `struct sock_filter`, `linux/filter.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct RawInstruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if a test holds.
    pub jt: u8,
    /// Instructions to skip if it does not.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

const _: () = assert!(size_of::<RawInstruction>() == 8);

/// Why an expression was not compiled.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// No libpcap was found.
    #[error(
        "filter: libpcap is needed for expressions and could not be loaded ({reason}); \
         apt-get install libpcap0.8 (for a static program: tcpdump), or give a program made \
         elsewhere: tcpdump -y EN10MB -ddd EXPRESSION"
    )]
    NotInstalled {
        /// The dynamic loader's message for the last name tried.
        reason: String,
    },
    /// A libpcap that lacks a function.
    #[error("filter: {library} has no {function}; apt-get install --reinstall libpcap0.8")]
    Function {
        /// Its name.
        library: String,
        /// The function.
        function: &'static str,
    },
    /// libpcap does not understand the expression, or cannot test it on this link type.
    #[error("filter `{text}`: {message}")]
    Expression {
        /// The expression.
        text: String,
        /// libpcap's message.
        message: String,
    },
    /// The expression is too long.
    #[error(
        "filter: the expression has {bytes} bytes, at most {EXPRESSION_BYTES_MAX} are compiled \
         here; for more: tcpdump -y EN10MB -ddd -F FILE"
    )]
    Length {
        /// Bytes of the expression.
        bytes: usize,
    },
    /// libpcap found no memory for a handle.
    #[error("filter: pcap_open_dead: no memory for link type {link_type}")]
    Handle {
        /// The requested link type.
        link_type: u16,
    },
}

/// Returns the compiler in use: libpcap with its version, or tcpdump.
///
/// # Errors
/// [`PcapError::NotInstalled`] and [`PcapError::Function`]: neither is available.
pub fn compiler() -> Result<String, PcapError> {
    let ethernet = 1;
    version().or_else(|error| match tool::compile("ip", ethernet, 100, true) {
        Some(Ok(_)) => Ok("tcpdump: no libpcap can be loaded here".to_owned()),
        _ => Err(error),
    })
}

/// Compiles an expression of pcap-filter(7) for packets of a link type, numbered as in capture
/// files (`LINKTYPE_`).
///
/// The program returns `snapshot_bytes`, in `[1, 2^31)` (larger values become 2^31 - 1), for a
/// wanted packet and 0 for others. `optimise` makes it several times shorter.
///
/// Names of hosts are resolved, which may take a while if a name server is queried.
///
/// # Errors
/// [`PcapError::NotInstalled`] and [`PcapError::Function`] about the library, the others about the
/// expression.
///
/// Cost: not for the fast path. The optimiser took 0.1 s for 1 KiB of alternatives
/// (`port 1 or port 2 or ...`) and 1 s for 2 KiB; without it 4 KiB take milliseconds.
pub fn compile(
    expression: &str,
    link_type: u16,
    snapshot_bytes: u32,
    optimise: bool,
) -> Result<Vec<RawInstruction>, PcapError> {
    let bytes = expression.len();
    if bytes > EXPRESSION_BYTES_MAX {
        return Err(PcapError::Length { bytes });
    }
    let refused = |message| PcapError::Expression { text: expression.to_owned(), message };
    let text = CString::new(expression)
        .map_err(|error| refused(format!("byte {} is NUL", error.nul_position())))?;
    let snapshot_bytes = snapshot_bytes.min(i32::MAX as u32);
    let mut library = lock();
    let library = match loaded(&mut library) {
        Ok(library) => library,
        Err(error @ PcapError::NotInstalled { .. }) => {
            let program = tool::compile(expression, link_type, snapshot_bytes, optimise);
            return program.unwrap_or(Err(error));
        }
        Err(error) => return Err(error),
    };
    let handle = library
        .open_dead(data_link(link_type), snapshot_bytes)
        .ok_or(PcapError::Handle { link_type })?;
    handle.compile(&text, optimise).map_err(refused)
}

/// Loads libpcap. Without it, has tcpdump compile this expression for each link type that it knows
/// by name: [`compile`] then starts no program for it.
///
/// Cost: 7 programs, some milliseconds each, if there is no libpcap.
pub fn prepare(expression: &str, snapshot_bytes: u32, optimise: bool) {
    let is_passed_on = expression.len() <= EXPRESSION_BYTES_MAX && !expression.contains('\0');
    if is_passed_on && matches!(version(), Err(PcapError::NotInstalled { .. })) {
        tool::prepare(expression, snapshot_bytes, optimise);
    }
}

/// Returns the verdict of libpcap's own interpreter on a packet: the reference in tests of other
/// interpreters. `None` if libpcap finds the program invalid. It does not detect everything: an
/// unknown opcode aborts this process, and a program that jumps back may not end. Pass only
/// programs that `burstline-wire` has accepted.
///
/// # Errors
/// [`PcapError::NotInstalled`] and [`PcapError::Function`].
///
/// # Panics
/// If the packet has 2^32 bytes or more.
pub fn verdict(
    program: &[RawInstruction],
    packet: &[u8],
    original_length: u32,
) -> Result<Option<u32>, PcapError> {
    Ok(loaded(&mut lock())?.filter(program, packet, original_length))
}

/// Returns libpcap's version text: `libpcap version 1.10.3 (...)`.
///
/// # Errors
/// [`PcapError::NotInstalled`], [`PcapError::Function`].
pub fn version() -> Result<String, PcapError> {
    Ok(loaded(&mut lock())?.version())
}

/// I1. A panic in another thread leaves libpcap intact: `Drop` closes the handles.
fn lock() -> MutexGuard<'static, Option<Loaded>> {
    static LIBRARY: Mutex<Option<Loaded>> = Mutex::new(None);
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library, or why it cannot be loaded: that is tried once.
type Loaded = Result<Library, PcapError>;

/// Returns the library, and loads it first if necessary.
fn loaded(library: &mut Option<Loaded>) -> Result<&mut Library, PcapError> {
    let library = library.get_or_insert_with(|| Library::load(&NAMES));
    library.as_mut().map_err(|error| error.clone())
}

/// Returns libpcap's own number (`DLT_`) of a link type. They differ where BSDs had disagreed;
/// these two of them are used here. Source: `dlt_linktype_map`, libpcap `pcap-common.c`.
fn data_link(link_type: u16) -> i32 {
    const LINKTYPE_ATM_RFC1483: u16 = 100;
    const LINKTYPE_RAW: u16 = 101;
    match link_type {
        LINKTYPE_ATM_RFC1483 => 11,
        LINKTYPE_RAW => 12,
        same => same.into(),
    }
}

#[cfg(all(test, not(miri)))]
mod tests;

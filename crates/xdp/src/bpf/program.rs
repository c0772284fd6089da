//! Programs: loads them, opens them by number, and queries their properties.

use std::io;
use std::mem::zeroed;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use burstline_sys::helper;

use super::call::{self, ById, Name, ObjectInfo, ProgramLoad};
use super::{BpfError, Instruction, late};

/// Helpers such as `bpf_ktime_get_tai_ns` require a GPL-compatible licence.
const LICENCE: &std::ffi::CStr = c"Dual MIT/GPL";

/// The program accepts packets of several buffers. Source: BPF_F_XDP_HAS_FRAGS; kernel 5.18.
pub(super) const HAS_FRAGMENTS: u32 = 1 << 5;

/// Source: BPF_XDP of enum bpf_attach_type.
pub(super) const ATTACH_XDP: u32 = 37;

/// Room for the verifier's log; since kernel 6.4 the end of a longer log is kept.
const LOG_BYTES: usize = 256 << 10;

/// Log lines that an error carries.
const LOG_LINES: usize = 8;

/// The type of a program. Source: enum bpf_prog_type, include/uapi/linux/bpf.h.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum ProgramKind {
    /// Runs on a socket's packets; returns how many bytes to keep.
    SocketFilter = 1,
    /// Runs on an interface's received packets; returns an [`xdp_action`](super::xdp_action).
    #[default]
    Xdp = 6,
}

/// Properties of a program to load.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProgramOptions<'a> {
    /// Its name, for `bpftool prog`: up to 15 letters, digits, `_` and `.`.
    pub name: &'a str,
    /// Its type.
    pub kind: ProgramKind,
    /// Whether it accepts packets of more than one buffer (XDP, kernel 5.18).
    pub has_fragments: bool,
    /// Whether an XDP program omits its expected attach type. Some loaders do, and a tail call
    /// works only between programs that agree in this.
    pub is_attach_type_unsaid: bool,
}

/// Properties of a loaded program, from the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramInfo {
    /// Its number, unique while it lives.
    pub id: u32,
    /// `BPF_PROG_TYPE_` number: 6 for XDP.
    pub kind: u32,
    /// Its name.
    pub name: String,
    /// A hash of its instructions.
    pub tag: [u8; 8],
}

/// The start of struct bpf_prog_info, include/uapi/linux/bpf.h.
#[repr(C)]
struct RawInfo {
    kind: u32,
    id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    addresses: [u64; 2],
    load_time: u64,
    created_by: u32,
    map_count: u32,
    map_ids: u64,
    name: Name,
}

const _: () = assert!(size_of::<RawInfo>() == 80);

/// A program in the kernel. It is freed when this is dropped and it is not attached.
#[derive(Debug)]
pub struct Program {
    fd: OwnedFd,
}

impl Program {
    /// Loads a program: the verifier checks it, and the kernel compiles it.
    ///
    /// # Errors
    /// - [`BpfError::Rejected`]: the verifier rejects it, with the reason.
    /// - [`BpfError::NotPermitted`], [`BpfError::System`].
    pub fn load(code: &[Instruction], options: &ProgramOptions<'_>) -> Result<Self, BpfError> {
        let loading = Loading::of(options);
        let source = match late::load(code, &loading, &mut []) {
            Ok(fd) => return Ok(Self { fd }),
            Err(source) => source,
        };
        if source.raw_os_error() == Some(libc::EPERM) {
            return Err(BpfError::system("BPF_PROG_LOAD")(source));
        }
        if helper::is_needed() {
            return Err(rejection(options.name, source, b"(it told the helper that loaded it)"));
        }
        // Writing the log takes longer than verification, so we request it only now.
        let mut log = vec![0; LOG_BYTES];
        match late::load(code, &loading, &mut log) {
            Ok(fd) => Ok(Self { fd }),
            Err(source) => Err(rejection(options.name, source, &log)),
        }
    }

    /// Opens a program by its number, for instance one that another process attached.
    ///
    /// # Errors
    /// [`BpfError::NotPermitted`] without `CAP_SYS_ADMIN`; [`BpfError::System`] with `ENOENT` if
    /// gone.
    pub fn from_id(id: u32) -> Result<Self, BpfError> {
        let mut request = ById { id, ..ById::default() };
        // SAFETY: the request contains no address.
        let fd = unsafe { call::bpf_open(call::PROGRAM_BY_ID, &mut request) };
        Ok(Self { fd: fd.map_err(BpfError::system("BPF_PROG_GET_FD_BY_ID"))? })
    }

    /// Queries the program's properties. Without privileges some of them are 0.
    ///
    /// # Errors
    /// [`BpfError::System`].
    pub fn info(&self) -> Result<ProgramInfo, BpfError> {
        // SAFETY: a struct of integers may be all zeros.
        let mut info: RawInfo = unsafe { zeroed() };
        let mut request = ObjectInfo {
            bpf_fd: self.fd.as_raw_fd() as u32,
            info_len: size_of::<RawInfo>() as u32,
            info: call::address(&raw mut info),
        };
        // SAFETY: B1: `info` has `info_len` bytes; the lists in it have length 0, so the kernel
        // writes nowhere else.
        let result = unsafe { call::bpf(call::OBJECT_INFO, &mut request) };
        result.map_err(BpfError::system("BPF_OBJ_GET_INFO_BY_FD"))?;
        let name = info.name.split(|&byte| byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        Ok(ProgramInfo { id: info.id, kind: info.kind, name, tag: info.tag })
    }
}

impl AsFd for Program {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// What the kernel hears of a program besides its instructions.
pub(super) struct Loading {
    pub(super) kind: ProgramKind,
    pub(super) flags: u32,
    pub(super) attach_type: u32,
    pub(super) name: Name,
}

impl Loading {
    fn of(options: &ProgramOptions<'_>) -> Self {
        let is_xdp = options.kind == ProgramKind::Xdp && !options.is_attach_type_unsaid;
        Self {
            kind: options.kind,
            flags: if options.has_fragments { HAS_FRAGMENTS } else { 0 },
            attach_type: if is_xdp { ATTACH_XDP } else { 0 },
            name: call::name(options.name),
        }
    }
}

/// Loads a program in the calling thread's own name.
pub(super) fn load(code: &[Instruction], loading: &Loading, log: &mut [u8]) -> io::Result<OwnedFd> {
    let mut request = ProgramLoad {
        prog_type: loading.kind as u32,
        // The kernel refuses more than a million instructions, so it also refuses a clamped count:
        // an allocation has fewer than 2^35 bytes.
        insn_cnt: u32::try_from(code.len()).unwrap_or(u32::MAX),
        insns: call::address(code.as_ptr()),
        license: call::address(LICENCE.as_ptr()),
        log_level: u32::from(!log.is_empty()),
        log_size: log.len() as u32,
        log_buf: if log.is_empty() { 0 } else { call::address(log.as_mut_ptr()) },
        kern_version: 0,
        prog_flags: loading.flags,
        prog_name: loading.name,
        prog_ifindex: 0,
        expected_attach_type: loading.attach_type,
    };
    // SAFETY: B1: `code` has at least `insn_cnt` instructions, the licence ends with a 0, and the
    // log has `log_size` bytes.
    unsafe { call::bpf_open(call::PROGRAM_LOAD, &mut request) }
}

fn rejection(name: &str, source: io::Error, log: &[u8]) -> BpfError {
    let log = tail(log);
    // It works for a process with CAP_PERFMON. Source: kernel/bpf/verifier.c.
    if log.contains("prohibited for !root") {
        return BpfError::system("BPF_PROG_LOAD")(source);
    }
    BpfError::Rejected { name: name.to_owned(), source, log }
}

/// Returns the last lines of the log, without the final statistics.
fn tail(log: &[u8]) -> String {
    let text = log.split(|&byte| byte == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("processed ")).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

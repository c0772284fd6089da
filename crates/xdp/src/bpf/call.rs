//! The bpf(2) system call, and the parts of its argument that are used here.
//!
//! `union bpf_attr` is one struct per command. Each struct here is the kernel's up to the last
//! member we use; the kernel treats the rest as 0. Padding is explicit, so that no byte of a
//! request is uninitialised. Addresses are 64-bit numbers on every machine.
//!
//! Source: union bpf_attr, include/uapi/linux/bpf.h of Linux 6.18.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// The commands used here. Source: enum bpf_cmd.
pub(super) const MAP_CREATE: Command = 0;
pub(super) const MAP_LOOKUP_ELEMENT: Command = 1;
pub(super) const MAP_UPDATE_ELEMENT: Command = 2;
pub(super) const MAP_DELETE_ELEMENT: Command = 3;
pub(super) const PROGRAM_LOAD: Command = 5;
pub(super) const PROGRAM_TEST_RUN: Command = 10;
pub(super) const PROGRAM_BY_ID: Command = 13;
pub(super) const OBJECT_INFO: Command = 15;
pub(super) const LINK_CREATE: Command = 28;
pub(super) const LINK_DETACH: Command = 34;

/// A number of enum bpf_cmd.
pub(super) type Command = libc::c_long;

/// A name in the kernel's format, with a final 0. Source: BPF_OBJ_NAME_LEN.
pub(super) type Name = [u8; 16];

/// Converts a name to the kernel's format.
///
/// # Panics
/// If it has more than 15 bytes, or characters other than letters, digits, `_` and `.`.
pub(super) fn name(text: &str) -> Name {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    assert!(text.len() < size_of::<Name>() && text.bytes().all(is_fine), "BPF name '{text}'");
    let mut name = Name::default();
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

#[repr(C)]
pub(super) struct MapCreate {
    pub(super) map_type: u32,
    pub(super) key_size: u32,
    pub(super) value_size: u32,
    pub(super) max_entries: u32,
    pub(super) map_flags: u32,
    pub(super) inner_map_fd: u32,
    pub(super) numa_node: u32,
    pub(super) map_name: Name,
}

#[repr(C)]
pub(super) struct Element {
    pub(super) map_fd: u32,
    pub(super) padding: u32,
    pub(super) key: u64,
    pub(super) value: u64,
    pub(super) flags: u64,
}

#[repr(C)]
pub(super) struct ProgramLoad {
    pub(super) prog_type: u32,
    pub(super) insn_cnt: u32,
    pub(super) insns: u64,
    pub(super) license: u64,
    pub(super) log_level: u32,
    pub(super) log_size: u32,
    pub(super) log_buf: u64,
    pub(super) kern_version: u32,
    pub(super) prog_flags: u32,
    pub(super) prog_name: Name,
    pub(super) prog_ifindex: u32,
    pub(super) expected_attach_type: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct ProgramTestRun {
    pub(super) prog_fd: u32,
    pub(super) retval: u32,
    pub(super) data_size_in: u32,
    pub(super) data_size_out: u32,
    pub(super) data_in: u64,
    pub(super) data_out: u64,
    pub(super) repeat: u32,
    pub(super) duration: u32,
    pub(super) ctx_size_in: u32,
    pub(super) ctx_size_out: u32,
    pub(super) ctx_in: u64,
    pub(super) ctx_out: u64,
    pub(super) flags: u32,
    pub(super) cpu: u32,
    pub(super) batch_size: u32,
    pub(super) padding: u32,
}

#[derive(Default)]
#[repr(C)]
pub(super) struct ById {
    pub(super) id: u32,
    pub(super) next_id: u32,
    pub(super) open_flags: u32,
}

#[repr(C)]
pub(super) struct ObjectInfo {
    pub(super) bpf_fd: u32,
    pub(super) info_len: u32,
    pub(super) info: u64,
}

#[repr(C)]
pub(super) struct LinkCreate {
    pub(super) prog_fd: u32,
    pub(super) target_ifindex: u32,
    pub(super) attach_type: u32,
    pub(super) flags: u32,
}

#[repr(C)]
pub(super) struct LinkDetach {
    pub(super) link_fd: u32,
}

// Sizes according to the kernel's compiler.
const _: () = assert!(size_of::<MapCreate>() == 44);
const _: () = assert!(size_of::<Element>() == 32);
const _: () = assert!(size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<ProgramTestRun>() == 80);
const _: () = assert!(size_of::<ById>() == 12);
const _: () = assert!(size_of::<ObjectInfo>() == 16);
const _: () = assert!(size_of::<LinkCreate>() == 16);
const _: () = assert!(size_of::<LinkDetach>() == 4);

/// Converts an address to its number in a request.
pub(super) fn address<T: ?Sized>(place: *const T) -> u64 {
    place.cast::<()>() as u64
}

/// Calls bpf(2). The kernel may change the request.
///
/// # Safety
/// `T` is the struct of this file that belongs to the command, and B1 holds for each address in
/// `request`.
pub(super) unsafe fn bpf<T>(command: Command, request: &mut T) -> io::Result<i32> {
    let bytes = size_of::<T>() as libc::c_long;
    // SAFETY: `request` is live and has `bytes` bytes; the caller guarantees the rest.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, (&raw mut *request).cast::<()>(), bytes) };
    // The result is a descriptor or 0, so it fits.
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
}

/// Like [`bpf`], for commands that return a new descriptor.
///
/// # Safety
/// As for [`bpf`], and the command returns a new descriptor.
pub(super) unsafe fn bpf_open<T>(command: Command, request: &mut T) -> io::Result<OwnedFd> {
    // SAFETY: the caller guarantees it.
    let fd = unsafe { bpf(command, request) }?;
    // SAFETY: the descriptor is new, and nothing else knows it. bpf(2) itself sets close-on-exec.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

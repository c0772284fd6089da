//! Files and folders that a thread may still open: Landlock.
//!
//! A [`Ruleset`] is made while everything may be opened, and a thread enters it once. From then on
//! the thread, and every thread that it starts, opens what the ruleset lists and nothing else.
//! Descriptors that are open already stay as they are. TCP is refused, but for connections to ports
//! that are listed.
//!
//! Invariants:
//! - L1: a ruleset handles each right that this kernel knows of, so what no rule allows is denied.
//! - L2: a path that is not there gets no rule; who makes it later finds it closed.
//!
//! Source: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h, Linux 6.18.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::fs::OFlags;

use crate::inode::open_path;

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Rights of the first version: bits 0 to 12.
const FIRST: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// Rights that a rule for a file may have.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const TCP: u64 = 3;
const CONNECT_TCP: u64 = 2;
/// The version that handles TCP.
const SINCE_TCP: u32 = 4;
const CREATE_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;
const RULE_NET_PORT: u32 = 2;

/// What may be done with a file, or with all that is beneath a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files, list folders.
    Read,
    /// Besides, write files, make them, rename and remove them.
    Write,
}

/// `struct landlock_ruleset_attr`, as of version 4.
#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
}

/// `struct landlock_path_beneath_attr`.
#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

/// `struct landlock_net_port_attr`.
#[repr(C)]
struct Port {
    allowed: u64,
    port: u64,
}

/// What may be opened.
#[derive(Debug)]
pub struct Ruleset {
    descriptor: OwnedFd,
    handled: u64,
    /// The kernel's version of Landlock.
    pub(super) version: u32,
}

/// The version of Landlock that this kernel has; 0: none.
pub fn version() -> u32 {
    // SAFETY: with this flag the kernel reads no memory of ours.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            ptr::null::<Handled>(),
            0_usize,
            CREATE_VERSION,
        )
    };
    u32::try_from(version).unwrap_or(0)
}

impl Ruleset {
    /// One that allows nothing; `None`: this kernel has no Landlock.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn new() -> io::Result<Option<Self>> {
        let version = version();
        if version == 0 {
            return Ok(None);
        }
        let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
        let files = FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEVICE);
        let handled = Handled { files, network: since(SINCE_TCP, TCP) };
        let (at, bytes) = (&raw const handled, size_of::<Handled>());
        // SAFETY: `at` leads to this many bytes of ours; an older kernel takes a longer structure
        // whose rest is 0, which `since` sees to.
        let made = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, at, bytes, 0_u32) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us; nobody else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made as i32) };
        Ok(Some(Self { descriptor, handled: files, version }))
    }

    /// Allows access to a file, or to all beneath a folder. A path that is not there, or that the
    /// caller may not look at, is left out.
    ///
    /// # Errors
    /// What the kernel says to the rule.
    pub fn allow(&self, path: &Path, access: Access) -> io::Result<()> {
        let Ok(parent) = open_path(path, OFlags::empty()) else { return Ok(()) };
        self.allow_beneath(&parent, access)
    }

    /// Allows connections to a TCP port, on any host.
    ///
    /// # Errors
    /// What the kernel says to the rule.
    pub fn allow_tcp(&self, port: u16) -> io::Result<()> {
        if self.version < SINCE_TCP {
            return Ok(());
        }
        let rule = Port { allowed: CONNECT_TCP, port: port.into() };
        self.add(RULE_NET_PORT, &raw const rule)
    }

    fn allow_beneath(&self, parent: &File, access: Access) -> io::Result<()> {
        let of_kind = if parent.metadata()?.is_dir() { u64::MAX } else { OF_FILES };
        let wanted = match access {
            Access::Read => READ_FILE | READ_DIR,
            // No devices, which no job makes, and no programs.
            Access::Write => {
                let never = EXECUTE | MAKE_CHAR | MAKE_BLOCK | REMOVE_DIR | REFER | IOCTL_DEVICE;
                self.handled & !never
            }
        };
        let allowed = wanted & of_kind & self.handled;
        let rule = Beneath { allowed, parent: parent.as_raw_fd() };
        self.add(RULE_PATH_BENEATH, &raw const rule)
    }

    /// `at`: a rule of the structure that is `kind`'s.
    fn add<T>(&self, kind: u32, at: *const T) -> io::Result<()> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: both callers pass a rule that lives on their stack, of the kind that it is; the
        // descriptors are open.
        let added = unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset, kind, at, 0_u32) };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// From now on the calling thread, and those it starts, open only what is allowed here. It has
    /// `no_new_privs` by then.
    pub(super) fn enter(&self) -> io::Result<()> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: no memory is passed; the descriptor is a ruleset's.
        let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) };
        if entered < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

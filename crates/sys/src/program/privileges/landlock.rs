//! The files and folders that a thread may still open: Landlock.
//!
//! A [`Ruleset`] is made while everything may be opened, and a thread enters it once. From then on
//! the thread, and every thread that it starts, can open only what the ruleset lists. Open
//! descriptors are not affected. TCP is refused, except for connections to listed ports. Abstract
//! UNIX sockets and signals (version 6) reach only what this thread, or one that it started, has
//! made since. Signals also reach the other threads of the process. No verb that enters a ruleset
//! needs more.
//!
//! Invariants:
//! - L1: a ruleset handles each right and scope of versions 1 to 6 that this kernel knows, so what
//!   they cover is denied without a rule. Signals are not covered before erratum 2 is mended: until
//!   then the kernel also refuses signals between threads of one process, and we send such ones.
//! - L2: a missing path gets no rule; if it is created later, it stays closed.
//!
//! Source: Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h, Linux 6.18.

use std::fs::File;
use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::ptr;

use rustix::fs::OFlags;

use super::calls::is_unknown;
use crate::inode::{folder_of, open_path};

const EXECUTE: u64 = 1;
const WRITE_FILE: u64 = 1 << 1;
const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
const REMOVE_DIR: u64 = 1 << 4;
const MAKE_CHAR: u64 = 1 << 6;
const MAKE_BLOCK: u64 = 1 << 11;
/// Rights of version 1: bits 0 to 12.
const FIRST: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEVICE: u64 = 1 << 15;
/// Rights that are valid in a rule for a file.
const OF_FILES: u64 = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEVICE;
/// `LANDLOCK_ACCESS_NET_BIND_TCP` and `LANDLOCK_ACCESS_NET_CONNECT_TCP`.
const TCP: u64 = 3;
const CONNECT_TCP: u64 = 2;
/// The first version that handles TCP.
const SINCE_TCP: u32 = 4;
/// `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL`.
const ABSTRACT_SOCKETS: u64 = 1;
const SIGNALS: u64 = 2;
/// The first version that has scopes.
const SINCE_SCOPES: u32 = 6;
const CREATE_VERSION: u32 = 1;
const CREATE_ERRATA: u32 = 2;
/// Set where erratum 2 is mended. Source: security/landlock/errata/abi-6.h.
const SIGNALS_BETWEEN_THREADS: u32 = 1 << 1;
const RULE_PATH_BENEATH: u32 = 1;
const RULE_NET_PORT: u32 = 2;

/// The allowed access to a file, or to everything beneath a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read files, list folders.
    Read,
    /// Also write files, create them, rename and remove them.
    Write,
}

/// `struct landlock_ruleset_attr`, as of version 6.
#[repr(C)]
struct Handled {
    files: u64,
    network: u64,
    scopes: u64,
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

/// The files, folders and TCP ports that may be opened.
#[derive(Debug)]
pub struct Ruleset {
    descriptor: OwnedFd,
    handled: u64,
    /// The kernel's version of Landlock.
    pub(super) version: u32,
}

/// Returns this kernel's version of Landlock; 0 if it has none.
pub fn version() -> u32 {
    ask(CREATE_VERSION).unwrap_or(0)
}

/// Asks the kernel about its Landlock; 0 if it does not know the question.
fn ask(question: u32) -> io::Result<u32> {
    // SAFETY: with either of these flags the kernel reads none of our memory.
    let answer = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, ptr::null::<Handled>(), 0_usize, question)
    };
    match u32::try_from(answer) {
        Ok(answer) => Ok(answer),
        Err(_) => match io::Error::last_os_error() {
            error if is_unknown(&error) => Ok(0),
            error => Err(error),
        },
    }
}

impl Ruleset {
    /// Makes a ruleset that allows nothing; `None` if this kernel has no Landlock.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn new() -> io::Result<Option<Self>> {
        Self::with_scopes(ABSTRACT_SOCKETS)
    }

    /// The same, but for abstract UNIX sockets, which it leaves alone: a library connects to those
    /// of peers.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn with_abstract_sockets() -> io::Result<Option<Self>> {
        Self::with_scopes(0)
    }

    fn with_scopes(scopes: u64) -> io::Result<Option<Self>> {
        let version = ask(CREATE_VERSION)?;
        if version == 0 {
            return Ok(None);
        }
        let since = |first: u32, rights: u64| if version >= first { rights } else { 0 };
        let files = FIRST | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEVICE);
        let has_signals = ask(CREATE_ERRATA)? & SIGNALS_BETWEEN_THREADS != 0;
        let scopes = scopes | if has_signals { SIGNALS } else { 0 };
        let (network, scopes) = (since(SINCE_TCP, TCP), since(SINCE_SCOPES, scopes));
        let handled = Handled { files, network, scopes };
        let (at, bytes) = (&raw const handled, size_of::<Handled>());
        // SAFETY: `at` points to this many bytes of ours. An older kernel accepts a longer
        // structure if the rest is 0, and `since` guarantees that.
        let made = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, at, bytes, 0_u32) };
        if made < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us; nothing else has it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(made as i32) };
        Ok(Some(Self { descriptor, handled: files, version }))
    }

    /// Allows access to a file, or to everything beneath a folder. A path that is missing, or that
    /// the caller may not look at, is left out.
    ///
    /// # Errors
    /// Errors from the kernel about the rule.
    pub fn allow(&self, path: &Path, access: Access) -> io::Result<()> {
        let Ok(parent) = open_path(path, OFlags::empty()) else { return Ok(()) };
        self.allow_beneath(&parent, access)
    }

    /// Allows to read a file, or everything beneath a folder, and to start programs there. What is
    /// missing is left out.
    ///
    /// # Errors
    /// Errors from the kernel about the rule.
    pub fn allow_programs(&self, path: &Path) -> io::Result<()> {
        self.allow_rights(path, EXECUTE | READ_FILE | READ_DIR)
    }

    /// Allows to write, create and remove files and folders beneath a folder. It may
    /// itself be removed, if it is empty, and so may others beside it. A missing one is left out.
    ///
    /// # Errors
    /// Errors from the kernel about the rule.
    pub fn allow_temporary(&self, folder: &Path) -> io::Result<()> {
        self.allow(folder, Access::Write)?;
        self.allow_rights(folder_of(folder), REMOVE_DIR)?;
        self.allow_rights(folder, REMOVE_DIR)
    }

    /// Allows connections to a TCP port, on any host.
    ///
    /// # Errors
    /// Errors from the kernel about the rule.
    pub fn allow_tcp(&self, port: u16) -> io::Result<()> {
        if self.version < SINCE_TCP {
            return Ok(());
        }
        let rule = Port { allowed: CONNECT_TCP, port: port.into() };
        self.add(RULE_NET_PORT, &raw const rule)
    }

    fn allow_rights(&self, path: &Path, wanted: u64) -> io::Result<()> {
        let Ok(parent) = open_path(path, OFlags::empty()) else { return Ok(()) };
        self.allow_rights_beneath(&parent, wanted)
    }

    fn allow_beneath(&self, parent: &File, access: Access) -> io::Result<()> {
        let wanted = match access {
            Access::Read => READ_FILE | READ_DIR,
            // No devices, which no job creates, and no programs.
            Access::Write => {
                let never = EXECUTE | MAKE_CHAR | MAKE_BLOCK | REMOVE_DIR | REFER | IOCTL_DEVICE;
                self.handled & !never
            }
        };
        self.allow_rights_beneath(parent, wanted)
    }

    fn allow_rights_beneath(&self, parent: &File, wanted: u64) -> io::Result<()> {
        let of_kind = if parent.metadata()?.is_dir() { u64::MAX } else { OF_FILES };
        let allowed = wanted & of_kind & self.handled;
        let rule = Beneath { allowed, parent: parent.as_raw_fd() };
        match self.add(RULE_PATH_BENEATH, &raw const rule) {
            // A pipe or a socket without a path: no ruleset keeps anyone from it.
            Err(error) if error.raw_os_error() == Some(libc::EBADFD) => Ok(()),
            added => added,
        }
    }

    /// Adds a rule; `at` points to the structure for `kind`.
    fn add<T>(&self, kind: u32, at: *const T) -> io::Result<()> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: both callers pass a rule on their stack, of the structure for its `kind`; the
        // descriptors are open.
        let added = unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset, kind, at, 0_u32) };
        if added < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Restricts the calling thread, and those it starts, to what this ruleset allows. The thread
    /// already has `no_new_privs`.
    pub(super) fn enter(&self) -> io::Result<()> {
        let ruleset = self.descriptor.as_raw_fd();
        // SAFETY: the call passes no memory; the descriptor is a ruleset.
        let entered = unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset, 0_u32) };
        if entered < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

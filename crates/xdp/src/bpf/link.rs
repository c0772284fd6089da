//! Links: an attachment of a program to an interface that lives as long as a process holds it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process;

use super::call::{self, LinkCreate, LinkDetach};
use super::mode::{Attached, XdpMode};
use super::program::ATTACH_XDP;
use super::{BpfError, Program, late, netlink};
use burstline_sys::namespace::interface_name;

/// A program attached to an interface. It is detached on drop, and when the process ends.
#[derive(Debug)]
pub struct Link {
    pub(super) fd: OwnedFd,
    /// The process that attached it. A child by fork(2) has a copy that it only closes.
    pub(super) owner: u32,
}

impl Link {
    /// Attaches an XDP program to an interface of the calling thread's network namespace.
    ///
    /// # Errors
    /// - [`BpfError::Attached`]: a program is already attached.
    /// - [`BpfError::NoNativeMode`]: the driver does not support it.
    /// - [`BpfError::Unfit`]: the driver supports it, but not with the interface's current
    ///   settings.
    /// - [`BpfError::NoSuchInterface`], [`BpfError::NotPermitted`], [`BpfError::System`].
    pub fn attach_xdp(
        program: &Program,
        interface_index: u32,
        mode: XdpMode,
    ) -> Result<Self, BpfError> {
        let mut request = LinkCreate {
            prog_fd: program.as_fd().as_raw_fd() as u32,
            target_ifindex: interface_index,
            attach_type: ATTACH_XDP,
            flags: mode.flags(),
        };
        match late::attach(&mut request, program.as_fd()) {
            Ok(fd) => Ok(Self { fd, owner: process::id() }),
            Err(source) => Err(refusal(source, interface_index)),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Link {
    /// Detaches the program now. Closing the descriptor is not enough if a child has a copy, as
    /// every child does between fork(2) and execve(2).
    fn drop(&mut self) {
        if self.owner != process::id() {
            return;
        }
        let mut request = LinkDetach { link_fd: self.fd.as_raw_fd() as u32 };
        // SAFETY: the request contains no address.
        let detached = unsafe { call::bpf(call::LINK_DETACH, &mut request) };
        // An old kernel refuses it without privileges; then closing the last descriptor detaches.
        let _ = detached;
    }
}

/// Returns the XDP program on an interface of the calling thread's network namespace, if any.
///
/// # Errors
/// [`BpfError::NoSuchInterface`], [`BpfError::System`]. Needs no privilege.
pub fn attached_program(interface_index: u32) -> Result<Option<Attached>, BpfError> {
    netlink::attached(interface_index).map_err(|source| match source.raw_os_error() {
        Some(libc::ENODEV) => BpfError::NoSuchInterface { interface_index },
        _ => BpfError::system("RTM_GETLINK")(source),
    })
}

/// Source: dev_xdp_attach, net/core/dev.c; veth_xdp_set, drivers/net/veth.c, and similar drivers.
fn refusal(source: io::Error, interface_index: u32) -> BpfError {
    let attached = match attached_program(interface_index) {
        // bpf(2) itself reports this as an invalid argument.
        Err(error @ BpfError::NoSuchInterface { .. }) => return error,
        other => other.ok().flatten(),
    };
    let named = || interface_name(interface_index);
    match source.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            let program_id = attached.map_or(0, |attached| attached.program_id);
            BpfError::Attached { interface: named(), program_id }
        }
        Some(libc::EOPNOTSUPP) => BpfError::NoNativeMode { interface: named() },
        Some(libc::ERANGE | libc::EINVAL) => BpfError::Unfit { interface: named(), source },
        _ => BpfError::system("BPF_LINK_CREATE")(source),
    }
}

//! What a helper does for ports that are opened while packets come, and who tells it which.
//!
//! ```text
//!   user ── request ──► door of the helper ── adds to what is allowed
//!                              └── the client, and its request ──► control thread of the job
//!   control thread ── socket, tap queue, program ... ──► helper: is its interface allowed?
//! ```
//!
//! The job may not say what it is allowed: its user does, by a request that the helper reads first.
//! So whoever takes over a job gets what its user has asked for, and no more.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::AddressFamily;
use rustix::net::sockopt::socket_domain;

use super::grants::{Grant, GrantKind, Grants, refused};
use super::{HelperOptions, Names};
use crate::interface::Interface;
use crate::option::{SocketOption, set_option};
use crate::raw_socket::raw_socket_directly;
use crate::seqpacket::SeqPacket;
use crate::tap::{self, Setting};

/// Loads a program for the kernel, or something that it takes: gets bytes and descriptors of the
/// job, and a function that says whether the job may use the interface of this index.
pub type Loader = fn(&[u8], Vec<OwnedFd>, &dyn Fn(u32) -> bool) -> io::Result<OwnedFd>;

/// The options of a socket that take a capability: buffers, and busy polling.
/// Source: include/uapi/asm-generic/socket.h.
const OPTIONS: [libc::c_int; 4] = [libc::SO_RCVBUFFORCE, libc::SO_BUSY_POLL, 69, 70];
/// The families of sockets that receive packets.
const FAMILIES: [libc::c_int; 2] = [libc::AF_PACKET, libc::AF_XDP];

/// What a job gets in addition.
#[derive(Clone, Debug, Default)]
pub struct Extension {
    /// Files, folders and sockets.
    pub grants: Vec<Grant>,
    /// Paths of sockets that it connects to.
    pub sockets: Vec<PathBuf>,
    /// Interfaces that it opens: they get programs and sockets.
    pub interfaces: Vec<String>,
    /// Tap devices that it makes, and sets.
    pub taps: Vec<String>,
}

/// What a job may ask for now.
#[derive(Clone)]
pub(super) struct Allowed {
    pub(super) grants: Grants,
    sockets: Vec<PathBuf>,
    /// Sockets that may come later.
    later: Option<Names>,
    interfaces: Vec<String>,
    taps: Vec<String>,
    /// Paths at which it may make a socket: those that users have asked for.
    names: Vec<PathBuf>,
}

/// The same, for all threads of a helper. A request takes what is allowed when it comes, so one
/// that lasts holds up no other.
#[derive(Clone)]
pub(super) struct Shared(Arc<Mutex<Arc<Allowed>>>);

impl Shared {
    pub(super) fn new(options: HelperOptions) -> Self {
        let HelperOptions { grants, sockets, names: later, .. } = options;
        let (interfaces, taps, names) = (Vec::new(), Vec::new(), Vec::new());
        let grants = Grants::new(grants);
        let allowed = Allowed { grants, sockets, later, interfaces, taps, names };
        Self(Arc::new(Mutex::new(Arc::new(allowed))))
    }

    pub(super) fn now(&self) -> Arc<Allowed> {
        Arc::clone(&self.0.lock().expect("no thread panics while it has the lock"))
    }

    fn extend(&self, extension: Extension) {
        let mut allowed = self.0.lock().expect("no thread panics while it has the lock");
        let allowed = Arc::make_mut(&mut allowed);
        let Extension { grants, sockets, interfaces, taps } = extension;
        let names = grants.iter().filter(|grant| grant.kind != GrantKind::Read);
        add_new(&mut allowed.names, names.map(|grant| grant.path.clone()).collect());
        allowed.grants.add(grants);
        add_new(&mut allowed.taps, taps);
        add_new(&mut allowed.sockets, sockets);
        add_new(&mut allowed.interfaces, interfaces);
    }
}

/// Adds what is not there yet: users may ask for the same again and again.
pub(super) fn add_new<T: PartialEq>(to: &mut Vec<T>, others: Vec<T>) {
    for other in others {
        if !to.contains(&other) {
            to.push(other);
        }
    }
}

impl Allowed {
    /// Whether the job may connect to a socket at this path.
    pub(super) fn has_socket(&self, path: &Path) -> bool {
        let is_later = || self.later.as_ref().is_some_and(|names| names.have(path));
        self.sockets.iter().any(|listed| listed == path) || is_later()
    }

    fn check_tap(&self, name: &Path) -> io::Result<&str> {
        let found = self.taps.iter().find(|allowed| Path::new(allowed) == name);
        found.map(String::as_str).ok_or_else(refused)
    }

    /// Checks that a user has asked for a socket at this path. The names that the job began with
    /// are not among these: users find its control socket at one.
    pub(super) fn check_name(&self, path: &Path) -> io::Result<()> {
        if self.names.iter().any(|name| name == path) { Ok(()) } else { Err(refused()) }
    }

    /// Opens a socket for packets of some interface: the kernel does not ask of which.
    pub(super) fn raw_socket(&self, family: i32) -> io::Result<OwnedFd> {
        match FAMILIES.contains(&family) && !self.interfaces.is_empty() {
            true => raw_socket_directly(family),
            false => Err(refused()),
        }
    }

    pub(super) fn tap_queue(&self, name: &Path, flags: u32) -> io::Result<OwnedFd> {
        tap::queue_directly(self.check_tap(name)?, flags)
    }

    pub(super) fn set_interface(&self, name: &Path, setting: u32, value: u32) -> io::Result<()> {
        let name = self.check_tap(name)?;
        let setting = Setting::of(setting).ok_or_else(refused)?;
        tap::set_directly(&UnixDatagram::unbound()?, name, setting, value)
    }

    pub(super) fn load(
        &self,
        loader: Option<Loader>,
        what: &Path,
        files: Vec<OwnedFd>,
    ) -> io::Result<OwnedFd> {
        let loader = loader.filter(|_| !self.interfaces.is_empty()).ok_or_else(refused)?;
        let asking = UnixDatagram::unbound()?;
        let has_index = |name: &String, index| {
            Interface::by_name(&asking, name).is_ok_and(|found| found.index == index)
        };
        let may_use = |index| self.interfaces.iter().any(|name| has_index(name, index));
        loader(what.as_os_str().as_encoded_bytes(), files, &may_use)
    }
}

/// Sets an option of a socket for packets that the job has.
pub(super) fn set_socket_option(socket: &OwnedFd, name: i32, value: i32) -> io::Result<()> {
    let is_for_packets = |domain: AddressFamily| FAMILIES.contains(&domain.as_raw().into());
    if !OPTIONS.contains(&name) || !is_for_packets(socket_domain(socket)?) {
        return Err(refused());
    }
    set_option_directly(socket.as_fd(), name, value)
}

/// The same in the calling thread's own name.
pub(crate) fn set_option_directly(socket: BorrowedFd<'_>, name: i32, value: i32) -> io::Result<()> {
    let option = SocketOption { level: libc::SOL_SOCKET, name };
    // SAFETY: all options of this level that are named above are integers.
    unsafe { set_option(socket.as_raw_fd(), option, &value) }
}

/// Where users ask for more, in the helper: a listening socket, and the way to the job.
pub struct Door {
    listener: OwnedFd,
    job: SeqPacket,
    allowed: Shared,
}

/// Serves a door, in a thread of the helper, until the job no longer listens.
pub type Porter = fn(&Door);

impl Door {
    /// Starts a thread that serves it.
    pub(super) fn serve(
        porter: Porter,
        listener: OwnedFd,
        job: OwnedFd,
        allowed: &Shared,
    ) -> io::Result<()> {
        let door = Self { listener, job: job.into(), allowed: allowed.clone() };
        thread::Builder::new().name("door".to_owned()).spawn(move || porter(&door)).map(drop)
    }

    /// The listening socket.
    pub fn listener(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// Readable when the job no longer listens.
    pub fn end(&self) -> BorrowedFd<'_> {
        self.job.as_fd()
    }

    /// Allows the job more.
    pub fn extend(&self, extension: Extension) {
        self.allowed.extend(extension);
    }

    /// Passes a client and its request to the job.
    ///
    /// # Errors
    /// Errors from the kernel; the job has ended, or has no memory for it.
    pub fn pass(&self, client: BorrowedFd<'_>, request: &[u8]) -> io::Result<()> {
        let request = bytes_to_pass(request)?;
        self.job.send(b"client", &[client, request.as_fd()])
    }
}

/// A client that a helper passed to the job.
#[derive(Debug)]
pub struct Client {
    /// Its connection.
    pub connection: OwnedFd,
    /// Its request, from the start.
    pub request: File,
}

/// The job's end of a [`Door`]. Dropping it ends the door.
#[derive(Debug)]
pub struct Clients(SeqPacket);

impl Clients {
    pub(super) fn new(socket: SeqPacket) -> Self {
        Self(socket)
    }

    /// Returns the next client; `None` if the helper has ended. It waits for one.
    ///
    /// # Errors
    /// Errors from the kernel. `EMFILE`: a client was lost, because this process has no descriptors
    /// left.
    pub fn receive(&self) -> io::Result<Option<Client>> {
        let (mut room, mut descriptors) = ([0; 16], Vec::new());
        if self.0.receive(&mut room, Some(&mut descriptors))?.bytes == 0 {
            return Ok(None);
        }
        let mut descriptors = descriptors.into_iter();
        match (descriptors.next(), descriptors.next()) {
            (Some(connection), Some(request)) => {
                Ok(Some(Client { connection, request: request.into() }))
            }
            _ => Err(io::Error::from_raw_os_error(libc::EMFILE)),
        }
    }
}

impl AsFd for Clients {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns memory that holds these bytes for good, to be read from the start: by a [`Loader`], or
/// by who gets a [`Client`].
///
/// # Errors
/// Errors from the kernel: no memory, no descriptors.
pub fn bytes_to_pass(bytes: &[u8]) -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let mut file = File::from(memfd_create("burstline-request", flags)?);
    file.write_all(bytes)?;
    let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE | SealFlags::SEAL;
    fcntl_add_seals(&file, seals)?;
    // The writer's position is the reader's.
    file.rewind()?;
    Ok(file.into())
}

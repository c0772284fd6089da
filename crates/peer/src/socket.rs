//! UNIX sockets whose messages carry descriptors, and their files.
//!
//! ```text
//!   Listener::bind(path) --> accept --> Socket        replaces the file of a killed listener,
//!   Socket::connect(path) --------------> Socket      but not that of a live one
//! ```
//!
//! Nothing blocks here except `connect`, which the kernel accepts or refuses immediately. All
//! descriptors are close-on-exec.
//!
//! Source: unix(7), `SCM_RIGHTS`.

use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use burstline_sys::inode::FileId;
use burstline_sys::late;
use burstline_sys::rights;
pub use burstline_sys::rights::Received;
use burstline_sys::seqpacket;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// The most descriptors of a message; the kernel closes more.
const DESCRIPTORS_MAX: usize = 32;

/// Whether a socket keeps message boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes in order: vhost-user.
    Stream,
    /// Messages: memif.
    Messages,
}

impl From<Kind> for seqpacket::Kind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Stream => Self::Stream,
            Kind::Messages => Self::Messages,
        }
    }
}

/// The reason why a socket cannot listen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Another program listens there.
    #[error("{}: another program listens there: end it, or choose another path", path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// A file that is not a socket is at the path.
    #[error(
        "{}: the file there is not a socket: remove it, or choose another path",
        path.display()
    )]
    NotASocket {
        /// The path.
        path: PathBuf,
    },
    /// The kernel refused.
    #[error("listen at {}: {error}", path.display())]
    System {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
}

/// A socket that waits for peers. Dropping it removes its file, if it is still ours.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    id: FileId,
}

/// A connection. No call blocks.
#[derive(Debug)]
pub struct Socket {
    socket: OwnedFd,
}

/// Flags of all sockets: no call blocks, and no other program inherits them.
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

fn type_of(kind: Kind) -> SocketType {
    seqpacket::Kind::from(kind).into()
}

impl Listener {
    /// Listens at `path`.
    ///
    /// # Errors
    /// [`ListenError`], as each variant says.
    pub fn bind(path: &Path, kind: Kind) -> Result<Self, ListenError> {
        let fail = |error: io::Error| ListenError::System { path: path.to_owned(), error };
        if let Ok(found) = late::symlink_metadata(path) {
            if !found.file_type().is_socket() {
                return Err(ListenError::NotASocket { path: path.to_owned() });
            }
            match Socket::connect(path, kind) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
                    late::remove_file(path).map_err(fail)?;
                }
                _ => return Err(ListenError::InUse { path: path.to_owned() }),
            }
        }
        let socket = late::bind(path, kind.into(), [None; 2], None).map_err(fail)?;
        rustix::net::listen(&socket, 8).map_err(io::Error::from).map_err(fail)?;
        let made = late::symlink_metadata(path).map_err(fail)?;
        Ok(Self { socket, path: path.to_owned(), id: FileId::of(&made) })
    }

    /// Accepts a waiting connection; `WouldBlock` if there is none.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn accept(&self) -> io::Result<Socket> {
        Ok(Socket { socket: rustix::net::accept_with(&self.socket, FLAGS)? })
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let found = late::symlink_metadata(&self.path);
        if found.is_ok_and(|found| FileId::of(&found) == self.id) {
            // In a folder that is no longer writable it stays, and the next listener replaces it.
            let _ = late::remove_file(&self.path);
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Socket {
    /// Connects to the process that listens at `path`.
    ///
    /// # Errors
    /// The kernel's error: `NotFound`, `ConnectionRefused`, `PermissionDenied`.
    pub fn connect(path: &Path, kind: Kind) -> io::Result<Self> {
        late::connect(path, kind.into(), None).map(|socket| Self { socket })
    }

    /// Both ends of a connection, for tests.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn pair(kind: Kind) -> io::Result<[Self; 2]> {
        let (one, other) =
            rustix::net::socketpair(AddressFamily::UNIX, type_of(kind), FLAGS, None)?;
        Ok([Self { socket: one }, Self { socket: other }])
    }

    /// Sends bytes and descriptors completely, or fails.
    ///
    /// # Errors
    /// `WouldBlock` if the other end does not read, or the kernel's error.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        let sent = rights::send(&self.socket, bytes, descriptors, &mut space)?;
        if sent == bytes.len() { Ok(()) } else { Err(ErrorKind::WouldBlock.into()) }
    }

    /// Receives up to `room`, and adds the received descriptors to `into`. 0 bytes mean that the
    /// other end has closed.
    ///
    /// # Errors
    /// `WouldBlock` if nothing is there, or the kernel's error.
    pub fn receive(&self, room: &mut [u8], into: &mut Vec<OwnedFd>) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        match rights::receive(&self.socket, room, &mut space, into) {
            // The other end has also closed, with unread data.
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                Ok(Received { bytes: 0, is_cut: false })
            }
            received => received,
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn a_file_that_was_left_is_replaced_and_one_that_answers_is_not() {
        for kind in [Kind::Stream, Kind::Messages] {
            let folder = TemporaryFolder::create("burstline-peer-").unwrap();
            let path = folder.path().join("socket");
            let first = Listener::bind(&path, kind).unwrap();
            let error = Listener::bind(&path, kind).unwrap_err();
            assert!(matches!(error, ListenError::InUse { .. }), "{error}");
            drop(first);
            assert!(!path.exists());
            std::fs::write(&path, "text").unwrap();
            let error = Listener::bind(&path, kind).unwrap_err();
            assert!(matches!(error, ListenError::NotASocket { .. }), "{error}");
            std::fs::remove_file(&path).unwrap();
            drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
            assert!(path.exists());
            if kind == Kind::Stream {
                let second = Listener::bind(&path, kind).unwrap();
                drop(second);
                assert!(!path.exists());
            } else {
                std::fs::remove_file(&path).unwrap();
            }
        }
    }

    #[test]
    fn descriptors_come_with_the_bytes_that_they_were_sent_with() {
        let [near, far] = Socket::pair(Kind::Stream).unwrap();
        let mut files = Vec::new();
        let nothing = near.receive(&mut [0; 4], &mut files).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        far.send(b"abcd", &[near.as_fd(), far.as_fd()]).unwrap();
        let arrived = near.receive(&mut [0; 2], &mut files).unwrap();
        assert_eq!((arrived, files.len()), (Received { bytes: 2, is_cut: false }, 2));
        drop((far, files));
        let mut room = [0; 8];
        assert_eq!(near.receive(&mut room, &mut Vec::new()).unwrap().bytes, 2);
        assert_eq!(near.receive(&mut room, &mut Vec::new()).unwrap().bytes, 0);
    }
}

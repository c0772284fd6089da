//! Local sockets that keep messages apart and pass descriptors, connections to either kind of local
//! socket, and the credentials of the peer.
//!
//! ```text
//!   bind(path) -> listen -> accept ----+       one send is one receive; a message that is longer
//!   connect(path) ---------------------+---->  than the buffer is truncated, and flagged
//! ```
//!
//! All descriptors are close-on-exec, received ones too. The kernel closes received descriptors
//! that the receiver has no room for.
//!
//! Source: unix(7), `SOCK_SEQPACKET`, `SCM_RIGHTS`, `SO_PEERCRED`; `SO_PEERPIDFD` is Linux 6.5.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use crate::late;
use crate::option::{SocketOption, check, read_option};
use crate::rights;
pub use crate::rights::Received;
use crate::users::GROUPS_MAX;
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, shutdown};

/// The longest path of a socket, in bytes. Source: `struct sockaddr_un`, less the 0.
pub const PATH_BYTES_MAX: usize = 107;
/// The maximum number of descriptors in one message.
pub const DESCRIPTORS_MAX: usize = 4;

/// Source: include/uapi/asm-generic/socket.h, Linux 6.5.
const SO_PEERPIDFD: libc::c_int = 77;

/// One end of a connection, or a listening socket.
#[derive(Debug)]
pub struct SeqPacket {
    socket: OwnedFd,
}

/// The peer's credentials at connection time, as reported by the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its pid; 0 if it is not in our pid namespace.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
    /// Its effective group.
    pub gid: u32,
}

/// Whether a local socket keeps messages apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes: `SOCK_STREAM`.
    Stream,
    /// Messages: `SOCK_SEQPACKET`.
    Messages,
}

impl From<Kind> for SocketType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Stream => Self::STREAM,
            Kind::Messages => Self::SEQPACKET,
        }
    }
}

impl SeqPacket {
    /// Makes a socket bound to `path`, which must not exist. Connections fail before
    /// [`listen`](Self::listen).
    pub fn bind(path: &Path) -> io::Result<Self> {
        Ok(Self { socket: bound(path, Kind::Messages)? })
    }

    /// Accepts connections from now on; `backlog` of them may wait.
    pub fn listen(&self, backlog: i32) -> io::Result<()> {
        Ok(rustix::net::listen(&self.socket, backlog)?)
    }

    /// Connects to `path`. This, each send and each receive take at most `timeout`, and then fail
    /// with `WouldBlock`.
    pub fn connect(path: &Path, timeout: Duration) -> io::Result<Self> {
        late::connect(path, Kind::Messages, Some(timeout)).map(Self::from)
    }

    /// Makes two sockets that are connected to each other, and that block.
    pub fn pair() -> io::Result<[Self; 2]> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) = rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?;
        Ok([one, other].map(Self::from))
    }

    /// Accepts a waiting connection. Neither the connection nor this call blocks: `WouldBlock` if
    /// none waits.
    pub fn accept(&self) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::accept_with(&self.socket, flags)?;
        Ok(Self { socket })
    }

    /// Sends one message with up to [`DESCRIPTORS_MAX`] descriptors, completely or not at all.
    pub fn send(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        assert!(descriptors.len() <= DESCRIPTORS_MAX, "{} descriptors", descriptors.len());
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        rights::send(&self.socket, bytes, descriptors, &mut space)?;
        Ok(())
    }

    /// Receives one message into `room`. Its descriptors are appended to `descriptors`, or closed
    /// if that is `None`.
    pub fn receive(
        &self,
        room: &mut [u8],
        descriptors: Option<&mut Vec<OwnedFd>>,
    ) -> io::Result<Received> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
        match descriptors {
            Some(into) => rights::receive(&self.socket, room, &mut space, into),
            None => rights::receive(&self.socket, room, &mut [], &mut Vec::new()),
        }
    }

    /// Sends nothing more: the peer sees the end behind the last message, and may go on sending.
    pub fn end_sending(&self) {
        // It fails only if the peer has closed.
        let _ = shutdown(&self.socket, Shutdown::Write);
    }

    /// Ends the connection: sends and receives of other threads that block here return.
    pub fn hang_up(&self) {
        let _ = shutdown(&self.socket, Shutdown::Both);
    }

    /// Returns the credentials of the peer.
    pub fn peer(&self) -> io::Result<Credentials> {
        peer_of(self)
    }

    /// Returns the supplementary groups of the peer's process.
    pub fn peer_groups(&self) -> io::Result<Vec<u32>> {
        let mut groups = vec![0u32; 64];
        loop {
            let mut bytes = (groups.len() * size_of::<u32>()) as libc::socklen_t;
            let at = groups.as_mut_ptr().cast();
            // SAFETY: `at` and `bytes` describe live memory that any bytes may fill.
            let outcome = check(unsafe { self.option(libc::SO_PEERGROUPS, at, &mut bytes) });
            let found = bytes as usize / size_of::<u32>();
            match outcome {
                // The kernel returned the number of groups.
                Err(error) if error.raw_os_error() == Some(libc::ERANGE) => {
                    groups.resize(found.clamp(groups.len() + 1, GROUPS_MAX + 1), 0);
                    if groups.len() > GROUPS_MAX {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
                Ok(_) => {
                    groups.truncate(found);
                    return Ok(groups);
                }
            }
        }
    }

    /// Opens the peer's process as a descriptor that gets readable when the process ends. Since
    /// Linux 6.5 it is certainly that process. Before, it is certain only if the process has not
    /// ended.
    pub fn peer_process(&self) -> io::Result<OwnedFd> {
        let mut process: libc::c_int = -1;
        let mut bytes = size_of::<libc::c_int>() as libc::socklen_t;
        let at = (&raw mut process).cast();
        // SAFETY: `at` and `bytes` describe a live integer.
        match check(unsafe { self.option(SO_PEERPIDFD, at, &mut bytes) }) {
            // SAFETY: the kernel has just opened it for us, and nothing else knows it.
            Ok(_) => Ok(unsafe { OwnedFd::from_raw_fd(process) }),
            Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => {
                let pid = rustix::process::Pid::from_raw(self.peer()?.pid as i32);
                let pid = pid.ok_or(io::ErrorKind::NotFound)?;
                Ok(rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?)
            }
            Err(error) => Err(error),
        }
    }

    /// # Safety
    /// `at` must be valid for writes of `bytes` bytes.
    unsafe fn option(
        &self,
        name: libc::c_int,
        at: *mut libc::c_void,
        bytes: &mut libc::socklen_t,
    ) -> libc::c_int {
        // SAFETY: the caller guarantees `at`; `bytes` is live.
        unsafe { libc::getsockopt(self.socket.as_raw_fd(), libc::SOL_SOCKET, name, at, bytes) }
    }
}

/// Returns the credentials of the peer of any local socket.
pub fn peer_of(socket: impl AsFd) -> io::Result<Credentials> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let option = SocketOption { level: libc::SOL_SOCKET, name: libc::SO_PEERCRED };
    // SAFETY: the option is a struct of integers.
    unsafe { read_option(socket.as_fd().as_raw_fd(), option, &mut peer) }?;
    let pid = u32::try_from(peer.pid).unwrap_or(0);
    Ok(Credentials { pid, uid: peer.uid, gid: peer.gid })
}

/// Makes a local socket that does not block, bound to a path where nothing is, in the calling
/// thread's own name: see [`late::bind`].
pub(crate) fn bound(path: &Path, kind: Kind) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind.into(), flags, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Connects to the local socket at a path, in the calling thread's own name: see
/// [`late::connect`].
pub(crate) fn connected(path: &Path, kind: Kind, timeout: Option<Duration>) -> io::Result<OwnedFd> {
    let blocks = if timeout.is_some() { SocketFlags::empty() } else { SocketFlags::NONBLOCK };
    let flags = SocketFlags::CLOEXEC | blocks;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind.into(), flags, None)?;
    if timeout.is_some() {
        set_socket_timeout(&socket, Timeout::Send, timeout)?;
        set_socket_timeout(&socket, Timeout::Recv, timeout)?;
    }
    let address = SocketAddrUnix::new(path)?;
    retry_on_intr(|| rustix::net::connect(&socket, &address))?;
    Ok(socket)
}

impl AsFd for SeqPacket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl From<OwnedFd> for SeqPacket {
    fn from(socket: OwnedFd) -> Self {
        Self { socket }
    }
}

impl From<SeqPacket> for OwnedFd {
    fn from(socket: SeqPacket) -> Self {
        socket.socket
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    fn pair(test: &str) -> (SeqPacket, SeqPacket) {
        let path = std::env::temp_dir().join(format!("burstline-{test}-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let listener = SeqPacket::bind(&path).unwrap();
        let early = SeqPacket::connect(&path, Duration::from_secs(5)).unwrap_err();
        assert_eq!(early.kind(), io::ErrorKind::ConnectionRefused);
        listener.listen(1).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let far = SeqPacket::connect(&path, Duration::from_secs(5)).unwrap();
        let near = listener.accept().unwrap();
        std::fs::remove_file(&path).unwrap();
        (near, far)
    }

    #[test]
    fn messages_stay_apart_and_bring_descriptors() {
        let (near, far) = pair("seqpacket-messages");
        let (mut room, mut files) = ([0; 8], Vec::new());
        assert_eq!(
            near.receive(&mut room, None).unwrap_err().kind(),
            io::ErrorKind::WouldBlock,
            "an accepted socket does not block"
        );
        far.send(b"one", &[near.as_fd(), far.as_fd()]).unwrap();
        far.send(b"much too long", &[]).unwrap();
        far.send(b"four", &[near.as_fd()]).unwrap();
        let first = near.receive(&mut room, Some(&mut files)).unwrap();
        assert_eq!((first, files.len()), (Received { bytes: 3, is_cut: false }, 2));
        let second = near.receive(&mut room, Some(&mut files)).unwrap();
        assert_eq!((second, files.len()), (Received { bytes: 8, is_cut: true }, 2));
        let third = near.receive(&mut room, None).unwrap();
        assert!(third.is_cut, "there was no room for its descriptor");
        drop((far, files));
        // A child started by another test has copies of all descriptors until it runs.
        let end = crate::readiness::wait(&[near.as_fd()], 60_000_000_000).unwrap();
        assert_eq!(end, crate::readiness::Ready::Failed, "it hung up");
        assert_eq!(near.receive(&mut room, None).unwrap().bytes, 0);
    }

    #[test]
    fn an_end_is_seen_behind_the_last_message_and_by_threads_that_block() {
        let [near, far] = SeqPacket::pair().unwrap();
        near.send(b"last", &[]).unwrap();
        near.end_sending();
        assert_eq!(near.send(b"more", &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        let mut room = [0; 8];
        assert_eq!(far.receive(&mut room, None).unwrap().bytes, 4);
        assert_eq!(far.receive(&mut room, None).unwrap().bytes, 0);
        far.send(b"answer", &[]).unwrap();
        assert_eq!(near.receive(&mut room, None).unwrap().bytes, 6);
        let [one, _other] = SeqPacket::pair().unwrap();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| while far.send(&[0; 1024], &[]).is_ok() {});
            let hearing = scope.spawn(|| one.receive(&mut [0; 8], None).unwrap().bytes);
            far.hang_up();
            one.hang_up();
            sending.join().unwrap();
            assert_eq!(hearing.join().unwrap(), 0);
        });
    }

    #[test]
    fn the_kernel_says_who_is_there() {
        let (near, far) = pair("seqpacket-peer");
        let own = Credentials {
            pid: std::process::id(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        };
        assert_eq!((near.peer().unwrap(), far.peer().unwrap()), (own, own));
        let groups: Vec<u32> =
            rustix::process::getgroups().unwrap().iter().map(|group| group.as_raw()).collect();
        assert_eq!(near.peer_groups().unwrap(), groups);
        let process = near.peer_process().unwrap();
        assert_eq!(
            crate::readiness::wait(&[process.as_fd()], 1000).unwrap(),
            crate::readiness::Ready::TimedOut,
            "this process lives"
        );
    }
}

//! Sends and receives descriptors with the bytes of a local socket.
//!
//! Received descriptors are close-on-exec. The kernel closes those that do not fit.
//!
//! Source: unix(7), `SCM_RIGHTS`.

use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use rustix::process::Pid;

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the buffer that it takes; 0 also after the other end has closed.
    pub bytes: usize,
    /// Whether the message or its descriptors were truncated.
    pub is_cut: bool,
}

/// Sends bytes and descriptors. `space` is for the descriptors: `rustix::cmsg_space!`. Returns the
/// number of bytes sent, which is all of them if the socket keeps messages apart.
///
/// # Errors
/// `InvalidInput` if `space` is too small, or an error from the kernel.
pub fn send(
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    send_with(SendFlags::empty(), socket, bytes, descriptors, space)
}

/// The same, with these flags of sendmsg(2), too.
pub(crate) fn send_with(
    flags: SendFlags,
    socket: impl AsFd,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
    space: &mut [MaybeUninit<u8>],
) -> io::Result<usize> {
    let mut control = SendAncillaryBuffer::new(space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(bytes)];
    let flags = flags | SendFlags::NOSIGNAL;
    Ok(retry_on_intr(|| rustix::net::sendmsg(&socket, &parts, &mut control, flags))?)
}

/// Receives into `room`, and appends received descriptors to `into`; `space` is for them, as in
/// [`send`].
///
/// # Errors
/// `WouldBlock` if there is no message, or another error from the kernel.
pub fn receive(
    socket: impl AsFd,
    room: &mut [u8],
    space: &mut [MaybeUninit<u8>],
    into: &mut Vec<OwnedFd>,
) -> io::Result<Received> {
    receive_with_sender(socket, room, space, into).map(|message| message.received)
}

/// A received message and who sent it.
pub(crate) struct Message {
    pub(crate) received: Received,
    /// The sender's process, if the socket asks for it (`SO_PASSCRED`) and a message came.
    pub(crate) sender: Option<Pid>,
}

/// Like [`receive`]; `space` is also for the sender's credentials.
pub(crate) fn receive_with_sender(
    socket: impl AsFd,
    room: &mut [u8],
    space: &mut [MaybeUninit<u8>],
    into: &mut Vec<OwnedFd>,
) -> io::Result<Message> {
    let mut control = RecvAncillaryBuffer::new(space);
    let mut parts = [IoSliceMut::new(room)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    // SIGCONT also interrupts sockets with a timeout. Source: signal(7).
    let message = retry_on_intr(|| rustix::net::recvmsg(&socket, &mut parts, &mut control, flags))?;
    let mut sender = None;
    for part in control.drain() {
        match part {
            RecvAncillaryMessage::ScmRights(rights) => into.extend(rights),
            RecvAncillaryMessage::ScmCredentials(credentials) => sender = Some(credentials.pid),
            _ => {}
        }
    }
    let is_cut = message.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC);
    Ok(Message { received: Received { bytes: message.bytes, is_cut }, sender })
}

/// Sends one byte, with a descriptor if given.
///
/// # Errors
/// Errors from the kernel.
pub fn send_one(socket: impl AsFd, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    send(socket, b"\n", descriptor.as_slice(), &mut space).map(drop)
}

/// Receives from [`send_one`]. `None` if no descriptor came, or the other end has closed.
///
/// # Errors
/// `InvalidData` for more than one descriptor, or an error from the kernel.
pub fn receive_one(socket: impl AsFd) -> io::Result<Option<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut descriptors = Vec::new();
    let received = receive(socket, &mut [0], &mut space, &mut descriptors)?;
    match received.is_cut {
        true => Err(ErrorKind::InvalidData.into()),
        false => Ok(descriptors.pop()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn one_descriptor_goes_with_one_byte_or_none_does() {
        let (here, mut there) = UnixStream::pair().unwrap();
        let (mut passed, mut kept) = UnixStream::pair().unwrap();
        send_one(&here, Some(passed.as_fd())).unwrap();
        send_one(&here, None).unwrap();
        (&here).write_all(b"more").unwrap();
        let mut again = UnixStream::from(receive_one(&there).unwrap().unwrap());
        assert!(receive_one(&there).unwrap().is_none());
        again.write_all(b"x").unwrap();
        passed.write_all(b"y").unwrap();
        let mut both = [0; 2];
        kept.read_exact(&mut both).unwrap();
        assert_eq!(&both, b"xy");
        drop(here);
        let mut rest = String::new();
        there.read_to_string(&mut rest).unwrap();
        assert_eq!((&rest[..], receive_one(&there).unwrap().is_none()), ("more", true));
    }
}

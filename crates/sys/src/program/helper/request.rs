//! Requests to the helper, as bytes.
//!
//! ```text
//!   what | first number | second number | third number | bytes of the first path | paths
//!    1   |      4       |       4       |      4       |            2            | the rest
//! ```
//!
//! ```text
//!   1 open         flags, mode        path      4 make a folder  mode               path
//!   2 remove                          path      5 set            user, group, mode  and a file
//!   3 rename                          two       6 connect        is a stream, ms    path
//!   8 find         follows links      path      7 run            and an output      path
//! ```
//!
//! For ports that are opened while packets come:
//!
//! ```text
//!   9 bind         mode, kind, ids    path     12 set interface  what, value        its name
//!  10 raw socket   family                      13 set option     name, value        and a socket
//!  11 tap queue    flags              its name 14 load a program                    bytes, files
//!                                              15 serve control                     two sockets
//! ```
//!
//! For programs that run beside the job: 16, the command's number, two outputs and a socket.
//!
//! Numbers are in the machine's order: both ends are one program. `NONE` stands for a number that
//! is not given.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use super::path_of;
use crate::seqpacket::Kind;

/// The longest request: its head and two of the longest paths.
pub(super) const REQUEST_BYTES_MAX: usize = HEAD_BYTES + 2 * PATH_BYTES_MAX;
/// Source: include/uapi/linux/limits.h, `PATH_MAX`.
const PATH_BYTES_MAX: usize = 4096;
const HEAD_BYTES: usize = 15;
const NONE: u32 = u32::MAX;

const OPEN: u8 = 1;
const REMOVE: u8 = 2;
const RENAME: u8 = 3;
const MAKE_FOLDER: u8 = 4;
const SET_OWNER_AND_MODE: u8 = 5;
const CONNECT: u8 = 6;
const RUN: u8 = 7;
const FIND: u8 = 8;
const BIND: u8 = 9;
const RAW_SOCKET: u8 = 10;
const TAP_QUEUE: u8 = 11;
const SET_INTERFACE: u8 = 12;
const SET_OPTION: u8 = 13;
const LOAD: u8 = 14;
const SERVE: u8 = 15;
const LAUNCH: u8 = 16;

/// In the first number of a bind: its mode, or that it stays; and the kind of the socket.
const MODE_STAYS: u32 = 0xffff;
const IS_STREAM: u32 = 1 << 16;

/// What was done for a request.
#[derive(Debug, Default)]
pub(super) struct Done {
    /// How the command ended, as wait(2) says it; otherwise 0.
    pub(super) status: i32,
    pub(super) opened: Option<OwnedFd>,
}

/// The bytes that answer a request; a descriptor may come with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// An error number, or 0.
    pub(super) error: i32,
    /// That of [`Done`].
    pub(super) status: i32,
}

impl Answer {
    pub(super) fn encode(self) -> [u8; 8] {
        (u64::from(self.error as u32) | u64::from(self.status as u32) << 32).to_ne_bytes()
    }

    pub(super) fn decode(bytes: [u8; 8]) -> Self {
        let both = u64::from_ne_bytes(bytes);
        Self { error: both as i32, status: (both >> 32) as i32 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request<'a> {
    Open { path: &'a Path, flags: i32, mode: u32 },
    Find { path: &'a Path, follows_links: bool },
    Remove { path: &'a Path },
    Rename { from: &'a Path, to: &'a Path },
    MakeFolder { path: &'a Path, mode: u32 },
    SetOwnerAndMode { user: Option<u32>, group: Option<u32>, mode: Option<u32> },
    Connect { path: &'a Path, kind: Kind, timeout: Option<Duration> },
    Run { path: &'a Path },
    Bind { path: &'a Path, kind: Kind, mode: Option<u32>, user: Option<u32>, group: Option<u32> },
    RawSocket { family: i32 },
    TapQueue { name: &'a Path, flags: u32 },
    SetInterface { name: &'a Path, setting: u32, value: u32 },
    SetOption { name: i32, value: i32 },
    Load { what: &'a Path },
    Serve,
    Launch { number: u32 },
}

impl<'a> Request<'a> {
    /// # Errors
    /// `ENAMETOOLONG` for a path that the kernel would refuse.
    pub(super) fn encode(&self) -> io::Result<Vec<u8>> {
        let none = Path::new("");
        let (what, numbers, paths) = match *self {
            Self::Open { path, flags, mode } => (OPEN, [flags as u32, mode, 0], [path, none]),
            Self::Find { path, follows_links } => {
                (FIND, [u32::from(follows_links), 0, 0], [path, none])
            }
            Self::Remove { path } => (REMOVE, [0; 3], [path, none]),
            Self::Rename { from, to } => (RENAME, [0; 3], [from, to]),
            Self::MakeFolder { path, mode } => (MAKE_FOLDER, [mode, 0, 0], [path, none]),
            Self::SetOwnerAndMode { user, group, mode } => (
                SET_OWNER_AND_MODE,
                [user, group, mode].map(|number| number.unwrap_or(NONE)),
                [none, none],
            ),
            Self::Connect { path, kind, timeout } => {
                let timeout_ms = timeout.map_or(NONE, |timeout| timeout.as_millis() as u32);
                (CONNECT, [u32::from(kind == Kind::Stream), timeout_ms, 0], [path, none])
            }
            Self::Run { path } => (RUN, [0; 3], [path, none]),
            Self::Bind { path, kind, mode, user, group } => {
                let stream = if kind == Kind::Stream { IS_STREAM } else { 0 };
                let [user, group] = [user, group].map(|number| number.unwrap_or(NONE));
                (BIND, [mode.unwrap_or(MODE_STAYS) | stream, user, group], [path, none])
            }
            Self::RawSocket { family } => (RAW_SOCKET, [family as u32, 0, 0], [none, none]),
            Self::TapQueue { name, flags } => (TAP_QUEUE, [flags, 0, 0], [name, none]),
            Self::SetInterface { name, setting, value } => {
                (SET_INTERFACE, [setting, value, 0], [name, none])
            }
            Self::SetOption { name, value } => {
                (SET_OPTION, [name as u32, value as u32, 0], [none, none])
            }
            Self::Load { what } => (LOAD, [0; 3], [what, none]),
            Self::Serve => (SERVE, [0; 3], [none, none]),
            Self::Launch { number } => (LAUNCH, [number, 0, 0], [none, none]),
        };
        let paths = paths.map(|path| path.as_os_str().as_bytes());
        if paths.iter().any(|path| path.len() >= PATH_BYTES_MAX) {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        let mut bytes = vec![what];
        bytes.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend((paths[0].len() as u16).to_ne_bytes());
        bytes.extend(paths.concat());
        Ok(bytes)
    }

    /// Returns `None` for bytes that [`encode`](Self::encode) does not make.
    pub(super) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, paths) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let number = |at: usize| {
            let bytes = head[1 + 4 * at..].first_chunk().expect("three numbers");
            u32::from_ne_bytes(*bytes)
        };
        let given = |at: usize| Some(number(at)).filter(|&number| number != NONE);
        let (path, other) =
            paths.split_at_checked(usize::from(u16::from_ne_bytes([head[13], head[14]])))?;
        let (path, other) = (path_of(path), path_of(other));
        Some(match head[0] {
            OPEN => Self::Open { path, flags: number(0) as i32, mode: number(1) },
            REMOVE => Self::Remove { path },
            RENAME => Self::Rename { from: path, to: other },
            MAKE_FOLDER => Self::MakeFolder { path, mode: number(0) },
            SET_OWNER_AND_MODE => {
                Self::SetOwnerAndMode { user: given(0), group: given(1), mode: given(2) }
            }
            CONNECT => {
                let kind = if number(0) == 1 { Kind::Stream } else { Kind::Messages };
                let timeout = given(1).map(|ms| Duration::from_millis(ms.into()));
                Self::Connect { path, kind, timeout }
            }
            RUN => Self::Run { path },
            FIND => Self::Find { path, follows_links: number(0) == 1 },
            BIND => {
                let is_stream = number(0) & IS_STREAM != 0;
                let kind = if is_stream { Kind::Stream } else { Kind::Messages };
                let mode = Some(number(0) & !IS_STREAM).filter(|&mode| mode != MODE_STAYS);
                Self::Bind { path, kind, mode, user: given(1), group: given(2) }
            }
            RAW_SOCKET => Self::RawSocket { family: number(0) as i32 },
            TAP_QUEUE => Self::TapQueue { name: path, flags: number(0) },
            SET_INTERFACE => {
                Self::SetInterface { name: path, setting: number(0), value: number(1) }
            }
            SET_OPTION => Self::SetOption { name: number(0) as i32, value: number(1) as i32 },
            LOAD => Self::Load { what: path },
            SERVE => Self::Serve,
            LAUNCH => Self::Launch { number: number(0) },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_is_what_is_read_and_no_other_bytes_are() {
        let (path, to) = (Path::new("/x/y"), Path::new("z"));
        let (timeout, kind) = (Some(Duration::from_secs(5)), Kind::Messages);
        for request in [
            Request::Open { path, flags: libc::O_CREAT | libc::O_WRONLY, mode: 0o600 },
            Request::Find { path, follows_links: true },
            Request::Remove { path },
            Request::Rename { from: path, to },
            Request::MakeFolder { path, mode: 0o700 },
            Request::SetOwnerAndMode { user: None, group: Some(7), mode: Some(0) },
            Request::Connect { path, kind, timeout },
            Request::Connect { path, kind: Kind::Stream, timeout: None },
            Request::Run { path },
            Request::Bind { path, kind, mode: Some(0o600), user: None, group: Some(7) },
            Request::Bind { path, kind: Kind::Stream, mode: None, user: Some(0), group: None },
            Request::RawSocket { family: libc::AF_XDP },
            Request::TapQueue { name: Path::new("t0"), flags: 0x1002 },
            Request::SetInterface { name: Path::new("t0"), setting: 1, value: 9000 },
            Request::SetOption { name: libc::SO_RCVBUFFORCE, value: -1 },
            Request::Load { what: Path::new("\u{1}bytes") },
            Request::Serve,
            Request::Launch { number: 7 },
        ] {
            let bytes = request.encode().unwrap();
            assert!(bytes.len() <= REQUEST_BYTES_MAX);
            assert_eq!(Request::decode(&bytes), Some(request));
            for cut in 0..HEAD_BYTES {
                assert_eq!(Request::decode(&bytes[..cut]), None);
            }
            let unknown = [&[17], &bytes[1..]].concat();
            assert_eq!(Request::decode(&unknown), None);
            let mut long = bytes.clone();
            long[13..15].copy_from_slice(&u16::MAX.to_ne_bytes());
            assert_eq!(Request::decode(&long), None, "a path beyond the end");
        }
        let answer = Answer { error: libc::EACCES, status: -1 };
        assert_eq!(Answer::decode(answer.encode()), answer);
        let long = "x".repeat(PATH_BYTES_MAX);
        let error = Request::Remove { path: Path::new(&long) }.encode().unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    }
}

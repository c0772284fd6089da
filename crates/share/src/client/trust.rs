//! Decides whose logs are read in place, and whose are copied and checked.
//!
//! ```text
//! Trust::NOBODY       copied and checked                                    the default
//! Trust::PROGRAM      in place from a process that runs this program, else copied
//! Trust::own_user()   in place from our own user and root, else refused     unsafe: a promise
//! Trust::anyone()     in place                                              unsafe: a promise
//! ```
//!
//! A reader in place has `&[u8]` over memory that another process may write. That is sound only if
//! that process keeps to the protocol of the log (`burstline_log`, Decision 0001). No check of the
//! memory can prove that. Nor does the process's user: a faulty program of our own user scribbles
//! like any other. So reading in place needs a promise, or an argument. A process that runs the
//! same file as this one has the same [`Writer`](burstline_log::Writer). A reader inside this
//! process relies on that writer, too (Decision 0023).

use std::fs;
use std::path::{Path, PathBuf};

use burstline_sys::inode::FileId;
use burstline_sys::late;
use burstline_sys::seqpacket::Credentials;

use crate::error::ShareError;

/// Publishers whose logs are read in place. All others are copied and checked, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Trust(Whom);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Whom {
    #[default]
    Nobody,
    Program,
    OwnUser,
    Anyone,
}

impl Trust {
    /// Every log is copied and checked: no writer can harm this process.
    pub const NOBODY: Self = Self(Whom::Nobody);

    /// A log is read in place if the publisher is our user or root. The publisher's process must
    /// also run the same file as this one, according to `/proc`. Other logs are copied and checked.
    ///
    /// Cost: some system calls for each attachment.
    pub const PROGRAM: Self = Self(Whom::Program);

    /// Logs of our own user and root are read in place; those of other users are refused.
    ///
    /// # Safety
    /// Each process of our own user or root that publishes under the name keeps to the log's
    /// protocol: it changes no published byte of a pinned segment. This holds as long as a reader
    /// attached with this trust, or a burst of it, lives.
    pub const unsafe fn own_user() -> Self {
        Self(Whom::OwnUser)
    }

    /// Logs of every publisher are read in place.
    ///
    /// # Safety
    /// As for [`own_user`](Self::own_user), for each process that publishes under the name.
    pub const unsafe fn anyone() -> Self {
        Self(Whom::Anyone)
    }

    /// Returns whether logs of the process at the other end of a connection are read in place.
    pub(crate) fn covers(self, path: &Path, peer: Credentials) -> Result<bool, ShareError> {
        let ours = late::user();
        let is_own = peer.uid == ours || peer.uid == 0;
        match self.0 {
            Whom::Nobody => Ok(false),
            Whom::Program => Ok(is_own && runs_this_program(peer.pid)),
            Whom::OwnUser if !is_own => {
                let Credentials { uid, pid, .. } = peer;
                Err(ShareError::NotTrusted { path: path.to_owned(), uid, pid, ours })
            }
            Whom::OwnUser | Whom::Anyone => Ok(true),
        }
    }
}

/// Returns whether a process runs the file that contains this code. False if `/proc` does not show
/// it: for another user's process, another process namespace, or a process with more privileges.
fn runs_this_program(pid: u32) -> bool {
    let theirs = id_of(&format!("/proc/{pid}/exe"));
    pid != 0 && theirs.is_some() && theirs == id_of(OWN_PROGRAM) && is_in_the_program()
}

const OWN_PROGRAM: &str = "/proc/self/exe";

fn id_of(path: &str) -> Option<FileId> {
    fs::metadata(path).ok().as_ref().map(FileId::of)
}

/// Returns whether this code is part of the program's own file. In a library loaded by an
/// interpreter it is not, and two processes of that interpreter may then have different writers.
fn is_in_the_program() -> bool {
    let here = (is_in_the_program as fn() -> bool as *const ()).addr();
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let program = fs::read_link(OWN_PROGRAM).ok();
    program.is_some() && file_at(&maps, here) == program
}

/// Returns the file that is mapped at an address. Source: proc_pid_maps(5).
fn file_at(maps: &str, address: usize) -> Option<PathBuf> {
    maps.lines().find_map(|line| {
        let mut fields = line.splitn(6, ' ');
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        let is_here = (number(start)?..number(end)?).contains(&address);
        is_here.then(|| PathBuf::from(fields.nth(4).unwrap_or_default().trim_start()))
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_of_this_program_is_known_by_its_file() {
        assert!(runs_this_program(std::process::id()));
        // A waiting child that runs another file.
        let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        while id_of(&format!("/proc/{}/exe", other.id())) == id_of(OWN_PROGRAM) {
            std::thread::yield_now(); // before its execve(2)
        }
        assert!(!runs_this_program(other.id()));
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!runs_this_program(other.id()), "it has gone");
        assert!(!runs_this_program(0) && !runs_this_program(u32::MAX));
    }

    #[test]
    fn the_file_at_an_address_is_the_one_whose_range_has_it() {
        let maps = "1000-3000 r-xp 00001000 fe:00 17                         /bin/a b\n\
                    3000-4000 rw-p 00000000 00:00 0 \n\
                    4000-5000 r--p 00000000 fe:00 18                         /lib/x (deleted)\n";
        let at = |address| file_at(maps, address).map(|path| path.display().to_string());
        assert_eq!(at(0xfff), None);
        assert_eq!(at(0x1000).as_deref(), Some("/bin/a b"));
        assert_eq!(at(0x2fff).as_deref(), Some("/bin/a b"));
        assert_eq!(at(0x3000).as_deref(), Some(""));
        assert_eq!(at(0x4000).as_deref(), Some("/lib/x (deleted)"));
        assert_eq!(file_at("nonsense\n\n", 0), None);
    }

    #[test]
    fn each_kind_of_trust_covers_its_own() {
        let ours = late::user();
        let pid = std::process::id();
        let peer = |uid, pid| Credentials { uid, pid, gid: 0 };
        let path = Path::new("/tap");
        // SAFETY: these are not used to attach to a log.
        let (own, anyone) = unsafe { (Trust::own_user(), Trust::anyone()) };
        let covers = |trust: Trust, peer| trust.covers(path, peer).ok();
        let (us, root, other) = (peer(ours, pid), peer(0, pid), peer(ours + 1, pid));
        for (trust, wanted) in [
            (Trust::default(), [Some(false), Some(false), Some(false)]),
            (Trust::PROGRAM, [Some(true), Some(true), Some(false)]),
            (own, [Some(true), Some(true), None]),
            (anyone, [Some(true), Some(true), Some(true)]),
        ] {
            assert_eq!([us, root, other].map(|peer| covers(trust, peer)), wanted, "{trust:?}");
        }
        // Process 1 is not this program, and process 0 does not exist here.
        for pid in [0, 1] {
            assert_eq!(covers(Trust::PROGRAM, peer(ours, pid)), Some(false), "{pid}");
        }
    }
}

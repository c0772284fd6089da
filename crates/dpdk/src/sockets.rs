//! Socket files that drivers make for their peers.
//!
//! net_vhost, net_memif and net_virtio_user listen at a path of their arguments, and remove the
//! file when the device is closed. A job's threads may have become another user by then, who may
//! not remove it: what the driver left is removed through the job's helper process.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use burstline_sys::inode::FileId;
use burstline_sys::late;

/// A socket file that this process made.
struct Made {
    path: String,
    id: FileId,
    /// Open devices that listen there: some drivers share a socket.
    devices: usize,
}

static MADE: Mutex<Vec<Made>> = Mutex::new(Vec::new());

fn made() -> MutexGuard<'static, Vec<Made>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The values of a device's arguments where nothing was before it was opened.
pub(crate) struct Unused(Vec<String>);

impl Unused {
    /// Looks before a device is opened.
    pub(crate) fn of(devargs: &str) -> Self {
        let unused = values(devargs).filter(|path| fs::symlink_metadata(path).is_err());
        Self(unused.map(str::to_owned).collect())
    }
}

/// Notes the sockets of a device that has been opened.
pub(crate) fn opened(devargs: &str, unused: &Unused) {
    let mut made = made();
    for path in values(devargs) {
        if let Some(known) = made.iter_mut().find(|known| known.path == path) {
            known.devices += 1;
        } else if let Some(id) = socket_at(path)
            && unused.0.iter().any(|before| before == path)
        {
            made.push(Made { path: path.to_owned(), id, devices: 1 });
        }
    }
}

/// Removes what is left of the sockets of a device that has been closed.
pub(crate) fn closed(devargs: &str) {
    let mut made = made();
    for path in values(devargs) {
        let Some(known) = made.iter_mut().find(|known| known.path == path) else { continue };
        known.devices -= 1;
        if known.devices == 0 {
            if socket_at(path) == Some(known.id) {
                // If it fails, the file stays, as after a kill: the next listener says so.
                let _ = late::remove_file(Path::new(path));
            }
            made.retain(|known| known.devices > 0);
        }
    }
}

fn values(devargs: &str) -> impl Iterator<Item = &str> {
    devargs.split(',').filter_map(|argument| argument.split_once('=')).map(|(_, value)| value)
}

fn socket_at(path: &str) -> Option<FileId> {
    let found = late::symlink_metadata(Path::new(path)).ok()?;
    found.file_type().is_socket().then(|| FileId::of(&found))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn only_what_a_device_made_is_removed_and_with_its_last_device() {
        let folder = TemporaryFolder::create("burstline-sockets-").unwrap();
        let folder = folder.path();
        let [ours, theirs] = ["ours", "theirs"].map(|name| folder.join(name));
        let _theirs = UnixListener::bind(&theirs).unwrap();
        let devargs = format!("net_x0,socket={},other={},id=0", ours.display(), theirs.display());
        let unused = Unused::of(&devargs);
        let bound = UnixListener::bind(&ours).unwrap();
        opened(&devargs, &unused);
        opened(&devargs, &Unused::of(&devargs));
        closed(&devargs);
        assert!(ours.exists(), "another device listens there");
        closed(&devargs);
        assert!(!ours.exists() && theirs.exists());
        // What another one has made there since is his.
        drop(bound);
        let _bound = UnixListener::bind(&ours).unwrap();
        opened(&devargs, &unused);
        fs::rename(&ours, folder.join("moved")).unwrap();
        let _next = UnixListener::bind(&ours).unwrap();
        closed(&devargs);
        assert!(ours.exists());
    }
}

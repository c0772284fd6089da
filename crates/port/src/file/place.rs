//! Files beside captures: whose they are.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

pub(super) use burstline_sys::inode::{folder_of, or_here, replace};
use burstline_sys::late;
use burstline_sys::temporary::open_whole;

/// Reads a file of at most `most` bytes that describes the captures beside it. It could hide
/// packets: so its owner must be the user, root or the folder's owner, and no one else may have
/// write permission. Links are not followed, and pipes are not waited for.
pub(super) fn read_hint(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let file = open_whole(path)?;
    let (metadata, of_folder) = (file.metadata()?, late::metadata(folder_of(path))?);
    let trusted = [late::user(), 0, of_folder.uid()];
    let is_trusted = trusted.contains(&metadata.uid()) && metadata.mode() & 0o022 == 0;
    if !metadata.is_file() || !is_trusted || metadata.len() > most {
        return Err(io::Error::other("it is not trusted"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::process::Command;

    use burstline_sys::temporary::TemporaryFolder;

    use super::*;

    #[test]
    fn a_file_in_the_way_of_a_new_one_stays() {
        let folder = TemporaryFolder::create("burstline-place-").unwrap();
        let path = folder.path().join("x");
        let theirs = folder.path().join(format!("x.{}", std::process::id()));
        fs::write(&theirs, "precious").unwrap();
        assert_eq!(replace(&path, b"new").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "precious");
        fs::remove_file(&theirs).unwrap();
        replace(&path, b"new").unwrap();
        assert_eq!(read_hint(&path, 3).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_regular_file_is_not_replaced() {
        let folder = TemporaryFolder::create("burstline-place-").unwrap();
        let [path, target] = ["x", "target"].map(|name| folder.path().join(name));
        fs::write(&target, "precious").unwrap();
        let refused = || replace(&path, b"new").unwrap_err().to_string();
        for is_dangling in [false, true] {
            symlink(&target, &path).unwrap();
            assert!(refused().contains("not a regular file"), "{}", refused());
            assert_eq!(fs::read_link(&path).unwrap(), target);
            fs::remove_file(&path).unwrap();
            match is_dangling {
                false => fs::remove_file(&target).unwrap(),
                true => assert!(!target.exists()),
            }
        }
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert!(refused().contains("not a regular file"), "{}", refused());
        assert!(!fs::symlink_metadata(&path).unwrap().is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left beside");
    }

    #[test]
    fn what_others_may_write_or_is_no_file_is_not_read() {
        let folder = TemporaryFolder::create("burstline-place-").unwrap();
        let path = folder.path().join("x");
        fs::write(&path, "hint").unwrap();
        assert_eq!(read_hint(&path, 4).unwrap(), b"hint");
        assert!(read_hint(&path, 3).is_err(), "too long");
        let (link, pipe) = (folder.path().join("link"), folder.path().join("pipe"));
        symlink("/dev/zero", &link).unwrap();
        assert!(read_hint(&link, 4).is_err());
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert!(read_hint(&pipe, 4).is_err());
        fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        assert!(read_hint(&path, 4).is_err(), "its group may write it");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        if chown(&path, Some(65534), None).is_ok() {
            assert!(read_hint(&path, 4).is_err(), "it is another user's");
        }
    }
}

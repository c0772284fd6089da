//! Tests the places of names: each user's own directory, and root's for everybody.

use std::fs;
use std::os::unix::fs::MetadataExt;

use burstline_skip::skip;
use rustix::process::geteuid;

use crate::common::{Directory, Role};

/// Returns the role's output: the path at which it published, and the names it then sees.
fn publish_in(places: &[(&str, &str)], name: &str, user: &str) -> (String, String) {
    let mut role = Role::start_in("places", &[name, user], places);
    let said = (role.hear("path"), role.hear("seen"));
    role.go_on();
    role.end();
    said
}

#[test]
fn a_chosen_directory_is_the_only_one() {
    let directory = Directory::new();
    let run = directory.name("run");
    let (path, seen) = publish_in(&[("BURSTLINE_RUN", &run)], "tap", "own");
    assert_eq!((path, seen), (format!("{run}/tap"), format!("{run}/tap")));
    let made = fs::metadata(&run).unwrap();
    assert_eq!(made.mode() & 0o777, 0o755, "whatever the mask of the process is");
    assert!(fs::read_dir(&run).unwrap().all(|entry| entry.unwrap().file_name() == "tap.lock"));
}

#[test]
fn each_user_has_a_directory_and_sees_roots() {
    if !geteuid().is_root() {
        skip("it needs root; use sudo");
        return;
    }
    let name = format!("test-{}", std::process::id());
    let roots = format!("/run/burstline/{name}");
    let mut publisher = Role::start_in("places", &[&name, "own"], &[]);
    assert_eq!(publisher.hear("path"), roots);

    let directory = Directory::new();
    std::os::unix::fs::chown(directory.path(), Some(65_534), None).unwrap();
    let runtime = directory.name("");
    let (path, seen) = publish_in(&[("XDG_RUNTIME_DIR", &runtime)], &name, "nobody");
    assert_eq!(path, format!("{runtime}burstline/{name}"));
    assert_eq!(seen, format!("{roots} {path}"));
    let made = fs::metadata(directory.name("burstline")).unwrap();
    assert_eq!((made.mode() & 0o777, made.uid()), (0o700, 65_534));

    // Without such a directory, one in /tmp is used, if it belongs to the user alone.
    let own = "/tmp/burstline-65534";
    let (path, _) = publish_in(&[], &name, "nobody");
    assert_eq!(path, format!("{own}/{name}"));
    fs::set_permissions(own, std::os::unix::fs::PermissionsExt::from_mode(0o770)).unwrap();
    let (error, seen) = publish_in(&[], &name, "nobody");
    let told = format!("{own}: owner 65534, mode 0770; it must be accessible to user 65534 only: ");
    assert!(error.starts_with(&told), "{error}");
    assert_eq!(seen, roots);
    fs::remove_dir_all(own).unwrap();

    publisher.go_on();
    publisher.end();
    fs::remove_file(format!("{roots}.lock")).unwrap();
}

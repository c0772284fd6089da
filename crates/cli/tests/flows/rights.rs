//! Rights of verbs that read what sensors send, and trees of flow records.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};

use crate::support::rights::{nobody, reads_without_rights};
use crate::support::ssh::Server;
use crate::support::{Directory, PROGRAM, command, last_object, other, other_or_skip, regular};

/// Threads without rights read what sensors send, and the files where it was kept.
#[test]
fn packets_of_sensors_are_read_without_rights() {
    if nobody().is_none() || other_or_skip("strace", &["-V"]).is_none() {
        return;
    }
    let Some(server) = Server::start("rights-fetch") else { return };
    let directory = &server.directory;
    let recording = regular(directory, "a.pcap", 4000, 90);
    let sensors = directory.file("hosts.toml");
    let port = server.port();
    let sensor = format!(
        "config = \"ssh_config\"\n[[sensor]]\nname = \"fra\"\nhost = \"127.0.0.1\"\n\
         port = {port}\nfiles = [{recording:?}]\nprogram = {PROGRAM:?}\n"
    );
    fs::write(&sensors, sensor).unwrap();
    let (trace, to) = (directory.file("trace"), directory.file("x.pcapng"));
    let calls = "trace=read,pread64,preadv,preadv2,seccomp,clone";
    let strace = ["-f", "-y", "-o", &trace, "-e", calls, PROGRAM];
    let fetch = ["fetch", "--sensors", &sensors, "-o", &to, "--filter", "ip", "--json"];
    let done = other("strace", &[&strace[..], &fetch].concat()).unwrap();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(last_object(&done.stdout)["unaccounted"], 0);
    let lines = fs::read_to_string(&trace).unwrap();
    // ssh itself is the user's, and reads no pipe of ours.
    let kept = reads_without_rights(&lines, "/fra>");
    assert!(kept.is_ok_and(|reads| reads > 0), "{kept:?}\n{lines}");
    let ssh: Vec<_> = lines.lines().filter(|line| line.contains("socket:[")).collect();
    assert!(!ssh.is_empty(), "{lines}");
}

/// The Python that a query starts is the tree's owner, has no capabilities, writes nothing and
/// connects nowhere.
#[test]
fn a_query_starts_python_without_rights() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-query");
    let (tree, python) = (directory.file("tree"), directory.file("python3"));
    fs::create_dir(&tree).unwrap();
    let script = "#!/bin/bash\n\
        cat > /dev/null\n\
        echo '{\"columns\": [\"said\"], \"types\": [\"VARCHAR\"]}'\n\
        grep -E '^(Uid|Cap...|NoNewPrivs):' /proc/self/status | tr '\\t' ' ' | \
            sed 's/.*/[\"&\"]/'\n\
        : > TREE/new && echo '[\"wrote\"]'\n\
        : > /tmp/burstline-rights-query && echo '[\"wrote\"]'\n\
        : < /etc/shadow && echo '[\"read\"]'\n\
        : < /dev/tcp/127.0.0.1/9 && echo '[\"connected\"]'\n\
        echo '[\"end\"]'\n";
    fs::write(&python, script.replace("TREE", &tree)).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    for owner in [nobody.user, 0] {
        chown(&tree, Some(owner), Some(owner)).unwrap();
        let mut query = command(&["query", "SELECT 1", &tree, "--csv"]);
        let done = query.env("BURSTLINE_PYTHON", &python).output().unwrap();
        let (said, errors) =
            (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        assert!(done.status.success(), "{said}{errors}");
        let nothing = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"]
            .map(|set| format!("{set}: 0000000000000000\n"))
            .concat();
        let wanted =
            format!("said\nUid: {owner} {owner} {owner} {owner}\n{nothing}NoNewPrivs: 1\nend\n");
        assert_eq!(said, wanted, "{errors}");
    }
}

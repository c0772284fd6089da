//! Rights of verbs that read what sensors send, and trees of flow records.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::rights::{can_trace, nobody, reads_without_rights, traced};
use crate::support::ssh::Server;
use crate::support::{Directory, PROGRAM, REAL, Run, command, regular, run_json};

/// Threads without rights read the files where packets of sensors are kept.
#[test]
fn packets_of_sensors_are_read_without_rights() {
    if !can_trace() {
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
    let to = directory.file("x.pcapng");
    let calls = "trace=read,pread64,preadv,preadv2,seccomp,clone";
    let fetch = ["fetch", "--sensors", &sensors, "-o", &to, "--filter", "ip", "--json"];
    let lines = traced(directory, &["-y", "-e", calls], &fetch);
    let kept = reads_without_rights(&lines, "/fra>");
    assert!(kept.is_ok_and(|reads| reads > 0), "{kept:?}\n{lines}");
    let sent = reads_without_rights(&lines, "<pipe:");
    assert!(sent.is_ok_and(|reads| reads > 0), "{sent:?}\n{lines}");
}

/// A query starts Python without capabilities, which it cannot regain.
#[test]
fn a_query_starts_python_without_capabilities() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-query");
    let python = directory.file("python3");
    let script = "#!/bin/sh\n\
        cat > /dev/null\n\
        echo '{\"columns\": [\"said\"], \"types\": [\"VARCHAR\"]}'\n\
        grep -E '^(Uid|Cap...|NoNewPrivs):' /proc/self/status | tr '\\t' ' ' | \
            sed 's/.*/[\"&\"]/'\n";
    fs::write(&python, script).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut query = command(&["query", "SELECT 1", &directory.file(""), "--csv"]);
    let done: Run = query.env("BURSTLINE_PYTHON", &python).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let sets = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}: {:016x}\n", 0));
    let wanted = format!("said\nUid: 0 0 0 0\n{}NoNewPrivs: 1\n", sets.concat());
    assert_eq!(done.stdout, wanted, "{}", done.stderr);
}

#[test]
fn a_new_tree_is_its_owners_alone_and_one_that_is_there_stays_as_it_is() {
    let directory = Directory::new("rights-tree");
    let mode = |tree: &str| fs::metadata(tree).unwrap().permissions().mode() & 0o777;
    let (new, old) = (directory.file("new"), directory.file("old"));
    fs::create_dir(&old).unwrap();
    fs::set_permissions(&old, fs::Permissions::from_mode(0o755)).unwrap();
    for (tree, wanted) in [(new, 0o700), (old, 0o755)] {
        run_json(&["flows", REAL, "-o", &tree], 0);
        assert_eq!(mode(&tree), wanted, "{tree}");
    }
}

//! Rights of verbs that read what sensors send, and trees of flow records.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};

use burstline_skip::skip;
use burstline_sys::privileges::landlock_version;

use crate::support::rights::{nobody, reads_without_rights, traced};
use crate::support::ssh::Server;
use crate::support::{Directory, PROGRAM, REAL, Run, command, other_or_skip, regular, run_json};

/// Threads without rights read the files where it was kept what sensors sent.
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
    let to = directory.file("x.pcapng");
    let calls = "trace=read,pread64,preadv,preadv2,seccomp,clone";
    let fetch = ["fetch", "--sensors", &sensors, "-o", &to, "--filter", "ip", "--json"];
    let lines = traced(directory, &["-y", "-e", calls], &fetch);
    let kept = reads_without_rights(&lines, "/fra>");
    assert!(kept.is_ok_and(|reads| reads > 0), "{kept:?}\n{lines}");
}

/// The Python that a query starts may read the tree, whoever owns it, and Python's own folders. It
/// writes nothing and connects nowhere.
#[test]
fn a_query_starts_python_that_may_only_read_the_tree() {
    let Some(nobody) = nobody() else { return };
    if landlock_version() < 4 {
        return skip("this kernel's Landlock does not know TCP");
    }
    let directory = Directory::new("rights-query");
    let [tree, bin] = ["tree", "bin"].map(|name| directory.file(name));
    let others = Directory::new("rights-query-others");
    let secret = others.file("secret");
    let (part, python) = (format!("{tree}/part"), format!("{bin}/python3"));
    for folder in [&tree, &bin] {
        fs::create_dir(folder).unwrap();
    }
    for file in [&part, &secret] {
        fs::write(file, "").unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
    }
    fs::set_permissions(&tree, fs::Permissions::from_mode(0o700)).unwrap();
    for path in [&tree, &part, &secret] {
        chown(path, Some(nobody.user), Some(nobody.group)).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tries = [
        format!("< {part}"),
        format!("< {secret}"),
        "< /etc/shadow".to_owned(),
        format!("> {tree}/new"),
        format!("> {bin}/new"),
        format!("< /dev/tcp/127.0.0.1/{port}"),
    ];
    let tries = tries.map(|what| format!(": {what} && echo '[\"{what}\"]'\n")).concat();
    let script = "#!/bin/bash\n\
        cat > /dev/null\n\
        echo '{\"columns\": [\"said\"], \"types\": [\"VARCHAR\"]}'\n\
        grep -E '^(Uid|Cap...|NoNewPrivs):' /proc/self/status | tr '\\t' ' ' | \
            sed 's/.*/[\"&\"]/'\n"
        .to_owned();
    fs::write(&python, script + &tries + "echo '[\"end\"]'\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let mut query = command(&["query", "SELECT 1", &tree, "--csv"]);
    let done: Run = query.env("BURSTLINE_PYTHON", &python).output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    // CAP_DAC_READ_SEARCH has number 2.
    let sets = [("Inh", 0), ("Prm", 4), ("Eff", 4), ("Bnd", 4), ("Amb", 0)];
    let sets = sets.map(|(set, bits)| format!("Cap{set}: {bits:016x}\n")).concat();
    let wanted = format!("said\nUid: 0 0 0 0\n{sets}NoNewPrivs: 1\n< {part}\nend\n");
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

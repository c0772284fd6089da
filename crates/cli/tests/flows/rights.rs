//! Rights of verbs that read what sensors send, and trees of flow records.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use burstline_testbed::Killed;

use crate::query::{engine_of, tree};
use crate::support::live::wait_until;
use crate::support::rights::{
    CALLS, assert_all_nobodys, assert_read_without_rights, can_trace, nobody, reads_without_rights,
    traced,
};
use crate::support::service::is_alive;
use crate::support::ssh::Server;
use crate::support::{
    Directory, PROGRAM, REAL, REAL_PACKETS, Run, assert_says, command, other, regular, run_json,
};

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
    // To start ssh, musl reads an error's 4 bytes from a pipe: none, if there was no error.
    let is_of_musl = |line: &&str| line.contains("<pipe:") && line.contains(r#", "", 4) "#);
    let of_sensors: String =
        lines.lines().filter(|line| !is_of_musl(line)).map(|line| format!("{line}\n")).collect();
    let sent = reads_without_rights(&of_sensors, "<pipe:");
    assert!(sent.is_ok_and(|reads| reads > 0), "{sent:?}\n{lines}");
}

/// Files of sensors are compacted without rights: a helper opens what is in the tree, and no more.
#[test]
fn a_tree_is_compacted_without_rights() {
    if !can_trace() {
        return;
    }
    let directory = Directory::new("rights-compact");
    let tree = directory.file("tree");
    for _ in 0..2 {
        run_json(&["flows", REAL, "-o", &tree], 0);
    }
    // Only root may write in folders of another user.
    let hours = other("find", &[&tree, "-type", "d"]).unwrap().stdout;
    for folder in hours.lines() {
        chown(folder, Some(1000), Some(1000)).unwrap();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let verb = ["flows", "compact", &tree];
    let lines = traced(&directory, &["-y", "-e", CALLS], &verb);
    assert_read_without_rights(&verb, &lines, ".parquet>");
    let done = run_json(&verb, 0);
    assert_eq!(done["files_before"], done["folders"], "{done}");
    assert_says(&["flows", "compact", &directory.file("missing")], 1, "missing: No such file");
}

/// All threads of a fetch are nobody's. Its launcher starts ssh, and ends it with the fetch. It
/// then removes the folder for what ssh sent, also if the fetch is killed.
#[test]
fn all_threads_of_a_fetch_are_nobodys() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-fetch-all");
    fs::set_permissions(&directory.0, fs::Permissions::from_mode(0o700)).unwrap();
    let [ssh, pid, hosts, kept] =
        ["ssh", "pid", "hosts.toml", "kept"].map(|name| directory.file(name));
    let packets = REAL_PACKETS;
    let report =
        format!(r#"{{"command":"extract","delivered":{packets},"offered":{packets},"lost":{{}}}}"#);
    let script = format!(
        "#!/bin/sh\necho $$ > '{pid}'\ncat '{REAL}'\n\
        [ -e '{kept}/end' ] && echo '{report}' >&2 || exec sleep 600\n"
    );
    fs::write(&ssh, script).unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o700)).unwrap();
    // Only root may write in folders of another user.
    let theirs = directory.file("theirs");
    for folder in [&kept, &theirs] {
        fs::create_dir(folder).unwrap();
        chown(folder, Some(1000), Some(1000)).unwrap();
    }
    let to = format!("{theirs}/x.pcapng");
    fs::write(&hosts, "[[sensor]]\nname = 'fra'\nhost = 'fra'\nfiles = ['/x']\n").unwrap();
    let path = format!("{}:{}", directory.0.display(), std::env::var("PATH").unwrap());
    let fetch = || {
        let mut fetch = command(&["fetch", "--sensors", &hosts, "-o", &to, "--filter", "ip"]);
        fetch.env("PATH", &path).env("TMPDIR", &kept);
        fetch
    };
    let mut job = Killed(fetch().spawn().unwrap());
    let sent = fs::metadata(REAL).unwrap().len();
    let has_come = || {
        let mut folders = fs::read_dir(&kept).unwrap().flatten();
        let spool = folders.next().map(|folder| folder.path().join("fra"));
        spool.and_then(|spool| Some(fs::metadata(spool).ok()?.len())) == Some(sent)
    };
    wait_until("the packets have come", has_come);
    assert_all_nobodys(job.id(), &nobody);
    let program: u32 = fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    job.kill().unwrap();
    job.wait().unwrap();
    wait_until("ssh has ended", || !is_alive(program));
    wait_until("the folder is gone", || fs::read_dir(&kept).unwrap().count() == 0);
    assert!(!Path::new(&to).exists());
    // Undisturbed it writes root's file, where only root may.
    fs::write(format!("{kept}/end"), "").unwrap();
    let run: Run = fetch().output().unwrap().into();
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    assert_eq!(run_json(&["count", &to], 0)["total"]["delivered"], REAL_PACKETS);
    assert_eq!(fs::metadata(&to).unwrap().uid(), 0);
    assert_eq!(fs::read_dir(&kept).unwrap().count(), 1, "only its `end`");
}

/// Writes a program that takes the place of Python.
fn python(directory: &Directory, script: &str) -> String {
    let python = directory.file("python3");
    fs::write(&python, format!("#!/bin/sh\n{script}")).unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    python
}

/// A query starts Python as nobody, without capabilities, which it cannot regain, in a filter of
/// calls and in Landlock.
#[test]
fn a_query_starts_python_as_nobody() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-query");
    let beside = directory.file("beside");
    fs::write(&beside, "all may read this").unwrap();
    let script = format!(
        "echo ready\n\
        cat > /dev/null\n\
        echo '{{\"columns\": [\"said\"], \"types\": [\"VARCHAR\"]}}'\n\
        grep -E '^(Uid|Gid|Cap...|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' ' | \
            sed 's/.*/[\"&\"]/'\n\
        for file in /etc/shadow '{beside}' /etc/hostname; do\n\
            cat \"$file\" > /dev/null 2>&1 && echo '[\"read\"]'\n\
        done\n\
        for file in /etc/passwd '{beside}' /tmp/x /dev/shm/x; do\n\
            (: >> \"$file\") 2>/dev/null && echo '[\"written\"]'\n\
        done\n\
        : > \"$TMPDIR/x\" && echo '[\"spilled\"]'\n\
        echo \"[\\\"secret $SECRET\\\"]\"\n"
    );
    let python = python(&directory, &script);
    let mut query = command(&["query", "SELECT 1", &directory.file("tree"), "--csv"]);
    query.env("BURSTLINE_PYTHON", &python).env("SECRET", "of root");
    let done: Run = query.output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}{}", done.stdout, done.stderr);
    let sets = ["Inh", "Prm", "Eff", "Bnd", "Amb"].map(|set| format!("Cap{set}: {:016x}\n", 0));
    let ids = |id: u32| [id; 4].map(|id| format!(" {id}")).concat();
    let wanted = format!(
        "said\nUid:{}\nGid:{}\n{}NoNewPrivs: 1\nSeccomp: 2\nspilled\nsecret \n",
        ids(nobody.user),
        ids(nobody.group),
        sets.concat()
    );
    assert_eq!((&done.stdout, &done.stderr[..]), (&wanted, ""));
}

/// Threads that a package starts have no more rights than DuckDB's.
#[test]
fn what_answers_a_query_opens_nothing_but_its_own() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-engine");
    let Some(tree) = tree(&directory) else { return };
    let packages = directory.file("packages");
    fs::create_dir(&packages).unwrap();
    let module = "import os, socket, sys, threading, time\n\
        def is_filtered():\n\
        \x20   try: return 'Seccomp_filters:\\t2' in open('/proc/thread-self/status').read()\n\
        \x20   except OSError: return False # the engine closes what it does not know\n\
        def tell():\n\
        \x20   while not is_filtered():\n\
        \x20       time.sleep(0.01)\n\
        \x20   for act in (lambda: socket.socket(), lambda: socket.socketpair(),\n\
        \x20       lambda: socket.socket(socket.AF_UNIX), lambda: open('/etc/shadow'),\n\
        \x20       lambda: open('/etc/passwd', 'a'), lambda: open('/proc/1/environ'),\n\
        \x20       lambda: os.listdir(sys.argv[0] + '/'), lambda: os.open('/dev/tty', 2)):\n\
        \x20       try:\n\
        \x20           print(act(), file=sys.stderr)\n\
        \x20       except OSError as error:\n\
        \x20           print(error.errno in (1, 13), file=sys.stderr)\n\
        threading.Thread(target=tell).start()\n";
    let module = module.replace("sys.argv[0] + '/'", "'/'");
    fs::write(format!("{packages}/pytz.py"), module).unwrap();
    let mut query = command(&["query", "SELECT count(*) AS n FROM flows", &tree, "--csv"]);
    let done: Run = query.env("PYTHONPATH", &packages).output().unwrap().into();
    assert_eq!((done.code, &done.stdout[..]), (Some(0), "n\n80\n"), "{}", done.stderr);
    assert_eq!(done.stderr, "True\n".repeat(8));
}

/// While DuckDB computes, no thread of it or of ours has a right.
#[test]
fn all_threads_of_a_query_are_nobodys() {
    let Some(nobody) = nobody() else { return };
    let directory = Directory::new("rights-threads");
    let Some(tree) = tree(&directory) else { return };
    let sql = "SELECT count(*) FROM range(1000000000000) AS a";
    let mut asks = command(&["query", sql, &tree]).spawn().unwrap();
    let engine = engine_of(asks.id());
    assert_all_nobodys(asks.id(), &nobody);
    assert_all_nobodys(engine, &nobody);
    asks.kill().unwrap();
    asks.wait().unwrap();
}

/// A Python that does not start as nobody is root's, without capabilities, and the query says so.
#[test]
fn a_python_that_nobody_cannot_start_stays_confined_as_root() {
    if nobody().is_none() {
        return;
    }
    let directory = Directory::new("rights-root");
    let beside = directory.file("beside");
    fs::write(&beside, "kept").unwrap();
    let script = format!(
        "[ \"$(id -u)\" = 0 ] || exit 1\n\
        echo ready\n\
        cat > /dev/null\n\
        echo '{{\"columns\": [\"said\"], \"types\": [\"VARCHAR\"]}}'\n\
        grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\\t' ' ' | \
            sed 's/.*/[\"&\"]/'\n\
        (: > '{beside}') 2>/dev/null && echo '[\"written\"]'\n\
        true\n"
    );
    let python = python(&directory, &script);
    let mut query = command(&["query", "SELECT 1", &directory.file(""), "--csv"]);
    let done: Run = query.env("BURSTLINE_PYTHON", &python).output().unwrap().into();
    let none = format!("{:016x}", 0);
    let wanted = format!("said\nCapEff: {none}\nCapBnd: {none}\nNoNewPrivs: 1\nSeccomp: 2\n");
    assert_eq!((done.code, &done.stdout), (Some(0), &wanted), "{}", done.stderr);
    let note = format!("note: {python} stays root without capabilities");
    assert!(done.stderr.contains(&note) && done.stderr.lines().count() == 1, "{}", done.stderr);
    assert_eq!(fs::read(&beside).unwrap(), b"kept");
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

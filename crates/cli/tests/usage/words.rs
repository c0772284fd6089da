//! Words without a scheme: whether they are an interface or a file depends on what exists.

use std::fs;

use crate::support::{Directory, PROGRAM, REAL, Run, assert_says};
use burstline_testbed::{Bed, NEAR};

/// An interface whose name looks like a file's.
const DOTTED: &str = "d.100";

/// Runs a job on a host in a directory.
fn run_in(bed: &Bed, directory: &Directory, job: &str) -> Run {
    let folder = directory.file("");
    let out = [directory.file(".code"), directory.file(".out"), directory.file(".err")];
    let script = format!("cd {folder}; {PROGRAM} {job} > $1 2> $2; echo $? > $0");
    let arguments = ["-c", &script, &out[0], &out[1], &out[2]];
    bed.near.command("sh", &arguments).unwrap();
    let [code, stdout, stderr] = out.map(|path| fs::read_to_string(path).unwrap());
    Run { code: Some(code.trim().parse().unwrap()), stdout, stderr }
}

/// Returns the files in a directory, except hidden ones.
fn files(directory: &Directory) -> Vec<String> {
    let names = fs::read_dir(&directory.0).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names
}

#[test]
fn an_interface_with_a_dot_in_its_name_is_an_interface_and_never_a_file() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("words-dotted");
    bed.near.command("ip", &["link", "add", DOTTED, "type", "veth", "peer", "name", "e"]).unwrap();
    for interface in [DOTTED, "e"] {
        bed.near.command("ip", &["link", "set", interface, "up"]).unwrap();
    }
    let before = bed.near.counts("e").received;
    let jobs = [
        format!("generate -o {DOTTED} --packets 10"),
        format!("capture {REAL} -o {DOTTED}"),
        format!("replay {REAL} --top-speed -o {DOTTED}"),
        format!("bounce 'gen:?packets=10' {DOTTED}"),
        "balance 'gen:?packets=10' --workers 1 -o d.{k}00".to_owned(),
        format!("count {DOTTED} --duration 10ms"),
        format!("merge {DOTTED} --duration 10ms --offset {DOTTED}=1ms"),
    ];
    // The only worker has number 0, also for an interface.
    bed.near.command("ip", &["link", "add", "d.000", "type", "veth", "peer", "name", "f"]).unwrap();
    bed.near.command("ip", &["link", "set", "d.000", "up"]).unwrap();
    bed.near.command("ip", &["link", "set", "f", "up"]).unwrap();
    for job in jobs {
        let run = run_in(&bed, &directory, &job);
        assert_eq!(run.code, Some(0), "{job}: {}{}", run.stderr, run.stdout);
        assert_eq!(files(&directory), [""; 0], "{job}");
    }
    assert!(bed.near.counts("e").received >= before + 20, "they were sent");
    // An interface's name where a file is expected is ambiguous.
    for job in ["capture gen:?packets=1 -w", "merge gen:?packets=1 -w"] {
        let run = run_in(&bed, &directory, &format!("{job} {DOTTED}"));
        assert!(run.code == Some(2) && run.stderr.contains("./d.100"), "{}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
    }
    assert_eq!(files(&directory), [""; 0]);
    for job in ["generate --packets 1 -o ./d.100", "generate --packets 1 -o file:d.100"] {
        let run = run_in(&bed, &directory, job);
        assert_eq!((run.code, files(&directory)), (Some(0), vec![DOTTED.to_owned()]), "{job}");
    }
    // Now both exist.
    for job in ["generate --packets 1 -o", "count --duration 1ms"] {
        let run = run_in(&bed, &directory, &format!("{job} {DOTTED}"));
        let asks = run.stderr.contains("write afpacket:d.100 or file:d.100");
        assert!(run.code == Some(2) && asks, "{job}: {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1, "{}", run.stderr);
        for scheme in ["afpacket", "file"] {
            let run = run_in(&bed, &directory, &format!("{job} {scheme}:{DOTTED}"));
            assert_eq!(run.code, Some(0), "{job} {scheme}: {}", run.stderr);
        }
    }
}

#[test]
fn a_vlan_that_is_not_there_is_no_new_file() {
    let Some(bed) = Bed::or_skip() else { return };
    let directory = Directory::new("words-vlan");
    let run = run_in(&bed, &directory, &format!("generate --packets 1 -o {NEAR}.77"));
    let mend = format!("ip link add link {NEAR} name {NEAR}.77 type vlan id 77");
    assert!(run.code == Some(1) && run.stderr.contains(&mend), "{}", run.stderr);
    assert_eq!(files(&directory), [""; 0]);
    let run = run_in(&bed, &directory, &format!("generate --packets 1 -o {NEAR}.pcap"));
    assert_eq!((run.code, files(&directory)), (Some(0), vec![format!("{NEAR}.pcap")]));
}

#[test]
fn a_file_needs_no_dot_in_its_name() {
    let directory = Directory::new("words-files");
    fs::copy(REAL, directory.file("my capture")).unwrap();
    let here = |arguments: &[&str]| -> Run {
        let mut command = crate::support::command(arguments);
        command.current_dir(&directory.0).output().unwrap().into()
    };
    for job in
        [&["count", "my capture"][..], &["replay", "my capture", "--top-speed", "-o", "null:"]]
    {
        let run = here(job);
        assert_eq!(run.code, Some(0), "{job:?}: {}", run.stderr);
        assert!(run.stdout.contains("149"), "{}", run.stdout);
    }
    // The error about a missing source says what was looked for.
    for job in
        [&["count", "nosuch"][..], &["replay", "nosuch", "-o", "null:"], &["count", "no.pcap"]]
    {
        let run = here(job);
        let wanted = format!("burstline: '{}' is neither a network interface (there are: ", job[1]);
        assert!(run.code == Some(1) && run.stderr.starts_with(&wanted), "{}", run.stderr);
        assert!(run.stderr.ends_with(") nor a file\n"), "{}", run.stderr);
    }
    for name in ["nosuch", "nosuch.100"] {
        let run = here(&["generate", "--packets", "1", "-o", name]);
        let mend = format!(") nor a file; for a new file write file:{name} or ./{name}\n");
        assert!(run.code == Some(1) && run.stderr.ends_with(&mend), "{}", run.stderr);
        assert_eq!(files(&directory), ["my capture"]);
    }
    for (output, file) in [
        ("file:nosuch.100", "nosuch.100"),
        ("./also", "also"),
        ("new.pcap", "new.pcap"),
        ("new.pcapng.gz", "new.pcapng.gz"),
    ] {
        let run = here(&["generate", "--packets", "1", "-o", output]);
        assert!(run.code == Some(0) && files(&directory).contains(&file.to_owned()), "{output}");
    }
}

#[test]
fn an_interface_is_no_file_to_replay() {
    assert_says(&["replay", "afpacket:lo", "-o", "null:"], 2, "replay reads files");
}

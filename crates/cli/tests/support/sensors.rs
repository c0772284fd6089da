//! Programs that capture by our libpcap, started as described on the page on sensors.
#![allow(dead_code)] // each test file uses a part

use std::net::UdpSocket;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{env, fs};

use burstline_testbed::{Bed, FAR, FAR_ADDRESS, Host, Program};

use super::live::wait_until;
use super::{Directory, PROGRAM};

/// Returns the folder of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this is crates/cli")
}

fn page() -> String {
    fs::read_to_string(repository().join("docs/sensors.md")).unwrap()
}

/// Returns the only inline code on that page that begins with `start`.
pub(crate) fn code_of_page(start: &str) -> String {
    let page = page();
    let mut found = page.split('`').skip(1).step_by(2).filter(|code| code.starts_with(start));
    let code = found.next().unwrap_or_else(|| panic!("the page has no code: {start}"));
    assert_eq!(found.next(), None, "the page has other code: {start}");
    code.replace('\n', " ")
}

/// Returns the first block of commands on that page.
pub(crate) fn first_block_of_page() -> String {
    let page = page();
    page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap().to_owned()
}

/// Returns the only line on the page on sensors that begins with `start`.
pub(crate) fn line_of_page(start: &str) -> String {
    let page = page();
    let mut lines = page.lines().filter(|line| line.starts_with(start));
    let line = lines.next().unwrap_or_else(|| panic!("the page has no line: {start}"));
    assert_eq!(lines.next(), None, "the page has another line: {start}");
    line.to_owned()
}

/// Returns whether Suricata can be started: `scripts/suricata`.
pub(crate) fn is_suricata_there() -> bool {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    target.join("suricata/usr/bin/suricata").exists()
}

/// Returns our libpcap, as built by cargo for the tests.
pub(crate) fn library() -> PathBuf {
    env::current_exe().unwrap().with_file_name("libburstline_pcap.so")
}

/// The files of `make install-pcap`, and `burstline` and `suricata`, in a directory.
pub(crate) struct Installed {
    path: String,
    names: PathBuf,
}

impl Installed {
    /// Installs into the directory, where names are published, too.
    pub(crate) fn new(directory: &Directory) -> Self {
        let [bin, libraries] = ["bin", "burstline-pcap"].map(|name| directory.0.join(name));
        for folder in [&bin, &libraries] {
            fs::create_dir(folder).unwrap();
        }
        symlink(library(), libraries.join("libpcap.so.0.8")).unwrap();
        let starter = fs::read_to_string(repository().join("crates/pcap/burstline-run.in"));
        let starter = starter.unwrap().replace("@LIBDIR@", directory.0.to_str().unwrap());
        let suricata = repository().join("scripts/suricata");
        let suricata = format!("#!/bin/sh\nexec '{}' \"$@\"\n", suricata.display());
        for (name, text) in [("burstline-run", starter), ("suricata", suricata)] {
            fs::write(bin.join(name), text).unwrap();
            fs::set_permissions(bin.join(name), PermissionsExt::from_mode(0o755)).unwrap();
        }
        let program = Path::new(PROGRAM).parent().unwrap().display();
        let path = format!("{}:{program}:{}", bin.display(), env::var("PATH").unwrap());
        Self { path, names: directory.0.clone() }
    }

    /// Starts a shell command in the directory, and returns when it reports that it is ready. Its
    /// output is in `NAME.out` and `NAME.err` there.
    pub(crate) fn start(&self, host: &Host, name: &str, command: &str, ready: &str) -> Program {
        let [out, err] = ["out", "err"]
            .map(|end| self.names.join(format!("{name}.{end}")).display().to_string());
        // An earlier command of this name left its ready line.
        for file in [&out, &err] {
            let _ = fs::remove_file(file);
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let environment = [
            ("PATH", &*self.path),
            ("BURSTLINE_RUN", self.names.to_str().unwrap()),
            ("CARGO_TARGET_DIR", target.to_str().unwrap()),
            ("LC_ALL", "C"),
        ];
        let script = format!("exec > \"$0\" 2> \"$1\"; cd \"$BURSTLINE_RUN\"; exec {command}");
        let program = host.start("sh", &["-c", &script, &out, &err], &environment).unwrap();
        let text =
            || [&out, &err].map(|file| fs::read_to_string(file).unwrap_or_default()).concat();
        wait_until(&format!("{command} says {ready}"), || text().contains(ready));
        program
    }

    /// Returns the output of a started command.
    pub(crate) fn printed(&self, name: &str) -> String {
        fs::read_to_string(self.names.join(format!("{name}.out"))).unwrap()
    }
}

/// Renames the far host's interface as on the page.
pub(crate) fn rename_far(bed: &Bed) {
    let rename = format!("ip link set {FAR} down; ip link set {FAR} name eth0 up");
    bed.far.command("sh", &["-c", &rename]).unwrap();
}

/// Number of conversations, and of packets in each.
pub(crate) const QUESTIONS: [u64; 2] = [64, 10];

/// Sends DNS queries from the near host to the far one, which accepts them as long as the result
/// lives, but does not answer.
pub(crate) fn ask_for_names(bed: &Bed) -> UdpSocket {
    let server = bed.far.run(|| UdpSocket::bind((FAR_ADDRESS, 53)).unwrap());
    bed.near.run(|| {
        let question = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x07example\x03com\0\0\x01\0\x01";
        // All are bound before one is closed, so no port is used twice.
        let clients: Vec<_> =
            (0..QUESTIONS[0]).map(|_| UdpSocket::bind("0.0.0.0:0").unwrap()).collect();
        for client in &clients {
            for _ in 0..QUESTIONS[1] {
                client.send_to(question, (FAR_ADDRESS, 53)).unwrap();
            }
        }
    });
    server
}

/// Ends a program like Ctrl-C, and waits until it is gone.
pub(crate) fn interrupt(program: Program) {
    burstline_testbed::signal(program.process_id(), "-INT").unwrap();
    let (is_success, text) = program.finish().unwrap();
    assert!(is_success, "{text}");
}

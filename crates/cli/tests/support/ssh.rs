//! A real ssh server with its own keys, on loopback or on a host of a bed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use burstline_skip::skip;
use burstline_testbed::{Host, Program};

use super::{Directory, is_root, is_there, other_or_skip};

const SSHD: &str = "/usr/sbin/sshd";

/// Any port: on a host of a bed all are free.
const PORT: u16 = 2222;

/// An ssh server, its keys, and a client's configuration. Dropping it ends the server.
pub(crate) struct Server {
    process: Process,
    pub(crate) directory: Directory,
    port: u16,
}

enum Process {
    Own(Child),
    /// Killed when it is dropped.
    OnHost {
        _program: Program,
    },
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Process::Own(child) = &mut self.process {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Server {
    /// Starts a server on loopback. `None` without ssh, after counting the test as skipped.
    pub(crate) fn start(name: &str) -> Option<Self> {
        // If another program takes the port in between, the server ends and this fails.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let directory = keys(name, "127.0.0.1", port)?;
        let mut command = Command::new(SSHD);
        command.args(["-D", "-e", "-f", &directory.file("sshd_config")]);
        let log = fs::File::create(directory.file("sshd.log")).unwrap();
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Some(Self::listening(Process::Own(child), directory, port))
    }

    /// Starts a server on a host, at its address, through the command prefix `before`.
    pub(crate) fn on(name: &str, host: &Host, address: &str, before: &[&str]) -> Option<Self> {
        let directory = keys(name, address, PORT)?;
        let [config, log] = ["sshd_config", "sshd.log"].map(|name| directory.file(name));
        let script = format!("exec \"$@\" {SSHD} -D -e -f '{config}' 2> '{log}'");
        let words = [&["-c", &script, "sh"], before].concat();
        let _program = host.start("sh", &words, &[]).unwrap();
        Some(Self::listening(Process::OnHost { _program }, directory, PORT))
    }

    fn listening(process: Process, directory: Directory, port: u16) -> Self {
        let server = Self { process, directory, port };
        let began = Instant::now();
        loop {
            let log = fs::read_to_string(server.directory.file("sshd.log")).unwrap_or_default();
            if log.contains("Server listening on") {
                return server;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "sshd does not listen: {log}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Writes a script to run there in place of burstline.
    pub(crate) fn script(&self, name: &str, text: &str) -> String {
        let path = self.directory.file(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }
}

/// Creates both sides' keys and configurations.
fn keys(name: &str, address: &str, port: u16) -> Option<Directory> {
    if !Path::new(SSHD).exists() || !is_there("ssh") {
        skip("sshd and ssh are not installed: scripts/setup test");
        return None;
    }
    let directory = Directory::new(name);
    let file = |name: &str| directory.file(name);
    for key in ["host", "user"] {
        let made =
            other_or_skip("ssh-keygen", &["-q", "-t", "ed25519", "-N", "", "-f", &file(key)])?;
        assert_eq!(made.code, Some(0), "{}", made.stderr);
    }
    fs::copy(file("user.pub"), file("authorized")).unwrap();
    let (host, authorized) = (file("host"), file("authorized"));
    let config = format!(
        "Port {port}\nListenAddress {address}\nHostKey {host}\nAuthorizedKeysFile {authorized}\n\
         StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n\
         KbdInteractiveAuthentication no\nMaxStartups 100\n"
    );
    fs::write(file("sshd_config"), config).unwrap();
    let known = fs::read_to_string(file("host.pub")).unwrap();
    fs::write(file("known"), format!("[{address}]:{port} {known}")).unwrap();
    let (user, known) = (file("user"), file("known"));
    let config = format!(
        "Port {port}\nIdentityFile {user}\nIdentitiesOnly yes\nUserKnownHostsFile {known}\n\
         GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\n"
    );
    fs::write(file("ssh_config"), config).unwrap();
    if is_root() {
        // Source: sshd(8), "FILES". Debian's service creates it.
        fs::create_dir_all("/run/sshd").unwrap();
    }
    Some(directory)
}

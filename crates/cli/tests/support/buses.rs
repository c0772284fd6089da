//! Real buses: Kafka, and NATS with JetStream, as installed by scripts/setup buses.

use std::collections::BTreeSet;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burstline_skip::skip;
use burstline_testbed::Host;
use serde_json::Value;

use super::{Directory, Run};

const GATHER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fleet/gather.py");
/// A topic with three partitions, and a stream with the subject.
pub(crate) const TOPIC: &str = "burstline.flows";
pub(crate) const STREAM: &str = "burstline";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Kafka,
    Nats,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::Nats => "nats",
        }
    }
}

/// Returns the path of what `scripts/setup buses` has installed.
fn installed(name: &str) -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".local/share");
    std::env::var_os("XDG_DATA_HOME").map_or_else(home, PathBuf::from).join("burstline").join(name)
}

/// One Java VM at a time: several starting together take minutes on two cores.
static TURN: Mutex<()> = Mutex::new(());

/// A server whose messages survive its death.
pub(crate) struct Bus {
    pub(crate) kind: Kind,
    pub(crate) address: String,
    directory: Directory,
    /// The command prefix that runs programs on the server's host.
    prefix: Vec<String>,
    child: Option<Child>,
    /// The arguments of NATS.
    words: Vec<String>,
    /// Whether its messages are on a separate file system.
    is_mounted: bool,
    _turn: Option<MutexGuard<'static, ()>>,
}

impl Bus {
    /// Starts a server. `None` if it is not installed, or this program has no client for it.
    pub(crate) fn start(kind: Kind) -> Option<Self> {
        Self::start_on(kind, None)
    }

    /// Starts NATS with other arguments than those that make it store messages.
    pub(crate) fn start_nats(words: &[&str]) -> Option<Self> {
        let mut bus = Self::new(Kind::Nats, None)?;
        bus.words = words.iter().map(|word| (*word).to_owned()).collect();
        bus.up();
        Some(bus)
    }

    /// Like `start`, on a host with an address.
    pub(crate) fn start_on(kind: Kind, host: Option<(&Host, &str)>) -> Option<Self> {
        let mut bus = Self::new(kind, host)?;
        bus.prepare();
        bus.up();
        Some(bus)
    }

    /// Like `start`, with a message disk of this many MiB. `None` also if we may not mount it.
    pub(crate) fn start_on_disk(kind: Kind, mib: u32) -> Option<Self> {
        let mut bus = Self::new(kind, None)?;
        fs::create_dir(bus.directory.file("data")).unwrap();
        bus.is_mounted = bus.mount(&format!("size={mib}m"));
        if !bus.is_mounted {
            skip("a file system may not be mounted here");
            return None;
        }
        bus.prepare();
        bus.up();
        Some(bus)
    }

    /// Resizes its disk to this many MiB.
    pub(crate) fn resize_disk(&self, mib: u32) {
        assert!(self.mount(&format!("remount,size={mib}m")), "{mib} MiB");
    }

    fn mount(&self, options: &str) -> bool {
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", options, "tmpfs", &self.directory.file("data")]);
        command.status().is_ok_and(|status| status.success())
    }

    /// Prepares a server that is not started yet.
    fn new(kind: Kind, host: Option<(&Host, &str)>) -> Option<Self> {
        let is_built = match kind {
            Kind::Kafka => cfg!(feature = "kafka"),
            Kind::Nats => cfg!(feature = "nats"),
        };
        if !is_built {
            skip(format!("built without {}: make buses", kind.name()));
            return None;
        }
        if !is_installed(kind) {
            skip(format!("{} is not installed: scripts/setup buses", kind.name()));
            return None;
        }
        let turn =
            (kind == Kind::Kafka).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
        let prefix = host.map_or_else(Vec::new, |(host, _)| enter(host));
        let (ip, port) = (host.map_or("127.0.0.1", |(_, ip)| ip), free_port());
        let (directory, address) = (Directory::new(kind.name()), format!("{ip}:{port}"));
        let words = ["-js".to_owned(), "-sd".to_owned(), directory.file("data")].to_vec();
        let (child, is_mounted) = (None, false);
        Some(Self { kind, address, directory, prefix, child, words, is_mounted, _turn: turn })
    }

    /// Returns the flag to send records there.
    pub(crate) fn flag(&self) -> [&str; 2] {
        let flag = if self.kind == Kind::Kafka { "--kafka" } else { "--nats" };
        [flag, &self.address]
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let words: Vec<&str> = self.prefix.iter().map(String::as_str).chain([program]).collect();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).args(arguments).stdin(Stdio::null());
        command
    }

    fn java(&self, main: &str, arguments: &[&str]) -> Command {
        let libraries = format!("{}/*", installed("kafka").display());
        let log =
            format!("-Dlog4j2.configurationFile=file:{}", self.directory.file("log4j2.properties"));
        let java = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", &libraries, &log, main];
        self.command("java", &[&java[..], arguments].concat())
    }

    /// Writes Kafka's settings and formats its folder. NATS needs neither.
    fn prepare(&self) {
        if self.kind != Kind::Kafka {
            return;
        }
        let (data, address) = (self.directory.file("data"), &self.address);
        let controller = format!("{}:{}", address.split(':').next().unwrap(), free_port());
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@{controller}\n\
             listeners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
             advertised.listeners=PLAINTEXT://{address}\n\
             controller.listener.names=CONTROLLER\nlog.dirs={data}\nnum.partitions=3\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n"
        );
        let log = "rootLogger.level=WARN\nrootLogger.appenderRef.out.ref=out\n\
                   appender.out.type=Console\nappender.out.name=out\n";
        let file = self.directory.file("server.properties");
        fs::write(&file, settings).unwrap();
        fs::write(self.directory.file("log4j2.properties"), log).unwrap();
        let words = ["format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", &file];
        let made: Run = self.java("kafka.tools.StorageTool", &words).output().unwrap().into();
        assert_eq!(made.code, Some(0), "{}{}", made.stdout, made.stderr);
    }

    /// Starts it, and waits until it listens.
    pub(crate) fn up(&mut self) {
        let (ip, port) = self.address.split_once(':').unwrap();
        let mut command = match self.kind {
            Kind::Kafka => self.java("kafka.Kafka", &[&self.directory.file("server.properties")]),
            Kind::Nats => {
                let words = self.words.iter().map(String::as_str);
                let words: Vec<&str> = words.chain(["-a", ip, "-p", port]).collect();
                self.command("nats-server", &words)
            }
        };
        let log = fs::File::create(self.directory.file("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.child = Some(command.spawn().unwrap());
        self.wait_until_it_listens();
    }

    fn wait_until_it_listens(&mut self) {
        let begun = Instant::now();
        loop {
            let there = match self.prefix.is_empty() {
                true => TcpStream::connect(&self.address).is_ok(),
                false => {
                    let (ip, port) = self.address.split_once(':').unwrap();
                    let dial = format!("echo > /dev/tcp/{ip}/{port}");
                    let dialled =
                        self.command("bash", &["-c", &dial]).stderr(Stdio::null()).status();
                    dialled.is_ok_and(|status| status.success())
                }
            };
            if there {
                return;
            }
            let log = || fs::read_to_string(self.directory.file("log")).unwrap_or_default();
            let ended = self.child.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "{:?} ended: {}", self.kind, log());
            assert!(begun.elapsed() < Duration::from_secs(600), "{:?}: {}", self.kind, log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        burstline_testbed::signal(self.child.as_ref().unwrap().id(), name).unwrap();
    }

    /// Writes all its messages into a tree, and returns their names in order.
    pub(crate) fn gather(&self, tree: &str) -> Vec<String> {
        let place = if self.kind == Kind::Kafka { TOPIC } else { STREAM };
        let words = [GATHER, self.kind.name(), &self.address, place, tree];
        let python = installed("buses").join("bin/python");
        let output = self.command(&python.to_string_lossy(), &words).output().unwrap();
        let run: Run = output.into();
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
        let line = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        run.stdout.lines().map(|text| line(text)["id"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs a script with NATS's client, where `streams` is its stream manager.
    pub(crate) fn administer(&self, script: &str) {
        let program = format!(
            "import asyncio, nats\n\
             async def main():\n    client = await nats.connect('nats://{}')\n    \
             streams = client.jetstream()\n    {script}\n    await client.close()\n\
             asyncio.run(main())",
            self.address
        );
        let python = installed("buses").join("bin/python");
        let run: Run = Command::new(python).args(["-c", &program]).output().unwrap().into();
        assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
    }
}

impl Drop for Bus {
    fn drop(&mut self) {
        self.kill();
        if self.is_mounted {
            let _ = Command::new("umount").arg(self.directory.file("data")).status();
        }
    }
}

fn is_installed(kind: Kind) -> bool {
    let python = installed("buses").join("bin/python").exists();
    let runs = |program: &str, word: &str| {
        let mut command = Command::new(program);
        command.arg(word).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    python
        && match kind {
            Kind::Kafka => installed("kafka").is_dir() && runs("java", "-version"),
            Kind::Nats => runs("nats-server", "--version"),
        }
}

/// Returns the command prefix that runs a program on a host.
pub(crate) fn enter(host: &Host) -> Vec<String> {
    vec!["nsenter".to_owned(), format!("--net=/proc/{}/ns/net", host.thread_id())]
}

/// Returns a free port.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Returns the batches of each start from the message names, without duplicates.
pub(crate) fn batches(names: &[String]) -> BTreeSet<(String, u64)> {
    let batch = |name: &String| {
        let (start, batch) = name.rsplit_once('/').unwrap();
        (start.to_owned(), batch.parse().unwrap())
    };
    names.iter().map(batch).collect()
}

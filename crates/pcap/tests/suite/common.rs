//! Helpers of the tests: a folder, a publisher in this process, programs that load the library.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use burstline_log::{Appended, Ending, Log, LogConfig, Meta, Writer};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};
use burstline_skip::skip;
use burstline_sys::memory::PageChoice;
use burstline_sys::temporary::TemporaryFolder;

use crate::traffic::{Packet, pcap_file};

/// The device that tests capture from.
pub(crate) const DEVICE: &str = "burst:tap?lossless&start=oldest";

/// A folder that is removed after the test. Names are published in it.
pub(crate) struct Folder(TemporaryFolder);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TemporaryFolder::create("burstline-pcap-").unwrap())
    }

    /// Creates a folder for a test that needs these programs, which `scripts/setup KIND` installs.
    /// `None` if one is missing; the test is then skipped.
    pub(crate) fn with(programs: &[&str], kind: &str) -> Option<Self> {
        let missing = programs.iter().find(|name| !is_there(name));
        if let Some(missing) = missing {
            skip(format!("{missing} is not installed: scripts/setup {kind}"));
        }
        missing.is_none().then(Self::new)
    }

    /// Writes packets into `file.pcap`, and returns them.
    pub(crate) fn keep(&self, packets: Vec<Packet>) -> Vec<Packet> {
        fs::write(self.at("file.pcap"), pcap_file(&packets)).unwrap();
        packets
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Returns a command that loads ours before the real libpcap, and finds names of this folder.
    pub(crate) fn preloaded(&self, program: &str) -> Command {
        let mut command = self.command(program);
        command.env("LD_PRELOAD", library());
        command
    }

    /// Returns the same command with the real libpcap.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.0.path()).env("BURSTLINE_RUN", self.0.path()).env("LC_ALL", "C");
        command
    }

    /// Publishes a log of this number of segments, with a port `eth0`.
    pub(crate) fn log(
        &self,
        name: &str,
        segments: usize,
        config: LogConfig,
        lossless: LosslessReaders,
    ) -> (Publisher, Log, Writer) {
        let (segment_bytes, pages) = (64 << 10, PageChoice::Size4K);
        let bytes = segments * segment_bytes;
        let config = LogConfig { bytes, segment_bytes, pages, ..config };
        let (log, writer) = Log::create(config).unwrap();
        log.name_port(0, 1, "eth0");
        let name = self.at(name);
        let config = PublishConfig { lossless, ..PublishConfig::new(name.to_str().unwrap()) };
        (Publisher::start(&config, vec![log.clone()]).unwrap(), log, writer)
    }

    /// Publishes packets as `tap` once `readers` readers are there, and ends the log for good. It
    /// can be read until the result is ended.
    pub(crate) fn publish(&self, packets: Vec<Packet>, readers: usize) -> Publishing {
        self.publish_until(packets, readers, Ending::Final, false)
    }

    /// The same, a packet a millisecond at most, until [`hurry`](Publishing::hurry) is called.
    pub(crate) fn publish_slowly(&self, packets: Vec<Packet>, readers: usize) -> Publishing {
        self.publish_until(packets, readers, Ending::Final, true)
    }

    /// The same with another ending, and slowly or not.
    pub(crate) fn publish_until(
        &self,
        packets: Vec<Packet>,
        readers: usize,
        ending: Ending,
        is_slow: bool,
    ) -> Publishing {
        let config = LogConfig { max_readers: 8, ..LogConfig::default() };
        let (publisher, _, mut writer) = self.log("tap", 32, config, LosslessReaders::Forever);
        let [is_written, is_read, is_over, is_slow] =
            [false, false, false, is_slow].map(|is| Arc::new(AtomicBool::new(is)));
        let theirs = [&is_written, &is_read, &is_over, &is_slow].map(Arc::clone);
        let thread = thread::spawn(move || {
            let [is_written, is_read, is_over, is_slow] = theirs;
            let claimed = || publisher.readers().iter().filter(|reader| reader.is_claimed).count();
            until("the readers have come", || claimed() >= readers);
            for (number, Packet { time_ns, bytes }) in packets.iter().enumerate() {
                let meta = Meta::new(*time_ns, bytes.len() as u32, 0);
                while writer.append(bytes, &meta) == Appended::Full {
                    thread::yield_now();
                }
                if number % 32 == 0 {
                    writer.publish();
                }
                if is_slow.load(Relaxed) {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            writer.publish();
            writer.finish(ending);
            is_written.store(true, Relaxed);
            until("the test has ended", || {
                let has_read = || publisher.readers().iter().all(|reader| reader.lag_packets == 0);
                is_read.store(has_read(), Relaxed);
                is_over.load(Relaxed)
            });
        });
        Publishing { is_written, is_read, is_over, is_slow, thread }
    }
}

pub(crate) struct Publishing {
    is_written: Arc<AtomicBool>,
    is_read: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    is_slow: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Publishing {
    /// Waits until all packets, and the end, are in the log.
    pub(crate) fn wait_until_written(&self) {
        until("all packets are written", || self.is_written());
    }

    pub(crate) fn is_written(&self) -> bool {
        self.is_written.load(Relaxed)
    }

    /// Lets it write the rest as fast as its readers read.
    pub(crate) fn hurry(&self) {
        self.is_slow.store(false, Relaxed);
    }

    /// Waits until its readers have taken all packets.
    pub(crate) fn wait_for_readers(&self) {
        until("all packets are read", || self.is_read.load(Relaxed));
    }

    /// Ends the publisher, after its readers.
    pub(crate) fn end(self) {
        self.is_over.store(true, Relaxed);
        self.thread.join().unwrap();
    }
}

/// Returns the library that cargo built for this test.
pub(crate) fn library() -> PathBuf {
    // Next to the test's own program: only `cargo build` puts it one folder higher.
    let library = env::current_exe().unwrap().with_file_name("libburstline_pcap.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Compiles a C program of the tests into the folder. It calls the library by libpcap's names.
/// `None` if there is no compiler; the test is then skipped.
pub(crate) fn compiled(folder: &Folder, name: &str) -> Option<PathBuf> {
    if !is_there("cc") {
        skip("cc is not installed: scripts/setup rust");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]);
    compiler.arg(folder.at(name)).arg(source).arg(library());
    run(compiler.arg("-I").arg(repository().join("include")), 0);
    Some(folder.at(name))
}

pub(crate) fn target() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("cargo's folder is in it")
}

pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("this is crates/pcap")
}

/// Waits for an event that must happen.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "not within a minute: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

pub(crate) fn is_there(program: &str) -> bool {
    let folders = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&folders).any(|folder| Path::new(&folder).join(program).exists())
}

/// Interrupts a program like Ctrl-C.
pub(crate) fn interrupt(program: &Child) {
    burstline_testbed::signal(program.id(), "-INT").unwrap();
}

/// Runs a program that must exit with `code`, and returns what it printed.
pub(crate) fn run(command: &mut Command, code: i32) -> String {
    let Output { status, stdout, stderr } =
        command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(code), "{command:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

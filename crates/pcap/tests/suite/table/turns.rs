//! A program's turn: starts it on a file, on a log, or on an interface, and gives it all packets.
//!
//! ```text
//!   file.pcap --> the real libpcap --> program
//!   a thread of this process --> log: lossless --> ours --> program      30 packets each ms
//!   a packet socket --> near ==== far --> the real libpcap --> program   30 packets each ms
//! ```

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use burstline_afpacket::Sender;
use burstline_log::{Appended, Ending, LogConfig, Meta};
use burstline_share::LosslessReaders;
use burstline_sys::usage;
use burstline_testbed::{Bed, FAR, NEAR, signal};

use super::programs::{Program, starter};
use crate::common::{DEVICE, Folder, library, run, until};
use crate::traffic::{Packet, pcap_file};

/// Packets a millisecond, from live sources.
pub(super) const PER_MS: usize = 30;
/// The interval of the checks whether a program is idle, and the time that counts as idle.
const LOOK: Duration = Duration::from_millis(250);
const IDLE_NS: u64 = 10_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    File,
    Log,
    Interface,
}

pub(super) struct Turn {
    /// Of all its processes, from start to end.
    pub(super) cpu_ns: u64,
    pub(super) found: Vec<String>,
    /// According to the program.
    pub(super) packets: Option<u64>,
    /// Packets that its reader took from the log, and missed.
    pub(super) read: Option<[u64; 2]>,
}

/// The environment of turns.
pub(super) struct Place {
    bed: Bed,
    folder: Folder,
}

impl Place {
    /// Creates the environment with these rules for Suricata.
    pub(super) fn new(bed: Bed, rules: &str) -> Self {
        for host in [&bed.near, &bed.far] {
            // No other traffic may be sent there; IPv6 would search for neighbours.
            host.command("sysctl", &["-q", "-w", "net.ipv6.conf.all.disable_ipv6=1"]).unwrap();
        }
        // arpwatch needs an address in the network that it watches. It is otherwise unused.
        let address = ["addr", "add", "10.1.255.254/16", "dev", FAR];
        bed.far.command("ip", &address).unwrap();
        let folder = Folder::new();
        fs::write(folder.at("rules"), rules).unwrap();
        Self { bed, folder }
    }

    /// Makes one turn. For a program that reads no files, the file is its expected output.
    pub(super) fn turn(&self, program: &Program, source: Source, packets: &[Packet]) -> Turn {
        let before = usage::children();
        let mut read = None;
        match source {
            Source::File => self.of_file(program, packets),
            Source::Log => read = Some(self.of_log(program, packets)),
            Source::Interface => self.of_interface(program, packets),
        }
        let used = usage::children().since(&before);
        let said = fs::read(self.folder.at("said")).unwrap();
        let said = String::from_utf8_lossy(&said);
        let found = (program.found)(&self.folder, &said);
        let packets = (program.packets)(&self.folder, &said);
        Turn { cpu_ns: used.user_ns + used.system_ns, found, packets, read }
    }

    /// Starts it where host names cannot be resolved. Its output is in `said`.
    fn start(&self, command: &str, source: &str, library: &str) -> Child {
        let script = command.replace("{}", source);
        let mut command = self.folder.command("sh");
        command.args(["-c", &script]).env("OURS", library).stdin(Stdio::null());
        // Not quoted: the shell splits the variable into words.
        command.env("SURICATA", starter());
        command.stdout(fs::File::create(self.folder.at("said")).unwrap());
        command.stderr(fs::File::create(self.folder.at("complained")).unwrap());
        self.bed.far.run(move || spawn(&mut command))
    }

    fn of_file(&self, program: &Program, packets: &[Packet]) {
        fs::write(self.folder.at("file.pcap"), pcap_file(packets)).unwrap();
        match program.of_file {
            Some(source) => self.end(self.start(program.command, source, "")),
            None => {
                fs::copy(self.folder.at("file.pcap"), self.folder.at("copy")).unwrap();
                fs::write(self.folder.at("said"), "").unwrap();
            }
        }
    }

    fn of_log(&self, program: &Program, packets: &[Packet]) -> [u64; 2] {
        let (config, lossless) = (LogConfig::default(), LosslessReaders::Forever);
        let (publisher, _, mut writer) = self.folder.log("tap", 256, config, lossless);
        let source = format!("{}'{DEVICE}'", program.of_device);
        let child = self.start(program.command, &source, library().to_str().unwrap());
        let readers = || publisher.readers();
        until("it reads the log", || readers().iter().any(|reader| reader.is_claimed));
        paced(packets, |burst| {
            for Packet { time_ns, bytes } in burst {
                let meta = Meta::new(*time_ns, bytes.len() as u32, 0);
                while writer.append(bytes, &meta) == Appended::Full {
                    thread::yield_now();
                }
            }
            writer.publish();
        });
        writer.finish(Ending::Final);
        until("all is read", || readers().iter().all(|reader| reader.lag_packets == 0));
        if program.goes_on {
            self.stop(program, &child);
        }
        self.end(child);
        until("it has gone", || !publisher.visits().gone.is_empty());
        // A program that opens a device only to inspect it, like tshark, has read nothing then.
        let gone = publisher.visits().gone;
        [gone.iter().map(|reader| reader.delivered).sum(), gone.iter().map(|r| r.missed).sum()]
    }

    fn of_interface(&self, program: &Program, packets: &[Packet]) {
        let command = program.on_interface.unwrap_or(program.command);
        let child = self.start(command, &format!("{}{FAR}", program.of_device), "");
        let listens = || {
            // Source: net/packet/af_packet.c, `packet_seq_show`: column 6 is whether it is running.
            let sockets = fs::read_to_string("/proc/thread-self/net/packet").unwrap();
            sockets.lines().skip(1).any(|line| line.split_whitespace().nth(5) == Some("1"))
        };
        until("it listens on the interface", || self.bed.far.run(listens));
        wait_until_idle(child.id());
        let frames = packets.to_vec();
        self.bed.near.run(move || {
            let mut sender = Sender::open(NEAR, true).unwrap();
            paced(&frames, |burst| {
                for packet in burst {
                    while sender.send(&[&packet.bytes[..]]).unwrap() == 0 {}
                }
            });
        });
        self.stop(program, &child);
        self.end(child);
    }

    /// Ends the program once it is idle.
    fn stop(&self, program: &Program, child: &Child) {
        wait_until_idle(child.id());
        match program.end {
            Some(command) => drop(run(self.folder.command("sh").args(["-c", command]), 0)),
            None => signal(child.id(), "-INT").unwrap(),
        }
    }

    /// Waits for its end. Any exit status is accepted; an uncaught signal is a failure.
    fn end(&self, mut child: Child) {
        let status = child.wait().unwrap();
        let said = fs::read_to_string(self.folder.at("complained")).unwrap_or_default();
        assert!(status.signal().is_none_or(|signal| signal == 2), "{status}: {said}");
    }
}

#[allow(clippy::zombie_processes)] // its turn waits for it
fn spawn(command: &mut Command) -> Child {
    command.spawn().unwrap()
}

/// Gives [`PER_MS`] packets each millisecond.
fn paced(packets: &[Packet], mut give: impl FnMut(&[Packet])) {
    let began = Instant::now();
    for (burst, due_ms) in packets.chunks(PER_MS).zip(1..) {
        give(burst);
        thread::sleep(Duration::from_millis(due_ms).saturating_sub(began.elapsed()));
    }
}

/// Waits until a program and its descendants are idle.
fn wait_until_idle(process: u32) {
    let mut before = spent_ns(process);
    loop {
        thread::sleep(LOOK);
        let now = spent_ns(process);
        if now.saturating_sub(before) < IDLE_NS {
            return;
        }
        before = now;
    }
}

fn family(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let children = fs::read_to_string(path).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    [process].into_iter().chain(children.flat_map(family)).collect()
}

/// Returns the processor time of their threads so far.
fn spent_ns(process: u32) -> u64 {
    let of = |process| usage::processor_ns(process).unwrap_or(0); // 0: it has ended
    family(process).into_iter().map(of).sum()
}

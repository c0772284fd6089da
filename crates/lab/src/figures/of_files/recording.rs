//! Measures recordings: the write rate to disk, searches, and the file size. All times are of whole
//! processes, from start to exit.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use burstline_sys::temporary::TemporaryFolder;

use crate::compared::{Better, Compared, Outcome};
use crate::figures::Context;
use crate::figures::capture_file::{self, FLOWS, FlowEnds, Flows, flow_ends};
use crate::figures::count_file::{first_number, run, timed};
use crate::live::Need;
use crate::programs::{Report, our_program};

const SEED: u64 = 20_251_125;

/// Bytes of the file for each packet of 1,000 bytes.
const FILE_BYTES_A_PACKET: u64 = 1048;

/// Creates a folder for files on a disk.
fn folder() -> Result<TemporaryFolder, String> {
    TemporaryFolder::create("burstline-recording-").map_err(|error| error.to_string())
}

fn bytes_of(path: &str) -> Result<u64, String> {
    fs::metadata(path).map(|found| found.len()).map_err(|error| format!("{path}: {error}"))
}

/// `record-dd`: packets created in memory and recorded, against `dd oflag=direct` of as many bytes.
pub(crate) fn against_dd(context: &Context) -> Result<Outcome, String> {
    let (ours, folder) = (our_program()?, folder()?);
    let packets: u64 = if context.smoke { 20_000 } else { 1_900_000 };
    let megabytes = (packets * FILE_BYTES_A_PACKET) >> 20;
    let load = format!("gen:?size=1000&packets={packets}");
    let (own, other) = (folder.file("x.pcapng"), folder.file("dd"));
    let comparison = context.begin();
    // Overwriting an existing file costs both sides the same.
    let rate = |path: &str, command: &mut Command| {
        let _ = fs::remove_file(path); // at first it does not exist
        let seconds = timed(command)?.0;
        let bytes = bytes_of(path)?;
        fs::remove_file(path).map_err(|error| format!("{path}: {error}"))?;
        Ok(bytes as f64 / 1e9 / seconds)
    };
    let rounds = context.turns(
        context.runs,
        || {
            let words = ["capture", &load, "-w", &own, "--flush", "none", "--quiet"];
            rate(&own, Command::new(&ours).args(words))
        },
        || {
            let (to, count) = (format!("of={other}"), format!("count={megabytes}"));
            let words = ["if=/dev/zero", &to, "bs=1M", &count, "oflag=direct"];
            rate(&other, Command::new("dd").args(words))
        },
    )?;
    let details = vec![
        format!("ours: burstline capture '{load}' -w {own} --flush none"),
        format!("peer: dd if=/dev/zero of={other} bs=1M count={megabytes} oflag=direct"),
        "bytes of the file by wall time of whole processes; neither syncs".to_owned(),
    ];
    Ok(comparison.outcome("GB/s", Better::Higher, rounds, details))
}

/// `record-cpu`: the share of a core that a recording of 1 GB/s takes, against the same packets to
/// no file. The thread that makes the packets is not counted. Packets come as fast as they are
/// taken.
pub(crate) fn processor_time(context: &Context) -> Result<Outcome, String> {
    let (ours, folder) = (our_program()?, folder()?);
    let packets: u64 = if context.smoke { 20_000 } else { 3_800_000 };
    let gigabytes = (packets * FILE_BYTES_A_PACKET) as f64 / 1e9;
    let load = format!("gen:?size=1000&packets={packets}");
    let file = folder.file("x.pcapng");
    let comparison = context.begin();
    let share = |sink: &str| {
        let words = ["capture", &load, "-w", sink, "--json", "--stats", "1h"];
        let (_, said) = timed(Command::new(&ours).args(words))?;
        let _ = fs::remove_file(&file); // one of the sides makes it
        let (report, last) = (Report::of_its_own(&said)?, Report::last(&said)?);
        if report.delivered != packets {
            return Err(format!("{sink}: not all of {packets} packets: {said}"));
        }
        let percent = last["stages"][0]["cpu_percent"].as_f64();
        let percent = percent.ok_or_else(|| format!("no cpu_percent of a stage: {said}"))?;
        let making_s = percent / 100.0 * report.elapsed_seconds;
        Ok((report.cpu_seconds - making_s) / gigabytes * 100.0)
    };
    let rounds = context.turns(context.runs, || share(&file), || share("null:"))?;
    let details = vec![
        format!("ours: burstline capture '{load}' -w {file}"),
        "peer: the same to null:, which takes the packets and writes none".to_owned(),
        "processor time of the process, less that of its thread that makes the packets".to_owned(),
    ];
    Ok(comparison.outcome("% of a core", Better::Lower, rounds, details))
}

/// A query for both sides.
struct Question {
    ours: Vec<String>,
    peer: Peer,
    /// The peer's filter.
    filter: String,
}

/// The program to compare with.
#[derive(Clone, Copy)]
enum Peer {
    Tshark,
    Tcpdump,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Tshark => "tshark",
            Self::Tcpdump => "tcpdump",
        }
    }

    /// Returns its arguments, for the fastest way to count matching packets.
    fn words<'a>(self, file: &'a str, filter: &'a str) -> Vec<&'a str> {
        match self {
            Self::Tshark => vec!["-r", file, "-Y", filter, "-T", "fields", "-e", "frame.number"],
            Self::Tcpdump => vec!["-nn", "-r", file, "--count", filter],
        }
    }

    fn count(self, said: &str) -> Option<u64> {
        match self {
            Self::Tshark => Some(said.lines().count() as u64),
            Self::Tcpdump => first_number(said),
        }
    }
}

/// The recording to search: half a million packets in memory, or 10 GB on a disk.
struct Load {
    packets: u64,
    flows: Flows,
    what: &'static str,
}

impl Load {
    fn of(context: &Context) -> Self {
        match (context.smoke, context.full) {
            (true, _) => Self { packets: 5000, flows: Flows::Steady, what: "tiny" },
            (_, false) => {
                Self { packets: 500_000, flows: Flows::Steady, what: "4,096 flows, in memory" }
            }
            // A flow lives for 200,000 packets, some 70 MB.
            (_, true) => Self {
                packets: 25_800_000,
                flows: Flows::Turning(50),
                what: "4,096 flows at a time, each for 204,800 packets; on a disk",
            },
        }
    }

    /// Makes the recording without a second copy of it on the disk.
    fn record(&self, ours: &Path, file: &str) -> Result<(), String> {
        let words = ["capture", "-", "-w", file, "-q", "--flush", "none"];
        let mut recorder = Command::new(ours);
        let recorder = recorder.args(words).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut recorder = recorder.spawn().map_err(|error| error.to_string())?;
        let out = recorder.stdin.take().ok_or("no pipe to the recorder")?;
        let written = capture_file::write(out, self.packets, SEED, self.flows);
        let status = recorder.wait().map_err(|error| error.to_string())?;
        written.map_err(|error| format!("to the recorder: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the recorder: {status}")) }
    }
}

/// `extract-flow-tshark`, `extract-flow-tcpdump`: all packets of one flow.
pub(crate) fn flow(context: &Context, name: &str) -> Result<Outcome, String> {
    let load = Load::of(context);
    // A TCP flow in the middle of the file.
    let flow = (load.flows.oldest(load.packets / 2) + FLOWS / 2) | 1;
    let FlowEnds { source, destination, source_port: port } = flow_ends(flow);
    let ours = vec!["--flow".to_owned(), format!("{source}:{port},{destination}:443,tcp")];
    let (peer, filter) = match name {
        "extract-flow-tcpdump" => {
            let filter = format!("tcp and host {source} and host {destination} and port {port}");
            (Peer::Tcpdump, filter)
        }
        _ => {
            let ends = format!("ip.addr == {source} && ip.addr == {destination}");
            (Peer::Tshark, format!("{ends} && tcp.port == {port}"))
        }
    };
    extract(context, &load, Question { ours, peer, filter })
}

/// `extract-window`: all packets of a hundredth of the time.
pub(crate) fn window(context: &Context) -> Result<Outcome, String> {
    let load = Load::of(context);
    // One packet per microsecond.
    let time =
        |number: u64| format!("{}.{:06}", 1_700_000_000 + number / 1_000_000, number % 1_000_000);
    let (from, to) = (time(load.packets / 2), time(load.packets / 2 + load.packets / 100));
    let filter = format!("frame.time_epoch >= {from} && frame.time_epoch < {to}");
    let ours = ["--from", &from, "--to", &to].map(str::to_owned).to_vec();
    extract(context, &load, Question { ours, peer: Peer::Tshark, filter })
}

fn extract(context: &Context, load: &Load, question: Question) -> Result<Outcome, String> {
    let (ours, Question { peer, filter, .. }) = (our_program()?, &question);
    if let Some(why) = (Need { program: peer.name(), package: peer.name() }).missing() {
        return Ok(Outcome::NotHere(why));
    }
    let folder = folder()?;
    let file = folder.file("x.pcapng");
    load.record(&ours, &file)?;
    let comparison = context.begin();
    let found = std::cell::Cell::new(None);
    // Both sides must always find the same number of packets.
    let same = |seconds: f64, count: u64| match found.replace(Some(count)) {
        Some(other) if other != count => Err(format!("{count} packets found, and {other} before")),
        _ => Ok(seconds * 1e3),
    };
    let rounds = context.turns(
        context.runs,
        || {
            let mut command = Command::new(&ours);
            command.args(["extract", &file, "--json"]).args(&question.ours);
            let (seconds, said) = timed(&mut command)?;
            let json: serde_json::Value =
                serde_json::from_str(said.trim()).map_err(|error| error.to_string())?;
            same(seconds, json["delivered"].as_u64().unwrap_or(u64::MAX))
        },
        || {
            let mut command = Command::new(peer.name());
            let (seconds, said) = timed(command.args(peer.words(&file, filter)))?;
            same(seconds, peer.count(&said).ok_or_else(|| format!("{}: {said}", peer.name()))?)
        },
    )?;
    let details = vec![
        format!("{} packets, {} bytes; {}", load.packets, bytes_of(&file)?, load.what),
        format!("{} packets found by both", found.get().unwrap_or(0)),
        format!("ours: burstline extract FILE {}", question.ours.join(" ")),
        format!("peer: {} {}", peer.name(), peer.words("FILE", &format!("'{filter}'")).join(" ")),
    ];
    Ok(comparison.outcome("ms", Better::Lower, rounds, details))
}

/// `file-overhead`: file bytes per packet, in segments and as plain pcapng.
pub(crate) fn overhead(context: &Context) -> Result<Outcome, String> {
    let (ours, folder) = (our_program()?, folder()?);
    let packets: u64 = if context.smoke { 100_000 } else { 1_000_000 };
    let size = |load: &str, format: &str| {
        let (load, file) = (format!("gen:?{load}&packets={packets}"), folder.file("x.pcapng"));
        let words = ["capture", &load, "-w", &file, "--format", format, "--flush", "none", "-q"];
        run(Command::new(&ours).args(words))?;
        Ok(bytes_of(&file)? as f64 / packets as f64)
    };
    let rounds =
        context.turns(1, || size("size=imix", "segmented"), || size("size=imix", "pcapng"))?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![format!("{packets} packets, IMIX; the file with its first segment")];
    for (load, what) in [("size=64", "60 bytes"), ("size=1518", "1514 bytes")] {
        let (segmented, plain) = (size(load, "segmented")?, size(load, "pcapng")?);
        details.push(format!("packets of {what}: {segmented:.2}, plain pcapng {plain:.2}"));
    }
    Ok(Outcome::Measured(Compared::of("bytes a packet", Better::Lower, rounds, details)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_goes_with_its_value() {
        let folder = folder().unwrap();
        let file = folder.file("x");
        fs::write(&file, "abc").unwrap();
        assert_eq!(bytes_of(&file), Ok(3));
        drop(folder);
        assert!(!Path::new(&file).exists());
    }
}

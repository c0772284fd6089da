//! Measures flow records: our table against a standard map in memory, and our program against
//! others that make records of the same file.
//!
//! The figures compare processor time, of one thread or of whole processes. Writer threads and
//! collector sockets cost something, too, and this machine may be shared.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use burstline_flow::{FlowTable, Place, TableConfig};
use burstline_log::{Burst, Meta, Scratch};
use burstline_sys::temporary::TemporaryFolder;
use burstline_sys::{clock, usage};
use burstline_wire::flow::FlowKey;
use burstline_wire::headers::{self, LinkType};

use crate::compared::{Better, Outcome};
use crate::contenders::Sample;
use crate::figures::Context;
use crate::figures::capture_file::{CaptureFile, FLOWS};
use crate::figures::count_file::run;
use crate::live::is_there;
use crate::programs::{nfpcapd, our_program};

/// Bytes from one packet to the next: 64-byte frames without their FCS, as in a log.
const STRIDE: usize = 64;
const LENGTH: u32 = 60;

/// Packets per burst.
const BURST: usize = 256;

/// Packets in memory: more than fit into a cache.
const PACKETS: usize = 1 << 21;

/// Packets in a file.
const FILE_PACKETS: u64 = 2_000_000;
const SEED: u64 = 20_251_125;

const FIRST_NS: u64 = 1_700_000_000_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// `flows-1k`, `flows-1m`: packets a second of a thread's time.
pub(crate) fn in_memory(context: &Context, name: &str) -> Result<Outcome, String> {
    let flows = if name == "flows-1k" { 1_000 } else { 1_000_000 };
    let packets = if context.smoke { 10_000 } else { PACKETS };
    let bytes = made(packets, flows);
    let comparison = context.begin();
    // Tables are created once, as in jobs, because the steady state is measured.
    let mut table = FlowTable::new(TableConfig {
        flows: flows as usize,
        idle_ns: 3600 * SECOND_NS,
        active_ns: 24 * 3600 * SECOND_NS,
        port: 0,
        tells_gaps: false,
    });
    let mut map = HashMap::with_capacity(flows as usize);
    let mut turn = 0;
    let rounds = context.alternate(
        context.runs,
        || {
            turn += 1;
            let mut ended = 0;
            let seen = timed(&bytes, turn, |burst| {
                let place = |_| Place::default();
                table.see(burst, |_| LinkType::ETHERNET, place, &mut |_| ended += 1);
            });
            let counts = table.counts();
            let is_good = ended == 0
                && counts.packets_without_flow() == 0
                && counts.packets == turn * packets as u64;
            if is_good { Ok(seen) } else { Err(format!("{ended} records, {counts:?}")) }
        },
        || Ok(timed(&bytes, 0, |burst| burst.packets().for_each(|packet| count(&mut map, packet)))),
    )?;
    if map.len() != table.open() {
        return Err(format!("{} conversations, and {} in the map", table.open(), map.len()));
    }
    let state = table.state_bytes() / flows as usize;
    let details = vec![
        format!("{packets} packets of {flows} conversations at random, UDP, frames of 64 bytes"),
        format!("bursts of {BURST} from memory; {state} bytes of state a conversation"),
        "processor time of one thread, without the time to describe bursts".to_owned(),
        "the map counts packets and bytes of both directions, and nothing else".to_owned(),
    ];
    Ok(comparison.outcome("Mpps", Better::Higher, rounds, details).here())
}

/// Packets and bytes of both directions.
type Sums = [u64; 4];

fn count(map: &mut HashMap<FlowKey, Sums>, packet: burstline_log::Packet<'_>) {
    let bytes = packet.bytes();
    let headers = headers::parse(LinkType::ETHERNET, bytes);
    let Some(key) = FlowKey::new(&headers, bytes) else { return };
    let symmetric = key.symmetric();
    let back = 2 * usize::from(symmetric != key);
    let sums = map.entry(symmetric).or_default();
    sums[back] += 1;
    sums[back + 1] += packet.original_length() as u64;
}

/// Returns millions of packets per second of this thread's CPU time, for `see` alone.
fn timed(bytes: &[u8], turn: u64, mut see: impl FnMut(&Burst<'_>)) -> f64 {
    let packets = bytes.len() / STRIDE;
    let (mut scratch, mut spent_ns) = (Scratch::new(), 0);
    let mut at = 0;
    while at < packets {
        let count = BURST.min(packets - at);
        scratch.clear();
        for index in at..at + count {
            let time_ns = FIRST_NS + (turn * packets as u64 + index as u64) * 50;
            scratch.push((index * STRIDE) as u32, LENGTH, &Meta::new(time_ns, LENGTH, 0));
        }
        let burst = scratch.burst(bytes, 0);
        let start_ns = clock::thread_cpu_ns();
        see(&burst);
        spent_ns += clock::thread_cpu_ns() - start_ns;
        at += count;
    }
    packets as f64 * 1e3 / spent_ns as f64
}

/// Creates packets of random conversations out of `flows`.
fn made(packets: usize, flows: u32) -> Vec<u8> {
    let mut bytes = vec![0; packets * STRIDE];
    let mut random = SEED;
    for packet in bytes.chunks_exact_mut(STRIDE) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let flow = (random % u64::from(flows)) as u32;
        packet[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
        // Version, total length, time to live, UDP.
        (packet[14], packet[17], packet[22], packet[23]) = (0x45, 46, 64, 17);
        packet[26..30].copy_from_slice(&(0x0a00_0000 + flow / 64).to_be_bytes());
        packet[30..34].copy_from_slice(&[10, 128, 0, 1]);
        packet[34..36].copy_from_slice(&(1024 + (flow % 64) as u16).to_be_bytes());
        // To port 53, 26 bytes.
        (packet[37], packet[39]) = (53, 26);
    }
    bytes
}

/// `flows-softflowd`: it reads the file and exports to a port without a listener.
pub(crate) fn against_softflowd(context: &Context) -> Result<Outcome, String> {
    against(context, "softflowd", softflowd)
}

fn softflowd(file: &Path, folder: &Path) -> Command {
    let mut command = Command::new("softflowd");
    command.arg("-r").arg(file).args(["-d", "-v", "10", "-b", "-n", "127.0.0.1:9", "-m"]);
    command.arg("65536").arg("-p").arg(folder.join("pid"));
    // With a control socket it might wait for a client.
    command.args(["-c", "none"]);
    command
}

/// `flows-softflowd-limit`: the limit for a program that only reads the file.
pub(crate) fn limit_beside_softflowd(context: &Context) -> Result<Outcome, String> {
    let reads = "dd if=FILE of=/dev/null bs=256k, which reads as burstline does";
    beside(context, "softflowd", softflowd, reads, |file, _, packets| {
        let mut command = Command::new("dd");
        let input = format!("if={}", file.display());
        command.args([&input[..], "of=/dev/null", "bs=256k", "status=none"]);
        Ok(spent(&mut command, packets)?.0)
    })
}

/// `flows-nfpcapd`: it writes its own files, uncompressed.
pub(crate) fn against_nfpcapd(context: &Context) -> Result<Outcome, String> {
    against(context, "nfpcapd", nfpcapd)
}

fn against(
    context: &Context,
    rival: &str,
    theirs: impl Fn(&Path, &Path) -> Command,
) -> Result<Outcome, String> {
    let program = our_program()?;
    let mut number = 0;
    let ours = "burstline flows FILE -o TREE, Parquet in zstd, synced";
    beside(context, rival, theirs, ours, |file, folder, packets| {
        number += 1;
        let tree = folder.join(format!("tree-{number}"));
        let mut command = Command::new(&program);
        command.arg("flows").arg(format!("file:{}", file.display()));
        command.arg("-o").arg(tree).args(["--sensor", "lab", "--idle", "1h", "--json"]);
        let (sample, said) = spent(&mut command, packets)?;
        let json: serde_json::Value =
            serde_json::from_str(said.trim()).map_err(|error| error.to_string())?;
        let (records, sum) = (&json["flows"]["records"], &json["flows"]["packets_in_records"]);
        let wanted = (Some(packets), Some(FLOWS));
        let is_whole = (sum.as_u64(), records.as_u64()) == wanted || context.smoke;
        if is_whole { Ok(sample) } else { Err(format!("{records} records of {sum} packets")) }
    })
}

/// Compares our CPU time per packet with a rival's. Our command is described by `about` and gets a
/// file, a folder and the number of packets. The rival gets the file and the folder.
fn beside(
    context: &Context,
    rival: &str,
    theirs: impl Fn(&Path, &Path) -> Command,
    about: &str,
    mut ours: impl FnMut(&Path, &Path, u64) -> Result<Sample, String>,
) -> Result<Outcome, String> {
    if !is_there(rival) {
        return Ok(Outcome::NotHere(format!("{rival} is not installed: scripts/setup rivals")));
    }
    let packets = if context.smoke { 20_000 } else { FILE_PACKETS };
    let file = CaptureFile::create(packets, SEED)?;
    let folder = TemporaryFolder::create("burstline-flows-").map_err(|error| error.to_string())?;
    let comparison = context.begin();
    let rounds = context.turns(
        context.process_runs(),
        || ours(file.path(), folder.path(), packets),
        || Ok(spent(&mut theirs(file.path(), folder.path()), packets)?.0),
    )?;
    let details = vec![
        format!("{packets} packets of {FLOWS} conversations, {} bytes", file.bytes()),
        format!("ours: {about}"),
        format!("peer: {:?}", theirs(Path::new("FILE"), Path::new("FOLDER"))),
        "processor time of whole processes a packet, file in the page cache; mpps: packets by the \
         clock, from start to exit"
            .to_owned(),
    ];
    Ok(comparison.outcome_of_samples("ns", Better::Lower, rounds, details))
}

/// Returns the CPU time of a program in ns per packet with its rate by the clock, and its output.
fn spent(command: &mut Command, packets: u64) -> Result<(Sample, String), String> {
    let used_ns = || {
        let used = usage::children();
        used.user_ns + used.system_ns
    };
    let (before_ns, start_ns) = (used_ns(), clock::monotonic_ns());
    let said = run(command)?;
    let wall_ns = clock::monotonic_ns() - start_ns;
    let mut sample = Sample::default();
    sample.set("ns", "ns", (used_ns() - before_ns) as f64 / packets as f64);
    sample.set("mpps", "Mpps", packets as f64 * 1e3 / wall_ns as f64);
    Ok((sample, said))
}

//! Packets that break the rules of their formats, from an interface. They go to the same worker as
//! from a file, and none is lost. `BURSTLINE_MUTATED=1000000` sends that many.

use std::{env, fs, thread, time::Duration};

use crate::conversations::frames_of;
use crate::support::live::{Live, wait_until};
use crate::support::{Directory, run_json};
use burstline_afpacket::Sender;
use burstline_testbed::{Bed, FAR, NEAR};

const WORKERS: usize = 4;
const MOST_BYTES: usize = 1514;
const ENDS: [u8; 12] = [2, 0, 0, 0, 0, 0xb, 2, 0, 0, 0, 0, 0xa];

/// Random numbers by xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

fn ethernet(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    [&ENDS[..], &ether_type.to_be_bytes(), payload].concat()
}

/// The packets that the fuzzer begins with: headers of every kind, and tunnels. Ethernet frames, or
/// IP packets, which get a header.
fn seeds() -> Vec<Vec<u8>> {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/headers_parse");
    let mut paths: Vec<_> =
        fs::read_dir(corpus).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    let mut seeds = Vec::new();
    for input in paths.into_iter().map(|path| fs::read(path).unwrap()) {
        let mut rest = &input[2..];
        while let Some((&length, behind)) = rest.split_first() {
            let (packet, behind) = behind.split_at(behind.len().min(usize::from(length)));
            rest = behind;
            match (input[0], packet.first().map_or(0, |first| first >> 4)) {
                (1, _) => seeds.push(packet.to_vec()),
                (_, 4) => seeds.push(ethernet(0x0800, packet)),
                (_, 6) => seeds.push(ethernet(0x86dd, packet)),
                _ => {}
            }
        }
    }
    seeds
}

/// IPv6 with up to 12 extension headers: hop-by-hop, routing, fragment, destination options.
fn chain(random: &mut Random) -> Vec<u8> {
    let kinds: Vec<u8> = (0..random.below(13)).map(|_| [0, 43, 44, 60][random.below(4)]).collect();
    let next = |at: usize| kinds.get(at).copied().unwrap_or(17);
    let mut packet = vec![0x60, 0, 0, 0, 0, (8 * kinds.len() + 8) as u8, next(0), 64];
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, random.below(9) as u8]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, random.below(9) as u8]);
    (0..kinds.len()).for_each(|at| packet.extend([next(at + 1), 0, 0, 1, 0, 0, 0, 7]));
    packet.extend([0, 53, 0, random.below(256) as u8, 0, 8, 0, 0]);
    ethernet(0x86dd, &packet)
}

/// An IPv4 packet, whole or a fragment, in up to 6 more of them.
fn nested(random: &mut Random) -> Vec<u8> {
    let mut inner = vec![0, 53, 0, random.below(256) as u8, 0, 8, 0, 0];
    for depth in 0..=random.below(7) {
        let (protocol, bytes) = (if depth == 0 { 17 } else { 4 }, (inner.len() + 20) as u8);
        let (id, part) = (random.below(16) as u8, [0, 0, 0, 0x20, 0x20, 0][random.below(6)]);
        let header = [0x45, 0, 0, bytes, 0, id, part, 0, 64, protocol, 0, 0];
        let ends = [10, 9, 0, random.below(9) as u8, 10, 9, 1, random.below(9) as u8];
        inner = [&header[..], &ends, &inner].concat();
    }
    ethernet(0x0800, &inner)
}

fn mutated(random: &mut Random, seeds: &[Vec<u8>]) -> Vec<u8> {
    loop {
        let mut frame = match random.below(4) {
            0 => chain(random),
            1 => nested(random),
            _ => seeds[random.below(seeds.len())].clone(),
        };
        if random.below(4) == 0 && frame.len() >= 12 {
            let tags = (0..=random.below(8)).flat_map(|_| {
                let kind = [0x81, 0x88][random.below(2)];
                [kind, if kind == 0x81 { 0 } else { 0xa8 }, 0, random.below(256) as u8]
            });
            let tags: Vec<u8> = tags.collect();
            frame.splice(12..12, tags);
        }
        for _ in 0..random.below(5) {
            let at = random.below(frame.len().max(1));
            if let Some(byte) = frame.get_mut(at) {
                *byte ^= 1 << random.below(8);
            }
        }
        if random.below(3) == 0 {
            frame.truncate(14 + random.below(frame.len().max(1)));
        }
        // The kernel sends no less than a header, and drops what ends inside its first tag.
        let is_tagged = matches!(frame.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
        let least = if is_tagged { 20 } else { 14 };
        if (least..=MOST_BYTES).contains(&frame.len()) {
            return frame;
        }
    }
}

/// Writes a file of pcap: a packet a microsecond. Source: draft-ietf-opsawg-pcap.
fn write(path: &str, frames: &[Vec<u8>]) {
    let mut file: Vec<u8> = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1]
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    for (number, frame) in (0u32..).zip(frames) {
        let bytes = frame.len() as u32;
        let head = [1_700_000_000 + number / 1_000_000, number % 1_000_000, bytes, bytes];
        file.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(frame);
    }
    fs::write(path, file).unwrap();
}

#[test]
fn mutated_packets_go_live_where_they_go_offline() {
    let Some(bed) = Bed::or_skip() else { return };
    let packets: u64 =
        env::var("BURSTLINE_MUTATED").map_or(20_000, |packets| packets.parse().unwrap());
    let (seeds, mut random) = (seeds(), Random(0x9e37_79b9_7f4a_7c15));
    let frames: Vec<_> = (0..packets).map(|_| mutated(&mut random, &seeds)).collect();
    let directory = Directory::new("balance-mutated");
    let (file, workers) = (directory.file("all.pcap"), WORKERS.to_string());
    write(&file, &frames);
    let from_file = directory.file("file{k}.pcapng");
    let job = ["balance", &file, "--workers", &workers, "-o", &from_file];
    let report = run_json(&job, 0);
    assert_eq!(report["total"]["delivered"], packets, "{report}");
    let from_interface = directory.file("live{k}.pcapng");
    let source = format!("'afpacket:{FAR}?direction=in'");
    let job = format!("balance {source} --workers {workers} --lossless -o '{from_interface}'");
    let live = Live::start(&bed, &directory, &job);
    bed.near.run(move || {
        let mut sender = Sender::open(NEAR, false).unwrap();
        for some in frames.chunks(64) {
            let some: Vec<&[u8]> = some.iter().map(Vec::as_slice).collect();
            let mut rest = &some[..];
            while !rest.is_empty() {
                rest = &rest[sender.send(rest).unwrap()..];
            }
            // The ring has room for what comes while the job has no core.
            thread::sleep(Duration::from_millis(1));
        }
    });
    let delivered = format!("\"delivered\":{packets},");
    wait_until(&delivered, || live.text().contains(&delivered));
    let report = live.stop();
    let total = &report["total"];
    assert_eq!((&total["offered"], &total["lost_total"]), (&packets.into(), &0.into()), "{report}");
    assert_eq!(total["unaccounted"], 0, "{report}");
    for worker in (0..WORKERS).map(|worker| worker.to_string()) {
        let [file, live] = [&from_file, &from_interface].map(|path| path.replace("{k}", &worker));
        let (file, live) = (frames_of(&file), frames_of(&live));
        assert!(!file.is_empty(), "worker {worker} has no packet");
        let differ = file.iter().zip(&live).position(|(file, live)| file != live);
        assert_eq!((differ, file.len()), (None, live.len()), "worker {worker}");
    }
    println!(
        "ledger {{\"offered\":{packets},\"delivered\":{packets},\"lost\":{{}},\"unaccounted\":0}}"
    );
}

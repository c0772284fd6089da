//! The table against a model: a map of all packets by conversation.

use std::collections::HashMap;

use burstline_log::{Meta, Scratch};
use proptest::prelude::*;

use super::counts::{FIN, RST};
use super::*;

const SECOND: u64 = 1_000_000_000;

/// A packet as tests specify it.
#[derive(Clone, Copy, Debug)]
struct Made {
    from: u8,
    to: u8,
    ports: [u16; 2],
    protocol: u8,
    flags: u8,
    sequence: u32,
    payload: u16,
    time_ns: u64,
}

impl Made {
    fn tcp(is_back: bool, flags: u8, sequence: u32, payload: u16, time_ns: u64) -> Self {
        let (from, to, ports) = if is_back { (2, 1, [80, 999]) } else { (1, 2, [999, 80]) };
        Self { from, to, ports, protocol: 6, flags, sequence, payload, time_ns }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, self.to, 2, 0, 0, 0, 0, self.from, 8, 0];
        let is_tcp = self.protocol == 6;
        let length = 20 + if is_tcp { 20 } else { 8 } + self.payload;
        bytes.extend([0x45, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 64, self.protocol, 0, 0, 10, 0, 0, self.from, 10, 0, 0, self.to]);
        bytes.extend(self.ports[0].to_be_bytes());
        bytes.extend(self.ports[1].to_be_bytes());
        if is_tcp {
            bytes.extend(self.sequence.to_be_bytes());
            bytes.extend([0, 0, 0, 0, 0x50, self.flags, 1, 0, 0, 0, 0, 0]);
        } else {
            bytes.extend((8 + self.payload).to_be_bytes());
            bytes.extend([0, 0]);
        }
        bytes.resize(bytes.len() + usize::from(self.payload), 0);
        bytes
    }
}

fn config(flows: usize) -> TableConfig {
    TableConfig { flows, idle_ns: 15 * SECOND, active_ns: 60 * SECOND, port: 3, tells_gaps: false }
}

/// Returns the location of a packet for tests: extreme values of a place.
fn place_of(number: u64) -> Place {
    let file = [None, Some(0), Some(u16::MAX - 1)][number as usize % 3];
    let segment = [None, Some(0), Some(u32::MAX - 1)][number as usize / 3 % 3];
    Place { file, segment, number }
}

/// Adds frames, up to `burst` at a time.
fn see(table: &mut FlowTable, frames: &[(Vec<u8>, u64)], burst: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut seen = 0;
    for chunk in frames.chunks(burst.max(1)) {
        let mut bytes = Vec::new();
        let mut scratch = Scratch::new();
        for (frame, time_ns) in chunk {
            let offset = bytes.len();
            bytes.extend_from_slice(frame);
            let length = frame.len() as u32;
            let meta = Meta::new(*time_ns, length, 0);
            scratch.push(offset as u32, length, &meta);
        }
        let lent = scratch.burst(&bytes, 0);
        let place = |index| place_of(seen + index as u64 + 1);
        table.see(&lent, |_| LinkType::ETHERNET, place, &mut |record| records.push(*record));
        seen += chunk.len() as u64;
    }
    records
}

fn frames(made: &[Made]) -> Vec<(Vec<u8>, u64)> {
    made.iter().map(|made| (made.bytes(), made.time_ns)).collect()
}

fn all(made: &[Made]) -> Vec<Record> {
    let mut table = FlowTable::new(config(100));
    let mut records = see(&mut table, &frames(made), 7);
    table.end(&mut |record| records.push(*record));
    records
}

/// Packets and bytes of a conversation, for comparing its records.
type Sums = [u64; 6];

fn sums(record: &Record) -> Sums {
    [
        record.packets,
        record.bytes,
        record.packets_back,
        record.bytes_back,
        record.first_ns,
        record.last_ns,
    ]
}

/// Two hosts, their ports, and the protocol.
type Ends = (u8, u8, u16, u16, u8);

/// Computes the expected records with a simple map of open ones.
fn model(made: &[Made], config: &TableConfig) -> Vec<(Made, Sums)> {
    let mut open: HashMap<Ends, (Made, Sums)> = HashMap::new();
    let mut done = Vec::new();
    for packet in made {
        let [source, destination] = packet.ports;
        let end = (packet.from, source) <= (packet.to, destination);
        let key = match end {
            true => (packet.from, packet.to, source, destination, packet.protocol),
            false => (packet.to, packet.from, destination, source, packet.protocol),
        };
        let is_over = open.get(&key).is_some_and(|(_, sums)| {
            packet.time_ns - sums[5] > config.idle_ns
                || packet.time_ns - sums[4] >= config.active_ns
        });
        if is_over {
            done.extend(open.remove(&key));
        }
        let time_ns = packet.time_ns;
        let entry = open.entry(key).or_insert((*packet, [0, 0, 0, 0, time_ns, time_ns]));
        let bytes = packet.bytes().len() as u64;
        let is_back = (packet.from, packet.ports[0]) != (entry.0.from, entry.0.ports[0]);
        let [packets, all, packets_back, bytes_back, _, last_ns] = &mut entry.1;
        (*packets, *all, *last_ns) = (*packets + 1, *all + bytes, time_ns);
        if is_back {
            (*packets_back, *bytes_back) = (*packets_back + 1, *bytes_back + bytes);
        }
    }
    done.extend(open.into_values());
    done
}

fn made() -> impl Strategy<Value = Made> {
    let ends = (1_u8..5, 5_u8..8, any::<bool>(), 0_u16..3);
    (ends, prop_oneof![Just(6_u8), Just(17)], 0_u16..9, 0_u64..8 * SECOND).prop_map(
        |((low, high, is_back, port), protocol, payload, gap)| {
            let (from, to) = if is_back { (high, low) } else { (low, high) };
            let ports = if is_back { [80, port] } else { [port, 80] };
            // No FIN or RST: the model does not implement closing.
            Made { from, to, ports, protocol, flags: ACK, sequence: 1, payload, time_ns: gap }
        },
    )
}

proptest! {
    #[test]
    fn records_are_those_of_a_map(
        mut packets in proptest::collection::vec(made(), 1..300),
        burst in 1_usize..100,
    ) {
        let mut now_ns = 1_700_000_000 * SECOND;
        for packet in &mut packets {
            // Most follow the previous one closely.
            now_ns += if packet.time_ns % 4 == 0 { packet.time_ns } else { packet.time_ns / 1000 };
            packet.time_ns = now_ns;
        }
        let mut table = FlowTable::new(config(64));
        let mut records = see(&mut table, &frames(&packets), burst);
        table.end(&mut |record| records.push(*record));
        let mut found: Vec<_> = records
            .iter()
            .map(|record| (record.key.source[15], record.key.ports.unwrap().source, sums(record)))
            .collect();
        let mut wanted: Vec<_> = model(&packets, &config(64))
            .iter()
            .map(|(first, sums)| (first.from, first.ports[0], *sums))
            .collect();
        found.sort_unstable();
        wanted.sort_unstable();
        prop_assert_eq!(found, wanted);
        let counts = table.counts();
        prop_assert_eq!(counts.packets_in_records, packets.len() as u64);
        prop_assert_eq!(table.open(), 0);
    }

    /// A small table, any bytes, times that jump: every packet is in a record or has a reason.
    #[test]
    fn nothing_is_forgotten(
        packets in proptest::collection::vec((made(), any::<u64>(), 0_usize..60), 1..300),
        burst in 1_usize..100,
        flows in 1_usize..9,
    ) {
        let cut = |(made, time_ns, length): &(Made, u64, usize)| {
            let mut bytes = made.bytes();
            if *length < 20 {
                bytes.truncate(*length * 3);
            }
            (bytes, time_ns >> 1)
        };
        let frames: Vec<_> = packets.iter().map(cut).collect();
        let mut table = FlowTable::new(config(flows));
        let mut records = see(&mut table, &frames, burst);
        table.end(&mut |record| records.push(*record));
        let counts = table.counts();
        let in_records: u64 = records.iter().map(|record| record.packets).sum();
        prop_assert_eq!(counts.packets, packets.len() as u64);
        prop_assert_eq!(in_records, counts.packets_in_records);
        prop_assert_eq!(in_records + counts.packets_without_flow(), counts.packets);
        prop_assert!(counts.open_most <= flows as u64);
    }
}

#[test]
fn a_connection_has_its_round_trip_and_ends_when_both_have_finished() {
    let ms = |ms: u64| SECOND + ms * 1_000_000;
    let records = all(&[
        Made::tcp(false, SYN, 100, 0, ms(0)),
        Made::tcp(true, SYN | ACK, 500, 0, ms(20)),
        Made::tcp(false, ACK, 101, 0, ms(30)),
        Made::tcp(false, ACK, 101, 10, ms(31)),
        Made::tcp(false, ACK, 101, 10, ms(40)),
        // A keep-alive is not a retransmission.
        Made::tcp(false, ACK, 110, 0, ms(41)),
        Made::tcp(false, ACK, 110, 1, ms(42)),
        Made::tcp(true, FIN | ACK, 501, 0, ms(50)),
        Made::tcp(false, FIN | ACK, 111, 0, ms(51)),
        Made::tcp(true, ACK, 502, 0, ms(60)),
        // A new connection between the same ends.
        Made::tcp(false, SYN, 9000, 0, ms(70)),
    ]);
    assert_eq!(records.len(), 2);
    let (first, second) = (&records[0], &records[1]);
    assert_eq!((first.end, first.packets, first.packets_back), (EndReason::Fin, 10, 3));
    assert_eq!(first.rtt_ns, Some(30_000_000));
    assert_eq!(first.retransmissions, 1);
    assert_eq!((first.tcp_flags, first.tcp_flags_back), (SYN | ACK | FIN, SYN | ACK | FIN));
    assert_eq!(first.flow_id().to_string().len(), 30);
    assert_eq!((second.end, second.packets, second.place), (EndReason::End, 1, place_of(11)));
    assert_eq!(first.place, place_of(1));
    assert_eq!(second.macs, Some([2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]));
    assert_eq!(second.port, 3);
}

#[test]
fn a_syn_that_is_sent_twice_measures_nothing() {
    let records = all(&[
        Made::tcp(false, SYN, 100, 0, SECOND),
        Made::tcp(false, SYN, 100, 0, 2 * SECOND),
        Made::tcp(true, SYN | ACK, 500, 0, 2 * SECOND + 5),
        Made::tcp(false, ACK, 101, 0, 2 * SECOND + 9),
        Made::tcp(true, RST, 501, 0, 2 * SECOND + 10),
    ]);
    assert_eq!(records.len(), 1);
    assert_eq!((records[0].rtt_ns, records[0].retransmissions), (None, 1));
    assert_eq!(records[0].end, EndReason::Rst);
}

#[test]
fn time_outs_split_records() {
    let at = |seconds: u64| Made::tcp(false, ACK, 1, 0, (1000 + seconds) * SECOND);
    let ends = |seconds: &[u64]| {
        let packets: Vec<_> = seconds.iter().map(|seconds| at(*seconds)).collect();
        all(&packets).iter().map(|record| (record.end, record.packets)).collect::<Vec<_>>()
    };
    use EndReason::{Active, End, Idle};
    assert_eq!(ends(&[0, 15, 31]), [(Idle, 2), (End, 1)], "15 s are no more than 15 s");
    assert_eq!(ends(&[0, 10, 20, 30, 40, 50, 59, 60, 61]), [(Active, 7), (End, 2)]);
}

/// A connection that never closed, and, after more than the idle timeout, another one between the
/// same ends.
#[test]
fn a_connection_after_the_idle_time_out_is_new_with_and_without_the_sweep() {
    let ms = |ms: u64| 1000 * SECOND + ms * 1_000_000;
    let connection = |start: u64, [ours, theirs]: [u32; 2]| {
        [
            Made::tcp(false, SYN, ours, 0, ms(start)),
            Made::tcp(true, SYN | ACK, theirs, 0, ms(start + 20)),
            Made::tcp(false, ACK, ours + 1, 0, ms(start + 30)),
            Made::tcp(false, FIN | ACK, ours + 1, 0, ms(start + 40)),
        ]
    };
    let (first, second) = (connection(0, [9000, 9500]), connection(60_000, [100, 500]));
    // The other end closes the second connection.
    let last = Made::tcp(true, FIN | ACK, 501, 0, ms(60_050));
    let second = [second[0], second[1], second[2], last];
    let two = |sweeps: bool| {
        let mut table = FlowTable::new(config(100));
        let mut records = see(&mut table, &frames(&first), 7);
        if sweeps {
            table.rest(ms(40), 30 * SECOND, &mut |record| records.push(*record));
        }
        records.extend(see(&mut table, &frames(&second), 7));
        table.end(&mut |record| records.push(*record));
        records.iter().map(|record| Record { place: place_of(1), ..*record }).collect::<Vec<_>>()
    };
    let records = two(false);
    assert_eq!(records, two(true));
    let said: Vec<_> = records.iter().map(|record| (record.end, record.rtt_ns)).collect();
    let rtt_ns = Some(30_000_000);
    assert_eq!(said, [(EndReason::Idle, rtt_ns), (EndReason::End, rtt_ns)]);
    assert_eq!(records[1].retransmissions, 0);
}

#[test]
fn the_sweep_finds_what_is_over() {
    let mut table = FlowTable::new(config(100));
    let mut records = see(&mut table, &frames(&[Made::tcp(false, ACK, 1, 0, SECOND)]), 1);
    assert!(records.is_empty());
    table.rest(SECOND, 14 * SECOND, &mut |record| records.push(*record));
    assert_eq!((records.len(), table.open()), (0, 1));
    table.rest(SECOND, 17 * SECOND, &mut |record| records.push(*record));
    assert_eq!((records.len(), table.open()), (1, 0));
    assert_eq!(records[0].end, EndReason::Idle);
}

#[test]
fn a_flow_takes_at_most_200_bytes() {
    for flows in [1_000, 500_001, 1 << 20, (1 << 20) + 1] {
        let bytes = FlowTable::new(config(flows)).state_bytes();
        assert!(bytes <= flows * STATE_BYTES_MAX, "{flows}: {}", bytes as f64 / flows as f64);
    }
    assert_eq!((size_of::<super::Ends>(), size_of::<Counts>()), (64, 64));
}

//! Compares random operations on a log of tiny segments with a plain vector of packets.

#[path = "common/config.rs"]
mod config;

use std::collections::VecDeque;

use burstline_log::{
    Appended, Burst, Flags, HeldBurst, Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start,
    Writer,
};
use proptest::collection::vec;
use proptest::prelude::*;

use config::of_segments;

const SEGMENT_BYTES: usize = 4096;
const SEGMENTS: usize = 12;

#[derive(Clone, Debug)]
enum Operation {
    Append { length: usize, time_step_ns: i64, drops: u64, cut: u32 },
    Publish,
    Attach { policy: Policy, window: usize, start: Start },
    Detach { reader: usize },
    Read { reader: usize },
    Hold { reader: usize },
    LetGo { reader: usize },
}

fn operation() -> impl Strategy<Value = Operation> {
    let length = prop_oneof![4 => 0..200_usize, 1 => 1000..6000_usize];
    let time_step_ns = prop_oneof![8 => 0..2000_i64, 1 => -5_000..0_i64, 1 => Just(9_000_000_000)];
    let drops = prop_oneof![9 => Just(0_u64), 1 => 1..99_u64];
    let cut = prop_oneof![9 => Just(0_u32), 1 => 1..99_u32];
    let policy = prop_oneof![2 => Just(Policy::Lossy), 1 => Just(Policy::Lossless)];
    let start = prop_oneof![Just(Start::Now), Just(Start::Segment), Just(Start::Oldest)];
    let reader = 0..4_usize;
    prop_oneof![
        40 => (length, time_step_ns, drops, cut).prop_map(|(length, time_step_ns, drops, cut)| {
            Operation::Append { length, time_step_ns, drops, cut }
        }),
        8 => Just(Operation::Publish),
        2 => (policy, 1..3_usize, start)
            .prop_map(|(policy, window, start)| Operation::Attach { policy, window, start }),
        1 => reader.clone().prop_map(|reader| Operation::Detach { reader }),
        12 => reader.clone().prop_map(|reader| Operation::Read { reader }),
        3 => reader.clone().prop_map(|reader| Operation::Hold { reader }),
        3 => reader.prop_map(|reader| Operation::LetGo { reader }),
    ]
}

/// An appended packet, as it must be read again.
struct Sent {
    bytes: Vec<u8>,
    meta: Meta,
}

struct Follower {
    reader: Reader,
    policy: Policy,
    /// The number of the first packet delivered or missed; known from the first burst.
    start: Option<u64>,
    held: VecDeque<HeldBurst>,
}

struct World {
    log: Log,
    writer: Writer,
    sent: Vec<Sent>,
    time_ns: u64,
    followers: Vec<Follower>,
}

impl World {
    fn new(keep_ns: Option<u64>) -> Self {
        let config = of_segments("model", SEGMENTS, SEGMENT_BYTES);
        let config = LogConfig { keep_ns, max_readers: 4, ..config };
        let (log, writer) = Log::create(config).unwrap();
        Self { log, writer, sent: Vec::new(), time_ns: 1 << 60, followers: Vec::new() }
    }

    fn run(&mut self, operation: Operation) {
        match operation {
            Operation::Append { length, time_step_ns, drops, cut } => {
                self.time_ns = self.time_ns.wrapping_add_signed(time_step_ns);
                self.append(length, drops, cut);
            }
            Operation::Publish => self.writer.publish(),
            Operation::Attach { policy, window, start } => {
                if let Ok(reader) = self.log.attach(ReaderConfig { policy, window, start }) {
                    let held = VecDeque::new();
                    self.followers.push(Follower { reader, policy, start: None, held });
                } else {
                    assert!(self.followers.len() >= 4, "a seat and segments were free");
                }
            }
            Operation::Detach { reader } => {
                if reader < self.followers.len() {
                    self.followers.remove(reader);
                }
            }
            Operation::Read { reader } => {
                if let Some(follower) = self.followers.get_mut(reader) {
                    follower.read(&self.sent);
                }
            }
            Operation::Hold { reader } => {
                if let Some(follower) = self.followers.get_mut(reader) {
                    follower.hold();
                    follower.check_held(&self.sent);
                }
            }
            Operation::LetGo { reader } => {
                if let Some(follower) = self.followers.get_mut(reader) {
                    follower.check_held(&self.sent);
                    follower.held.pop_front();
                }
            }
        }
    }

    fn append(&mut self, length: usize, drops_before: u64, cut: u32) {
        let number = self.sent.len();
        let bytes: Vec<u8> = (0..length).map(|at| (number * 31 + at) as u8).collect();
        let meta = Meta {
            time_ns: self.time_ns,
            drops_before,
            original_length: length as u32 + cut,
            hash: number as u32,
            port: number as u8,
            flags: if number.is_multiple_of(5) { Flags::OUTGOING } else { Flags::NONE },
        };
        let most = self.writer.max_packet_bytes();
        match self.writer.append(&bytes, &meta) {
            Appended::Whole => assert!(length <= most),
            Appended::Truncated => assert!(length > most),
            Appended::Full => {
                let is_blocked = |f: &Follower| f.policy == Policy::Lossless || !f.held.is_empty();
                assert!(self.followers.iter().any(is_blocked), "full, and nobody holds it up");
                return;
            }
        }
        let bytes = bytes[..length.min(most)].to_vec();
        self.sent.push(Sent { bytes, meta });
        assert_eq!(self.writer.statistics().packets, self.sent.len() as u64);
    }

    /// Ends the log: every reader must reach the end with an exact account.
    fn finish(self) {
        let Self { writer, sent, mut followers, .. } = self;
        drop(writer);
        for follower in &mut followers {
            follower.held.clear();
            while !follower.reader.is_finished() {
                follower.read(&sent);
            }
            let statistics = follower.reader.statistics();
            if let Some(start) = follower.start {
                let seen = statistics.delivered + statistics.missed;
                assert_eq!(seen, sent.len() as u64 - start, "{statistics:?}");
            }
            assert_eq!(follower.reader.lag(), 0);
        }
    }
}

impl Follower {
    fn read(&mut self, sent: &[Sent]) {
        let before = self.reader.statistics();
        let first = self.reader.next_burst().map(|burst| {
            compare(&burst, sent);
            (burst.first_packet(), burst.len() as u64)
        });
        let after = self.reader.statistics();
        if let Some((first, packets)) = first {
            let start = self.start_at(first);
            assert_eq!(after.delivered - before.delivered, packets);
            assert_eq!(first + packets - start, after.delivered + after.missed);
        }
        if self.policy == Policy::Lossless {
            assert_eq!(after.missed, 0, "a lossless reader was lapped");
        }
    }

    /// Returns the reader's start, given the first packet of its latest burst. It may have missed
    /// packets before its first burst.
    fn start_at(&mut self, first: u64) -> u64 {
        let missed = self.reader.statistics().missed;
        *self.start.get_or_insert(first - missed)
    }

    fn hold(&mut self) {
        if let Some(held) = self.reader.hold_burst() {
            self.start_at(held.burst().first_packet());
            self.held.push_back(held);
        }
    }

    fn check_held(&mut self, sent: &[Sent]) {
        for held in &self.held {
            compare(&held.burst(), sent);
        }
    }
}

fn compare(burst: &Burst<'_>, sent: &[Sent]) {
    assert!(!burst.is_empty());
    let (first, rest) = burst.split_at(burst.len() / 2);
    let halves = first.packets().chain(rest.packets());
    for (index, (packet, half)) in burst.packets().zip(halves).enumerate() {
        let Sent { bytes, meta } = &sent[burst.first_packet() as usize + index];
        assert_eq!(packet.bytes(), &bytes[..]);
        assert_eq!(packet.time_ns(), meta.time_ns);
        assert_eq!(packet.original_length(), meta.original_length as usize);
        assert_eq!(packet.drops_before(), meta.drops_before);
        assert_eq!((packet.port(), packet.desc().hash()), (meta.port, meta.hash));
        assert_eq!(packet.desc().flags().without(Flags::FACTS), meta.flags);
        assert_eq!(half.bytes(), packet.bytes());
        assert_eq!(half.time_ns(), packet.time_ns());
        assert_eq!(burst.packet(index).desc(), packet.desc());
    }
    assert_eq!(rest.first_packet(), burst.first_packet() + first.len() as u64);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_is_a_vector(
        // No history, none by age, all of it: what is in between depends on the clock.
        keep_ns in prop_oneof![2 => Just(None), 1 => Just(Some(0)), 2 => Just(Some(u64::MAX))],
        operations in vec(operation(), 1..if cfg!(miri) { 60 } else { 600 }),
    ) {
        let mut world = World::new(keep_ns);
        for operation in operations {
            world.run(operation);
        }
        world.finish();
    }
}

//! Injected frames arrive, each exactly once, at programs and at packet sockets.

use burstline_afpacket::{Ring, RingOptions};
use burstline_skip::skip;
use burstline_sys::namespace::interface_index;
use burstline_testbed::{
    Amount, Bed, FAR, Frames, INJECTED_BYTES_MAX, Injected, Injector, InjectorError,
    InjectorOptions, Tag, sequence_of,
};
use burstline_xdp::bpf::Register::{R0, R1, R2, R3, R4, R5, R6, R10};
use burstline_xdp::bpf::{
    Assembler, BpfError, Compare, Helper, Link, MappedArray, Program, ProgramOptions, Size,
    XdpMode, xdp_action, xdp_context,
};
use std::time::{Duration, Instant};

/// Long enough for a busy machine; only a failing test waits that long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Distinct frames of a test.
const COUNT: u64 = 100_000;

/// A receiver that keeps a count for each number: word `number` of its map.
struct Tally {
    seen: MappedArray,
    _link: Link,
}

/// Counts each frame under the number at byte `at`; a number above `numbers` counts as `numbers`.
/// On an interface of the calling thread's host.
fn tally(interface: &str, at: i16, numbers: u32, has_fragments: bool) -> Tally {
    let seen = MappedArray::create("tally", 1, numbers + 1).unwrap();
    let mut code = Assembler::new();
    let (end, known) = (code.label(), code.label());
    code.mov(R6, R1)
        .load(Size::Word, R2, R6, xdp_context::DATA)
        .load(Size::Word, R3, R6, xdp_context::DATA_END)
        .mov(R4, R2)
        .add(R4, i32::from(at) + 8)
        .jump_if(Compare::Above, R4, R3, end)
        .load(Size::Double, R5, R2, at)
        .swap_network(R5, Size::Double)
        .load_constant(R4, u64::from(numbers))
        .jump_if(Compare::BelowOrEqual, R5, R4, known)
        .mov(R5, R4)
        .bind(known)
        .store(Size::Word, R10, -4, R5)
        .load_map(R1, seen.map())
        .mov(R2, R10)
        .add(R2, -4)
        .call(Helper::MapLookup)
        .jump_if(Compare::Equal, R0, 0, end)
        .mov(R1, 1)
        .atomic_add(Size::Double, R0, 0, R1)
        .bind(end)
        .mov(R0, xdp_action::DROP)
        .exit();
    let options = ProgramOptions { name: "tally", has_fragments, ..ProgramOptions::default() };
    let program = Program::load(&code.finish().unwrap(), &options).unwrap();
    let index = interface_index(interface).unwrap().unwrap();
    let link = Link::attach_xdp(&program, index, XdpMode::Auto).unwrap();
    Tally { seen, _link: link }
}

/// Makes an injector, or reports that this needs root in the first user namespace.
fn injector(options: &InjectorOptions) -> Option<Injector> {
    match Injector::new(options) {
        Ok(injector) => Some(injector),
        Err(InjectorError::Bpf(error @ BpfError::NotPermitted { .. })) => {
            skip(error);
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns whether maps and programs may be made here.
fn may_program() -> bool {
    match MappedArray::create("probe", 1, 1) {
        Ok(_) => true,
        Err(error) => {
            skip(error);
            false
        }
    }
}

fn print(what: &str, injected: &Injected) {
    let rate = injected.rate_pps() / 1e6;
    println!("{what}: {} frames in {:?}: {rate:.2} Mpps", injected.offered, injected.elapsed);
}

#[test]
fn a_program_sees_each_number_once() {
    let Some(bed) = Bed::or_skip() else { return };
    if !may_program() {
        return;
    }
    let tagged = Frames {
        tags: vec![Tag { protocol: 0x8100, control: 7 }; 2],
        first: 0,
        ..Frames::new(0, 1514)
    };
    bed.far.run(move || {
        for (frames, has_fragments) in [
            (Frames::new(0, 60), false),
            (Frames::new(0, 60), true),
            (tagged, false),
            (Frames::new(0, INJECTED_BYTES_MAX), false),
        ] {
            let at = frames.number_at() as i16;
            let tally = tally(FAR, at, COUNT as u32, has_fragments);
            let options = InjectorOptions::numbered(FAR, &frames);
            let Some(mut injector) = injector(&options) else { return };
            // In two parts of odd size.
            let first = injector.inject(Amount::Frames(COUNT / 2 + 1), None).unwrap();
            let second = injector.inject(Amount::Frames(COUNT / 2 - 1), None).unwrap();
            assert_eq!((first.offered, second.offered), (COUNT / 2 + 1, COUNT / 2 - 1));
            print(&format!("{} bytes", frames.length), &first);
            for number in 0..COUNT as usize {
                assert_eq!(tally.seen.word(number, 0), 1, "number {number}");
            }
            assert_eq!(tally.seen.word(COUNT as usize, 0), 0, "numbers beyond");
        }
    });
}

#[test]
fn a_packet_socket_sees_each_number_once() {
    let Some(bed) = Bed::or_skip() else { return };
    if !may_program() {
        return;
    }
    bed.far.run(move || {
        // Room for all, so that scheduling does not matter.
        let options = RingOptions { block_bytes: 1 << 20, blocks: 32, ..RingOptions::default() };
        let mut ring = Ring::open(FAR, &options).unwrap();
        let frames = Frames { first: 1 << 40, ..Frames::new(0, 60) };
        let numbered = InjectorOptions::numbered(FAR, &frames).to_stack();
        let Some(mut numbered) = injector(&numbered) else { return };
        let identical = InjectorOptions::identical(FAR, &frames).to_stack();
        let mut identical = Injector::new(&identical).unwrap();
        for (injector, expected) in [(&mut numbered, 1), (&mut identical, 0)] {
            let injected = injector.inject(Amount::Frames(COUNT), None).unwrap();
            print("to the stack", &injected);
            assert_eq!(injected.offered, COUNT);
            take(&mut ring, (0..COUNT).map(|number| frames.first + number * expected));
        }
        let statistics = ring.statistics();
        assert_eq!((statistics.packets, statistics.drops), (2 * COUNT, 0));
    });
}

/// Receives frames with exactly these numbers, in this order.
fn take(ring: &mut Ring, numbers: impl Iterator<Item = u64>) {
    let (mut numbers, start) = (numbers.peekable(), Instant::now());
    while numbers.peek().is_some() {
        assert!(
            start.elapsed() < PATIENCE,
            "without {:?}: {:?}",
            numbers.peek(),
            ring.statistics()
        );
        let Some(mut block) = ring.next_block() else { continue };
        let packets: Vec<_> = std::iter::from_fn(|| block.next_packet()).collect();
        let bytes = block.into_bytes();
        for packet in packets {
            let at = packet.offset as usize;
            let frame = &bytes[at..at + packet.length as usize];
            assert_eq!((sequence_of(frame), frame.len()), (numbers.next(), 60));
        }
    }
}

#[test]
fn identical_frames_paced_frames_and_frames_for_a_time_are_counted() {
    let Some(bed) = Bed::or_skip() else { return };
    if !may_program() {
        return;
    }
    bed.far.run(move || {
        let frames = Frames { first: 1, ..Frames::new(0, 60) };
        let at = frames.number_at() as i16;
        let mut expected = 0;
        let tally = tally(FAR, at, 1, false);
        let identical = InjectorOptions::identical(FAR, &frames);
        let numbered = InjectorOptions::numbered(FAR, &frames);
        let Some(mut identical) = injector(&identical) else { return };
        let mut numbered = Injector::new(&numbered).unwrap();
        for (amount, rate_pps) in [
            (Amount::Frames(300_000), None),
            (Amount::Frames(80_001), Some(800_000)),
            (Amount::Frames(170_000), Some(1_700_000)),
            (Amount::Frames(3), Some(1000)),
            (Amount::Frames(0), None),
            (Amount::Time(Duration::from_millis(100)), None),
            (Amount::Time(Duration::from_millis(100)), Some(1_000_000)),
        ] {
            for (kind, injector) in [("identical", &mut identical), ("numbered", &mut numbered)] {
                let injected = injector.inject(amount, rate_pps).unwrap();
                print(&format!("{kind}, {amount:?} at {rate_pps:?}"), &injected);
                if let Amount::Frames(frames) = amount {
                    assert_eq!(injected.offered, frames);
                }
                expected += injected.offered;
            }
        }
        assert_eq!(tally.seen.sum(0), expected);
        assert_eq!(tally.seen.word(0, 0), 0, "the first number is 1");
    });
}

#[test]
fn what_cannot_be_injected_is_refused() {
    let Some(bed) = Bed::or_skip() else { return };
    if !may_program() {
        return;
    }
    bed.far.run(move || {
        let frames = Frames::new(0, 60);
        let options = InjectorOptions::numbered(FAR, &frames);
        let refused = |options: &InjectorOptions| match Injector::new(options) {
            Ok(_) => panic!("{options:?}"),
            Err(error) => error,
        };
        assert!(matches!(refused(&options), InjectorError::NoProgram(name) if name == FAR));
        let nobody = InjectorOptions { interface: "nobody".to_owned(), ..options.clone() };
        assert!(matches!(refused(&nobody), InjectorError::NoSuchInterface(_)));
        for (bytes, number_at) in [(59, 14), (INJECTED_BYTES_MAX + 1, 14), (60, 53)] {
            let frame = vec![0; bytes];
            let options = InjectorOptions { frame, number_at: Some(number_at), ..options.clone() };
            assert!(matches!(refused(&options), InjectorError::Frame { .. }), "{bytes}");
        }
    });
}

use std::os::fd::{AsFd, AsRawFd};

use super::Register::{R0, R1, R2, R3, R4, R6, R10};
use super::*;
use crate::tests::run_or_skip;
use burstline_sys::namespace::enter_new_network;

/// The loopback's number, in every network namespace.
const LOOPBACK: u32 = 1;

/// A frame whose content no program below reads.
const FRAME: [u8; 60] = [0x5a; 60];

/// Runs a test if programs may be loaded; otherwise reports why not.
fn privileged(job: impl FnOnce() + Send + 'static) {
    let work = move || {
        let entered = enter_new_network();
        entered.map_err(BpfError::system("unshare(CLONE_NEWNET)"))?;
        MappedArray::create("probe", 1, 1)?;
        Program::load(&answer(xdp_action::PASS), &ProgramOptions::default())?;
        job();
        Ok::<_, BpfError>(())
    };
    run_or_skip(work, |error| matches!(error, BpfError::NotPermitted { .. }));
}

/// Makes a program that returns the same for each packet.
fn answer(value: i32) -> Vec<Instruction> {
    let mut code = Assembler::new();
    code.mov(R0, value).exit();
    code.finish().unwrap()
}

fn named(name: &str) -> ProgramOptions<'_> {
    ProgramOptions { name, ..ProgramOptions::default() }
}

/// Makes a program that adds 1 to word 0, and the packet's length to word 1, of the entry of the
/// core and queue.
fn counter(counters: &MappedArray, queues: i32) -> Vec<Instruction> {
    let mut code = Assembler::new();
    let end = code.label();
    code.mov(R6, R1)
        .call(Helper::CurrentCore)
        .alu(Alu::Multiply, R0, queues)
        .load(Size::Word, R1, R6, xdp_context::QUEUE_INDEX)
        .add(R0, R1)
        .store(Size::Word, R10, -4, R0)
        .load_map(R1, counters.map())
        .mov(R2, R10)
        .add(R2, -4)
        .call(Helper::MapLookup)
        .jump_if(Compare::Equal, R0, 0, end)
        .load(Size::Double, R1, R0, 0)
        .add(R1, 1)
        .store(Size::Double, R0, 0, R1)
        .load(Size::Word, R2, R6, xdp_context::DATA)
        .load(Size::Word, R3, R6, xdp_context::DATA_END)
        .alu(Alu::Subtract, R3, R2)
        .load(Size::Double, R1, R0, 8)
        .add(R1, R3)
        .store(Size::Double, R0, 8, R1)
        .bind(end)
        .mov(R0, xdp_action::DROP)
        .exit();
    code.finish().unwrap()
}

/// Returns the bytes that the kernel sees, on a little-endian machine.
#[cfg(target_endian = "little")]
fn bytes(code: &[Instruction]) -> Vec<[u8; 8]> {
    let bytes = |i: &Instruction| {
        let [o0, o1] = i.offset.to_le_bytes();
        let [i0, i1, i2, i3] = i.immediate.to_le_bytes();
        [i.code, i.registers, o0, o1, i0, i1, i2, i3]
    };
    code.iter().map(bytes).collect()
}

#[test]
#[cfg(target_endian = "little")]
fn instructions_are_encoded_as_the_standard_says() {
    let mut code = Assembler::new();
    let (back, ahead) = (code.label(), code.label());
    code.bind(back)
        .mov(R6, R1)
        .mov(R0, -2)
        .add(R2, R3)
        .alu(Alu::ShiftRightSigned, R2, 63)
        .alu32(Alu::ExclusiveOr, R4, R2)
        .alu32(Alu::Remainder, R4, 7)
        .negate32(R3)
        .swap_network(R2, Size::Half)
        .swap_network(R2, Size::Double)
        .load(Size::Byte, R1, R2, 12)
        .load(Size::Half, R1, R2, -2)
        .load(Size::Word, R1, R2, 0)
        .load(Size::Double, R1, R2, 8)
        .store(Size::Word, R10, -4, R0)
        .store(Size::Double, R10, -16, 0x1234)
        .atomic_add(Size::Double, R1, 8, R2)
        .load_constant(R1, 0x1122_3344_5566_7788)
        .jump(ahead)
        .jump_if(Compare::Above, R2, R3, ahead)
        .jump_if(Compare::NotEqual, R2, -1, back)
        .jump32_if(Compare::AnyBit, R2, 8, ahead)
        .call(Helper::RedirectMap)
        .bind(ahead)
        .exit();
    // Source: RFC 9669, appendix and the tables of its sections 4 and 5.
    let expected: [[u8; 8]; 24] = [
        [0xbf, 0x16, 0, 0, 0, 0, 0, 0],
        [0xb7, 0x00, 0, 0, 0xfe, 0xff, 0xff, 0xff],
        [0x0f, 0x32, 0, 0, 0, 0, 0, 0],
        [0xc7, 0x02, 0, 0, 63, 0, 0, 0],
        [0xac, 0x24, 0, 0, 0, 0, 0, 0],
        [0x94, 0x04, 0, 0, 7, 0, 0, 0],
        [0x84, 0x03, 0, 0, 0, 0, 0, 0],
        [0xdc, 0x02, 0, 0, 16, 0, 0, 0],
        [0xdc, 0x02, 0, 0, 64, 0, 0, 0],
        [0x71, 0x21, 12, 0, 0, 0, 0, 0],
        [0x69, 0x21, 0xfe, 0xff, 0, 0, 0, 0],
        [0x61, 0x21, 0, 0, 0, 0, 0, 0],
        [0x79, 0x21, 8, 0, 0, 0, 0, 0],
        [0x63, 0x0a, 0xfc, 0xff, 0, 0, 0, 0],
        [0x7a, 0x0a, 0xf0, 0xff, 0x34, 0x12, 0, 0],
        [0xdb, 0x21, 8, 0, 0, 0, 0, 0],
        [0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55],
        [0x00, 0x00, 0, 0, 0x44, 0x33, 0x22, 0x11],
        [0x05, 0x00, 4, 0, 0, 0, 0, 0],
        [0x2d, 0x32, 3, 0, 0, 0, 0, 0],
        [0x55, 0x02, 0xeb, 0xff, 0xff, 0xff, 0xff, 0xff],
        [0x46, 0x02, 1, 0, 8, 0, 0, 0],
        [0x85, 0x00, 0, 0, 51, 0, 0, 0],
        [0x95, 0x00, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(bytes(&code.finish().unwrap()), expected);
}

#[test]
fn labels_must_be_somewhere_and_near() {
    let mut code = Assembler::new();
    let nowhere = code.label();
    code.mov(R0, 0).jump(nowhere).exit();
    assert!(matches!(code.finish(), Err(BpfError::UndefinedLabel { label: 0, at: 1 })));

    // The longest forward jump skips 2^15 - 1 instructions, the longest backward jump 2^15.
    for (between, is_fine) in [(32_767, true), (32_768, false)] {
        let mut code = Assembler::new();
        let far = code.label();
        code.jump(far);
        for _ in 0..between {
            code.mov(R0, 0);
        }
        code.bind(far).exit();
        assert_eq!(code.finish().is_ok(), is_fine, "{between}");
        let mut code = Assembler::new();
        let far = code.label();
        code.bind(far);
        for _ in 0..between {
            code.mov(R0, 0);
        }
        code.jump(far);
        assert_eq!(code.finish().is_ok(), is_fine, "{between} back");
    }
}

#[test]
fn maps_keep_what_they_are_given() {
    privileged(|| {
        let options = MapOptions {
            name: "test_hash",
            kind: MapKind::Hash,
            key_bytes: 3,
            value_bytes: 5,
            entries: 2,
            flags: 0,
        };
        let hash = Map::create(&options).unwrap();
        assert_eq!(hash.lookup(b"abc").unwrap(), None);
        hash.update(b"abc", b"hello").unwrap();
        hash.update(b"abd", b"world").unwrap();
        assert_eq!(hash.lookup(b"abc").unwrap().unwrap(), b"hello");
        // The map is full.
        assert!(matches!(hash.update(b"abe", b"never"), Err(BpfError::System { .. })));
        assert!(hash.delete(b"abc").unwrap());
        assert!(!hash.delete(b"abc").unwrap());
        assert_eq!(hash.lookup(b"abc").unwrap(), None);

        let options = MapOptions { kind: MapKind::PerCpuArray, key_bytes: 4, ..options };
        let array = Map::create(&options).unwrap();
        let values = array.lookup_per_cpu(&1_u32.to_ne_bytes()).unwrap();
        assert_eq!(values, vec![vec![0; 5]; possible_cpus().unwrap() as usize]);
        assert_eq!(array.lookup_per_cpu(&2_u32.to_ne_bytes()).unwrap(), Vec::<Vec<u8>>::new());

        let options = MapOptions { kind: MapKind::Devices, value_bytes: 4, ..options };
        let devices = Map::create(&options).unwrap();
        assert_eq!(devices.lookup(&1_u32.to_ne_bytes()).unwrap(), None);
        devices.set(1, LOOPBACK).unwrap();
        let value = devices.lookup(&1_u32.to_ne_bytes()).unwrap().unwrap();
        assert_eq!(value, LOOPBACK.to_ne_bytes());
        for kind in [MapKind::Programs, MapKind::Sockets] {
            let map = Map::create(&MapOptions { kind, ..options }).unwrap();
            // There is no such descriptor.
            assert!(matches!(map.set(0, u32::MAX), Err(BpfError::System { .. })), "{kind:?}");
        }
    });
}

#[test]
fn what_the_verifier_says_is_in_the_error() {
    privileged(|| {
        let mut code = Assembler::new();
        code.mov(R0, R3).exit();
        let error = Program::load(&code.finish().unwrap(), &named("bad")).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("BPF_PROG_LOAD of bad") && text.contains("R3 !read_ok"), "{text}");
        assert!(matches!(error, BpfError::Rejected { .. }));
    });
}

#[test]
fn programs_run_and_their_counters_are_seen_without_a_call() {
    privileged(|| {
        let entries = possible_cpus().unwrap() * 2;
        let counters = MappedArray::create("counters", 8, entries).unwrap();
        let program = Program::load(&counter(&counters, 2), &named("count")).unwrap();
        assert_eq!((counters.sum(0), counters.sum(1)), (0, 0));
        let run = program.test_run(&FRAME, 1000).unwrap();
        assert_eq!((run.value, &run.output[..]), (xdp_action::DROP as u32, &FRAME[..]));
        assert_eq!((counters.sum(0), counters.sum(1)), (1000, 60_000));
        // The kernel's own view agrees, and other words are untouched.
        let key = |entry: usize| (entry as u32).to_ne_bytes();
        for entry in 0..counters.entries() {
            let value = counters.map().lookup(&key(entry)).unwrap().unwrap();
            let words: Vec<u64> = (0..8).map(|word| counters.word(entry, word)).collect();
            assert_eq!(value, words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<_>>());
            assert_eq!(words[2..], [0; 6]);
        }

        let info = program.info().unwrap();
        assert_eq!((&info.name[..], info.kind), ("count", ProgramKind::Xdp as u32));
        let again = Program::from_id(info.id).unwrap();
        assert_eq!(again.info().unwrap(), info);
        again.test_run(&FRAME, 1).unwrap();
        assert_eq!(counters.sum(0), 1001);
    });
}

#[test]
fn a_program_can_change_the_packet_and_filter_a_socket() {
    privileged(|| {
        let mut code = Assembler::new();
        let end = code.label();
        code.load(Size::Word, R2, R1, xdp_context::DATA)
            .load(Size::Word, R3, R1, xdp_context::DATA_END)
            .mov(R4, R2)
            .add(R4, 20)
            .mov(R0, xdp_action::ABORTED)
            .jump_if(Compare::Above, R4, R3, end)
            .load_constant(R4, 0x0102_0304_0506_0708)
            .swap_network(R4, Size::Double)
            .store(Size::Double, R2, 12, R4)
            .mov(R0, xdp_action::TRANSMIT)
            .bind(end)
            .exit();
        let program = Program::load(&code.finish().unwrap(), &named("write")).unwrap();
        let run = program.test_run(&FRAME, 1).unwrap();
        assert_eq!(run.value, xdp_action::TRANSMIT as u32);
        assert_eq!(run.output[12..20], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((run.output.len(), run.output[20]), (60, 0x5a));
        assert_eq!(program.test_run(&FRAME[..19], 1).unwrap().value, 0);

        let options = ProgramOptions { kind: ProgramKind::SocketFilter, ..named("filter") };
        let filter = Program::load(&answer(96), &options).unwrap();
        assert_eq!(filter.test_run(&FRAME, 1).unwrap().value, 96);
    });
}

#[test]
fn a_link_holds_its_program_and_no_other_until_it_is_dropped() {
    privileged(|| {
        let program = Program::load(&answer(xdp_action::PASS), &named("first")).unwrap();
        let other = Program::load(&answer(xdp_action::DROP), &named("second")).unwrap();
        let id = program.info().unwrap().id;
        assert_eq!(attached_program(LOOPBACK).unwrap(), None);
        let attach = |program: &Program, mode| Link::attach_xdp(program, LOOPBACK, mode);

        let link = attach(&program, XdpMode::Generic).unwrap();
        assert!(link.as_fd().as_raw_fd() >= 0);
        let attached = Attached { program_id: id, mode: XdpMode::Generic };
        assert_eq!(attached_program(LOOPBACK).unwrap(), Some(attached));
        // The link keeps the program alive.
        drop(program);
        for mode in [XdpMode::Generic, XdpMode::Auto] {
            let error = attach(&other, mode).unwrap_err();
            let BpfError::Attached { program_id, .. } = error else { panic!("{error}") };
            assert_eq!(program_id, id);
        }
        // A child has such a copy until it calls exec or drops it.
        let copy = || link.as_fd().try_clone_to_owned().unwrap();
        drop(Link { fd: copy(), owner: link.owner + 1 });
        assert_eq!(attached_program(LOOPBACK).unwrap(), Some(attached));
        let copy = copy();
        drop(link);
        assert_eq!(attached_program(LOOPBACK).unwrap(), None);
        drop(copy);
        let error = attach(&other, XdpMode::Native).unwrap_err();
        assert!(matches!(error, BpfError::NoNativeMode { .. }), "{error}");
        drop(attach(&other, XdpMode::Auto).unwrap());

        let error = Link::attach_xdp(&other, 4711, XdpMode::Auto).unwrap_err();
        assert!(matches!(error, BpfError::NoSuchInterface { interface_index: 4711 }), "{error}");
        let error = attached_program(4711).unwrap_err();
        assert!(matches!(error, BpfError::NoSuchInterface { interface_index: 4711 }), "{error}");
    });
}

#[test]
fn live_frames_run_the_attached_program() {
    privileged(|| {
        let counters = MappedArray::create("counters", 8, possible_cpus().unwrap()).unwrap();
        let program = Program::load(&counter(&counters, 1), &named("count")).unwrap();
        let _link = Link::attach_xdp(&program, LOOPBACK, XdpMode::Generic).unwrap();
        let run = LiveRun { interface_index: LOOPBACK, repeat: 1000, batch: 64 };
        program.run_live(&FRAME, &run).unwrap();
        assert_eq!((counters.sum(0), counters.sum(1)), (1000, 60_000));
        let nowhere = LiveRun { interface_index: 77, ..run };
        assert!(matches!(program.run_live(&FRAME, &nowhere), Err(BpfError::System { .. })));
        assert_eq!(counters.sum(0), 1000);
    });
}

//! The generator: an XDP program that fills each frame and hands it on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use super::table::{ENTRY_BYTES, FRAMES_AT, FRAMES_AT_ONCE, FrameTable, OFFSETS};
use super::{BATCH, INJECTED_BYTES_MAX, InjectError};
use crate::bpf::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9};
use crate::bpf::{
    Alu, Assembler, BpfError, Compare, Helper, Instruction, Label, Link, LiveRun, Map, MapKind,
    MapOptions, MappedArray, Program, ProgramOptions, Size, XdpMode, xdp_action, xdp_context,
};
use burstline_sys::namespace;

/// Counter words.
const GENERATED: usize = 0;
const NOT_TAKEN: usize = 1;
const WORDS: u32 = 8;
const WORD_BYTES: i16 = 8;
const HALF_BYTES: i16 = 2;

const NAME: &str = "inject";

/// The loopback's number, in every network namespace.
const LOOPBACK: u32 = 1;

/// Kinds of program, as in [`ProgramOptions`]: with or without fragments, and with or without an
/// attach type. A tail call works only between programs of one kind, and the kernel does not report
/// the kind of an attached program.
const KINDS: [(bool, bool); 4] = [(true, false), (false, false), (true, true), (false, true)];

/// Numbers for otherwise identical frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbers {
    /// The number's offset in the frame: 8 bytes, big-endian. `None` for no number.
    pub at: Option<usize>,
    /// The first number.
    pub first: u64,
    /// Set if frames belong to several flows.
    pub flows: Option<Flows>,
}

/// Flows of otherwise identical frames: the low bits of a frame's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flows {
    /// The number of flows: a power of two, up to 2^15. Frames use them in rotation.
    pub count: u16,
    /// The offset of the flow number in the frame, counted from 0: 2 bytes, big-endian.
    pub at: usize,
    /// The offset of its complement, which keeps an Internet checksum over both unchanged.
    pub complement_at: usize,
}

/// The source of frame contents.
pub(super) enum Feed<'a> {
    /// The frame passed to the call, with numbers.
    Numbers(Numbers),
    Table(&'a FrameTable),
}

/// The program, its parking place, and its counters.
pub struct Generator {
    program: Program,
    counters: MappedArray,
    _parking: Parking,
    /// Keep it: an array of programs is emptied when no process has a descriptor of it.
    _targets: Option<Map>,
}

/// A link to the loopback of a namespace that receives nothing. The descriptor keeps the namespace
/// alive, and is dropped after the link.
struct Parking {
    _link: Link,
    _namespace: File,
}

impl Generator {
    /// Numbers frames and hands each to the program with id `target`, or to the stack.
    ///
    /// # Errors
    /// See [`InjectError`]. Needs root in the first user namespace.
    pub fn numbering(target: Option<u32>, numbers: Numbers) -> Result<Self, InjectError> {
        Self::new(target, Feed::Numbers(numbers))
    }

    pub(super) fn new(target: Option<u32>, feed: Feed<'_>) -> Result<Self, InjectError> {
        let counters = MappedArray::create("inject_counters", WORDS, 1)?;
        let Some(program_id) = target else {
            let code = code(&counters, &feed, None)?;
            let options = ProgramOptions { name: NAME, ..ProgramOptions::default() };
            let program = Program::load(&code, &options)?;
            let parking = park(&program)?;
            return Ok(Self { program, counters, _parking: parking, _targets: None });
        };
        let target = Program::from_id(program_id)?;
        for (has_fragments, is_attach_type_unsaid) in KINDS {
            let targets = Map::create(&MapOptions {
                name: "inject_target",
                kind: MapKind::Programs,
                key_bytes: 4,
                value_bytes: 4,
                entries: 1,
                flags: 0,
            })?;
            let code = code(&counters, &feed, Some(&targets))?;
            let options = ProgramOptions {
                name: NAME,
                has_fragments,
                is_attach_type_unsaid,
                ..ProgramOptions::default()
            };
            let program = Program::load(&code, &options)?;
            // From now on the array belongs to programs of this kind, and refuses others.
            match targets.set(0, target.as_fd().as_raw_fd() as u32) {
                Ok(()) => {
                    let parking = park(&program)?;
                    let targets = Some(targets);
                    return Ok(Self { program, counters, _parking: parking, _targets: targets });
                }
                Err(BpfError::System { source, .. })
                    if source.kind() == io::ErrorKind::InvalidInput => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(InjectError::Incompatible { program_id })
    }

    /// Injects `repeat` frames, in `[1, 2^31)`, into an interface of the calling thread's network
    /// namespace. They have the length of `frame`, and its bytes unless the feed changes them.
    /// After a signal there are fewer: the counters are exact.
    ///
    /// # Errors
    /// [`InjectError::Bpf`].
    pub fn run(
        &mut self,
        frame: &[u8],
        interface_index: u32,
        repeat: u32,
    ) -> Result<(), InjectError> {
        let run = LiveRun { interface_index, repeat, batch: BATCH.min(repeat) };
        match self.program.run_live(frame, &run) {
            Err(BpfError::System { source, .. }) if source.kind() == io::ErrorKind::Interrupted => {
                Ok(())
            }
            other => Ok(other?),
        }
    }

    /// Frames handed on so far. Cost: a load.
    #[inline]
    pub fn generated(&self) -> u64 {
        self.counters.word(0, GENERATED)
    }

    /// Frames that no receiver got: the program was detached, or the frame was too short.
    #[inline]
    pub fn not_taken(&self) -> u64 {
        self.counters.word(0, NOT_TAKEN)
    }

    /// The sum of both.
    #[inline]
    pub(super) fn handled(&self) -> u64 {
        self.generated() + self.not_taken()
    }
}

/// Assembles the program. One thread at a time runs it, so plain additions suffice. Its parts share
/// the context in R6 and the counters in R7.
fn code(
    counters: &MappedArray,
    feed: &Feed<'_>,
    targets: Option<&Map>,
) -> Result<Vec<Instruction>, BpfError> {
    let mut code = Assembler::new();
    let aborted = code.label();
    code.mov(R6, R1).load_map_value(R7, counters.map(), 0);
    match feed {
        Feed::Numbers(numbers) => write_number(&mut code, numbers, aborted),
        Feed::Table(table) => copy_frame(&mut code, table, aborted),
    }
    count(&mut code, GENERATED, 1);
    match targets {
        None => code.mov(R0, xdp_action::PASS).exit(),
        Some(targets) => code.mov(R1, R6).load_map(R2, targets).mov(R3, 0).call(Helper::TailCall),
    };
    if targets.is_some() {
        // This code runs only if the tail call found no program.
        count(&mut code, GENERATED, -1);
    }
    code.bind(aborted);
    count(&mut code, NOT_TAKEN, 1);
    code.mov(R0, xdp_action::ABORTED).exit();
    code.finish()
}

/// Emits an addition to a counter.
fn count(code: &mut Assembler, word: usize, by: i32) {
    let at = word as i16 * WORD_BYTES;
    code.load(Size::Double, R1, R7, at).add(R1, by).store(Size::Double, R7, at, R1);
}

/// Emits code that writes the next number into the frame.
fn write_number(code: &mut Assembler, numbers: &Numbers, aborted: Label) {
    // The caller knows the shape of the frame; the program drops a frame that is too short.
    let offset = |at: usize| i16::try_from(at).unwrap_or(i16::MAX).min(i16::MAX - WORD_BYTES);
    let at = offset(numbers.at.unwrap_or(0));
    let ends = numbers.flows.map_or([0; 2], |flows| [flows.at, flows.complement_at].map(offset));
    let end = (at + WORD_BYTES).max(ends[0] + HALF_BYTES).max(ends[1] + HALF_BYTES);
    code.load(Size::Word, R3, R6, xdp_context::DATA)
        .load(Size::Word, R4, R6, xdp_context::DATA_END)
        .mov(R0, R3)
        .add(R0, i32::from(end))
        .jump_if(Compare::Above, R0, R4, aborted);
    if numbers.at.is_some() {
        code.load(Size::Double, R2, R7, 0)
            .load_constant(R4, numbers.first)
            .add(R4, R2)
            .swap_network(R4, Size::Double)
            .store(Size::Double, R3, at, R4);
    }
    if let Some(flows) = numbers.flows {
        let [at, complement_at] = ends;
        code.load(Size::Double, R4, R7, 0)
            .alu(Alu::And, R4, i32::from(flows.count) - 1)
            .mov(R2, R4)
            .alu(Alu::ExclusiveOr, R2, 0xffff)
            .swap_network(R4, Size::Half)
            .store(Size::Half, R3, at, R4)
            .swap_network(R2, Size::Half)
            .store(Size::Half, R3, complement_at, R2);
    }
}

/// Emits code that copies the next table entry into the frame: its index is the count of handled
/// frames.
fn copy_frame(code: &mut Assembler, table: &FrameTable, aborted: Label) {
    let copy = code.label();
    let not_taken_at = NOT_TAKEN as i16 * WORD_BYTES;
    code.load(Size::Double, R1, R7, 0)
        .load(Size::Double, R2, R7, not_taken_at)
        .add(R1, R2)
        .alu(Alu::And, R1, FRAMES_AT_ONCE as i32 - 1)
        .alu(Alu::Multiply, R1, ENTRY_BYTES as i32)
        .load_map_value(R2, table.map(), 0)
        .add(R2, R1)
        // Offset and length, within bounds that the verifier can see.
        .load(Size::Word, R8, R2, 0)
        .alu(Alu::And, R8, OFFSETS as i32 - 1)
        .load(Size::Word, R9, R2, 4)
        .jump_if(Compare::Equal, R9, 0, aborted)
        .jump_if(Compare::Above, R9, INJECTED_BYTES_MAX as i32, aborted)
        // How much too long is the frame?
        .load(Size::Word, R2, R6, xdp_context::DATA_END)
        .load(Size::Word, R3, R6, xdp_context::DATA)
        .alu(Alu::Subtract, R2, R3)
        .mov(R3, R9)
        .alu(Alu::Subtract, R3, R2)
        .jump_if(Compare::Equal, R3, 0, copy)
        .mov(R1, R6)
        .mov(R2, R3)
        .call(Helper::AdjustTail)
        .jump_if(Compare::NotEqual, R0, 0, aborted)
        .bind(copy)
        .load_map_value(R3, table.map(), FRAMES_AT as u32)
        .add(R3, R8)
        .mov(R1, R6)
        .mov(R2, 0)
        .mov(R4, R9)
        .call(Helper::StoreBytes)
        .jump_if(Compare::NotEqual, R0, 0, aborted);
}

/// Attaches the program to an interface that receives nothing.
fn park(program: &Program) -> Result<Parking, InjectError> {
    let work = || {
        namespace::enter_new_network().map_err(InjectError::Parking)?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(InjectError::Parking)?;
        let link = Link::attach_xdp(program, LOOPBACK, XdpMode::Generic)?;
        Ok(Parking { _link: link, _namespace: namespace })
    };
    thread::scope(|scope| scope.spawn(work).join()).expect("the thread does not panic")
}

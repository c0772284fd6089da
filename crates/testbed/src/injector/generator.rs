//! The generator: an XDP program that numbers each frame and hands it on.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::thread;

use burstline_sys::bpf::Register::{R0, R1, R2, R3, R4, R6};
use burstline_sys::bpf::{
    Assembler, BpfError, Compare, Helper, Instruction, Link, Map, MapKind, MapOptions, MappedArray,
    Program, ProgramOptions, Size, XdpMode, xdp_action, xdp_context,
};
use burstline_sys::namespace;

use super::InjectorError;

/// Words of the counters.
const GENERATED: usize = 0;
const NOT_TAKEN: usize = 1;
const WORDS: u32 = 8;
const WORD_BYTES: i16 = 8;

/// The loopback's number, in every network namespace.
const LOOPBACK: u32 = 1;

/// Kinds of program, as [`ProgramOptions`] has them: with fragments or not, and with their attach
/// type said or not. A tail call goes only between programs of one kind, and no question tells
/// which one an attached program is.
const KINDS: [(bool, bool); 4] = [(true, false), (false, false), (true, true), (false, true)];

/// The program, where it is parked, and its counters.
pub(super) struct Generator {
    program: Program,
    counters: MappedArray,
    _parking: Parking,
    /// An array of programs is emptied when nobody has a descriptor of it.
    _targets: Option<Map>,
}

/// A link to the loopback of a namespace where nothing ever comes. The descriptor keeps the
/// namespace, and goes after the link.
struct Parking {
    _link: Link,
    _namespace: File,
}

impl Generator {
    /// Hands each frame to `target`.
    pub(super) fn to_program(
        target: &Program,
        number_at: Option<usize>,
        first: u64,
    ) -> Result<Self, InjectorError> {
        let counters = counters()?;
        for (has_fragments, is_attach_type_unsaid) in KINDS {
            let targets = Map::create(&MapOptions {
                name: "inject_target",
                kind: MapKind::Programs,
                key_bytes: 4,
                value_bytes: 4,
                entries: 1,
                flags: 0,
            })?;
            let code = code(&counters, number_at, first, Some(&targets))?;
            let options = ProgramOptions {
                has_fragments,
                is_attach_type_unsaid,
                ..ProgramOptions::default()
            };
            let program =
                Program::load(&code, &ProgramOptions { name: "inject_number", ..options })?;
            // Now the array belongs to programs of this kind, and refuses others.
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
        Err(InjectorError::Incompatible { program_id: target.info()?.id })
    }

    /// Hands each frame to the network stack.
    pub(super) fn to_stack(number_at: Option<usize>, first: u64) -> Result<Self, InjectorError> {
        let counters = counters()?;
        let code = code(&counters, number_at, first, None)?;
        let options = ProgramOptions { name: "inject_number", ..ProgramOptions::default() };
        let program = Program::load(&code, &options)?;
        let parking = park(&program)?;
        Ok(Self { program, counters, _parking: parking, _targets: None })
    }

    pub(super) fn program(&self) -> &Program {
        &self.program
    }

    /// Frames so far.
    pub(super) fn generated(&self) -> u64 {
        self.counters.word(0, GENERATED)
    }

    /// Frames that there was no program for.
    pub(super) fn not_taken(&self) -> u64 {
        self.counters.word(0, NOT_TAKEN)
    }
}

fn counters() -> Result<MappedArray, BpfError> {
    MappedArray::create("inject_counters", WORDS, 1)
}

/// The program. One thread at a time runs it, so that plain additions will do.
fn code(
    counters: &MappedArray,
    number_at: Option<usize>,
    first: u64,
    targets: Option<&Map>,
) -> Result<Vec<Instruction>, BpfError> {
    let mut code = Assembler::new();
    let aborted = code.label();
    // Fits: the injector has checked it against the longest frame.
    let at = number_at.map_or(0, |at| at as i16);
    code.mov(R6, R1)
        .load_map_value(R1, counters.map(), 0)
        .load(Size::Double, R2, R1, 0)
        .load(Size::Word, R3, R6, xdp_context::DATA)
        .load(Size::Word, R4, R6, xdp_context::DATA_END)
        .mov(R0, R3)
        .add(R0, i32::from(at + WORD_BYTES))
        .jump_if(Compare::Above, R0, R4, aborted);
    if number_at.is_some() {
        code.load_constant(R4, first).add(R4, R2).swap_network(R4, Size::Double).store(
            Size::Double,
            R3,
            at,
            R4,
        );
    }
    code.add(R2, 1).store(Size::Double, R1, 0, R2);
    match targets {
        None => code.mov(R0, xdp_action::PASS).exit(),
        Some(targets) => code.mov(R1, R6).load_map(R2, targets).mov(R3, 0).call(Helper::TailCall),
    };
    // It goes on here only if there was nothing to go to.
    code.bind(aborted)
        .load_map_value(R1, counters.map(), NOT_TAKEN as u32 * WORD_BYTES as u32)
        .load(Size::Double, R2, R1, 0)
        .add(R2, 1)
        .store(Size::Double, R1, 0, R2)
        .mov(R0, xdp_action::ABORTED)
        .exit();
    code.finish()
}

/// Attaches the program where nothing comes.
fn park(program: &Program) -> Result<Parking, InjectorError> {
    let work = || {
        namespace::enter_new_network().map_err(InjectorError::Parking)?;
        let namespace = File::open("/proc/thread-self/ns/net").map_err(InjectorError::Parking)?;
        let link = Link::attach_xdp(program, LOOPBACK, XdpMode::Generic)?;
        Ok(Parking { _link: link, _namespace: namespace })
    };
    thread::scope(|scope| scope.spawn(work).join()).expect("the thread does not panic")
}

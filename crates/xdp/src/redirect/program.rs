//! The redirect program, in eBPF.
//!
//! ```text
//! R6 context    R9 this core's counters of the queue: seen, redirected, passed, unplaced
//! ```
//!
//! Counters are plain words: a program is not preempted on its core, and each core has its own
//! cache line for each queue. They are in one value of one array map, so that an address takes one
//! addition, and this process reads them as memory.

use burstline_sys::filter::Instruction as ClassicInstruction;

use crate::bpf::{
    Alu, Assembler, BpfError, Compare, Embedding, Helper, Instruction, Label, Map, MappedArray,
    Register::*, Size, translate, xdp_action, xdp_context,
};

/// Words per core and queue: a cache line.
pub(super) const WORDS: u32 = 8;
/// Packets that the program saw.
pub(super) const SEEN: usize = 0;
/// Packets redirected to a socket: seen - passed, counted by the program for users who read the map
/// (`bpftool map dump name bl_counters`).
const REDIRECTED: usize = 1;
/// Packets passed to the host.
pub(super) const PASSED: usize = 2;
/// Packets that were wanted and went to the host: their queue has no socket.
pub(super) const UNPLACED: usize = 3;

/// Bytes in front of a packet for its time: ns of International Atomic Time.
const TIME_BYTES: i32 = 8;

/// Inputs of the program.
#[derive(Clone, Copy)]
pub(super) struct Parts<'a> {
    /// One value: `cores * (queues + 1)` times [`WORDS`] words. The last line of a core is for all
    /// queues that are added later.
    pub(super) counters: &'a MappedArray,
    pub(super) sockets: &'a Map,
    pub(super) queues: u32,
    pub(super) cores: u32,
    /// Whether each redirected packet gets the time in front of it.
    pub(super) has_time: bool,
    /// Whether it accepts packets of several buffers.
    pub(super) has_fragments: bool,
    /// The packets to redirect; `None` for all.
    pub(super) only: Option<&'a [ClassicInstruction]>,
}

/// Assembles the program.
///
/// # Errors
/// A filter `only` that is too long, or not possible here.
pub(super) fn assemble(parts: &Parts<'_>) -> Result<Vec<Instruction>, BpfError> {
    let mut code = Assembler::new();
    let (uncounted, passed, unplaced) = (code.label(), code.label(), code.label());
    find_counters(&mut code, parts, uncounted);
    count(&mut code, SEEN);
    if let Some(only) = parts.only {
        let (accept, has_fragments) = (code.label(), parts.has_fragments);
        let place = Embedding { accept, reject: passed, has_fragments, stack_bytes: 0 };
        translate(&mut code, only, &place)?;
        code.bind(accept);
    }
    if parts.has_time {
        write_time(&mut code);
    }
    // The queue's socket; the result is PASS if its slot is empty, or not in the map.
    code.load_map(R1, parts.sockets)
        .load(Size::Word, R2, R6, xdp_context::QUEUE_INDEX)
        .mov(R3, xdp_action::PASS)
        .call(Helper::RedirectMap)
        .jump_if(Compare::NotEqual, R0, xdp_action::REDIRECT, unplaced);
    count(&mut code, REDIRECTED);
    code.exit();
    code.bind(unplaced);
    count(&mut code, UNPLACED);
    if parts.only.is_some() {
        code.mov(R0, xdp_action::PASS).exit();
        code.bind(passed);
        count(&mut code, PASSED);
    }
    code.bind(uncounted).mov(R0, xdp_action::PASS).exit();
    code.finish()
}

/// R9 = the address of the queue's counters on this core.
fn find_counters(code: &mut Assembler, parts: &Parts<'_>, uncounted: Label) {
    let (queues, lines) = (parts.queues as i32, parts.queues + 1);
    let slots = (lines * parts.cores) as i32;
    let line_shift = (WORDS * 8).trailing_zeros() as i32;
    code.mov(R6, R1)
        .load(Size::Word, R7, R6, xdp_context::QUEUE_INDEX)
        // All queues that were added after we counted them share a line: R7 = min(R7, queues).
        // Without a jump: of two paths to one address, the verifier asks for CAP_PERFMON.
        .add(R7, -queues)
        .mov(R1, R7)
        .alu(Alu::ShiftRightSigned, R1, 63)
        .alu(Alu::And, R7, R1)
        .add(R7, queues)
        .call(Helper::CurrentCore)
        .alu(Alu::Multiply, R0, lines as i32)
        .add(R0, R7)
        // Never taken: the verifier requires it.
        .jump_if(Compare::AboveOrEqual, R0, slots, uncounted)
        .alu(Alu::ShiftLeft, R0, line_shift)
        .load_map_value(R9, parts.counters.map(), 0)
        .add(R9, R0);
}

fn count(code: &mut Assembler, word: usize) {
    let offset = word as i16 * 8;
    code.load(Size::Double, R1, R9, offset).add(R1, 1).store(Size::Double, R9, offset, R1);
}

/// Makes room in front of the packet and writes the time there. Without room the packet continues
/// without it.
fn write_time(code: &mut Assembler) {
    let without = code.label();
    code.mov(R1, R6)
        .mov(R2, -TIME_BYTES)
        .call(Helper::AdjustMeta)
        .jump_if(Compare::NotEqual, R0, 0, without)
        .call(Helper::TimeTaiNs)
        .load(Size::Word, R1, R6, xdp_context::DATA_META)
        .load(Size::Word, R2, R6, xdp_context::DATA)
        .mov(R3, R1)
        .add(R3, TIME_BYTES)
        // Never taken: the verifier requires the bounds check.
        .jump_if(Compare::Above, R3, R2, without)
        .store(Size::Double, R1, 0, R0)
        .bind(without);
}

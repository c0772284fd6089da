//! Classic BPF in the kernel's format: programs for packet sockets, which `xdp` also translates.
//!
//! Source: Documentation/networking/filter.rst; uapi/linux/filter.h.

/// The maximum number of instructions. Source: BPF_MAXINSNS, uapi/linux/bpf_common.h.
pub const FILTER_MAX: usize = 4096;

/// One classic BPF instruction, as `tcpdump -ddd` prints it: `code jt jf k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if true.
    pub jump_true: u8,
    /// Instructions to skip if false.
    pub jump_false: u8,
    /// The operand.
    pub operand: u32,
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());
const _: () = assert!(align_of::<Instruction>() == align_of::<libc::sock_filter>());

/// `BPF_RET | BPF_K`.
const RETURN: u16 = 0x06;

impl Instruction {
    /// Makes an instruction from its fields.
    pub const fn new(code: u16, jump_true: u8, jump_false: u8, operand: u32) -> Self {
        Self { code, jump_true, jump_false, operand }
    }

    /// Makes the final instruction: keep `bytes` bytes of the packet, 0 to reject it.
    pub const fn keep(bytes: u32) -> Self {
        Self::new(RETURN, 0, 0, bytes)
    }
}

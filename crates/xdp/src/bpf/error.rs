//! Errors of bpf(2), in one line each, with the remedy.

use std::io;

use burstline_sys::machine::program;

/// Why a map, program or link could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BpfError {
    /// A jump goes to a label that was never bound.
    #[error("instruction {at} jumps to label {label}, which was never bound")]
    UndefinedLabel {
        /// The label's number.
        label: usize,
        /// The jump.
        at: usize,
    },
    /// A jump goes too far.
    #[error("instruction {at} jumps over {distance} instructions, too far for 16 bits")]
    FarJump {
        /// The jump.
        at: usize,
        /// Instructions to jump over.
        distance: i64,
    },
    /// A classic program is invalid, or uses a feature of packet sockets.
    #[error(
        "filter: instruction {at} (code {code:#x}, operand {operand}) is not possible in an XDP \
         program; show it with: tcpdump -d"
    )]
    NotTranslatable {
        /// Its number, from 0.
        at: usize,
        /// Its code.
        code: u16,
        /// Its operand.
        operand: u32,
    },
    /// The process may not do this.
    #[error(
        "{call}: not permitted: run it as root, or: \
         sudo setcap cap_bpf,cap_perfmon,cap_net_admin,cap_net_raw,cap_ipc_lock+ep {program}"
    )]
    NotPermitted {
        /// The call, and what it was for.
        call: &'static str,
        /// The path of this program.
        program: String,
    },
    /// The kernel's verifier rejects a program.
    #[error("BPF_PROG_LOAD of {name}: {source}; the verifier says:\n{log}")]
    Rejected {
        /// The BPF program's name.
        name: String,
        /// The kernel's error.
        source: io::Error,
        /// The last lines of the verifier's log.
        log: String,
    },
    /// The interface has an XDP program, and accepts no other.
    #[error(
        "{interface}: XDP program {program_id} is attached, and it accepts no other; end the \
         process that attached it, or: ip link set dev {interface} xdp off"
    )]
    Attached {
        /// The interface.
        interface: String,
        /// The attached program's number; 0 if it disappeared meanwhile.
        program_id: u32,
    },
    /// The interface's driver has no native XDP.
    #[error("{interface}: its driver has no native XDP; use mode=generic or mode=auto")]
    NoNativeMode {
        /// The interface.
        interface: String,
    },
    /// The interface accepts no program in this mode because of its settings.
    #[error(
        "{interface}: BPF_LINK_CREATE: {source}; packets of its MTU may be longer than the program \
         allows: ip link set dev {interface} mtu 1500, or a program with fragments"
    )]
    Unfit {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// There is no such interface in this namespace.
    #[error("no interface with number {interface_index}; see: ip link")]
    NoSuchInterface {
        /// The requested number.
        interface_index: u32,
    },
    /// Any other call that failed.
    #[error("{call}: {source}")]
    System {
        /// The call, and what it was for.
        call: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl BpfError {
    /// Wraps the error of `call`, for use in `map_err`.
    pub(crate) fn system(call: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::NotPermitted { call, program: program() },
            _ => Self::System { call, source },
        }
    }
}

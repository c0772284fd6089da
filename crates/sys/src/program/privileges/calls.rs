//! The system calls that a thread may still make: a seccomp filter.
//!
//! The filter is a list of allowed calls, made once and entered by each thread. Any other call ends
//! the process, so a bug in a decoder does not become an attacker's program. The list has the calls
//! of glibc and musl. Most rows check only the number: the kernel knows their result without
//! running the filter (its cache of constant actions, since Linux 5.11).
//!
//! Some rows also check an argument. New threads are allowed, new processes and namespaces are not.
//! Mapped memory cannot be executable, input cannot be injected into a terminal, and signals go
//! only to this process.
//!
//! Where a library with drivers of devices runs, nobody knows all calls that it makes. There a call
//! in no row fails, as on a kernel that lacks it, and only what no driver does ends the process.
//!
//! Source: seccomp(2), Documentation/userspace-api/seccomp_filter.rst of Linux 6.18.

mod list;
mod never;

use std::io;

pub use list::{LateFiles, Need};
use list::{Only, Row, Rule, rows};

/// The effect of a call that is not in the list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel ends the process (SIGSYS).
    #[default]
    Kill,
    /// The call is made, and the kernel logs it: for tests.
    Log,
}

/// Identifies our filter to [`is_entered`]: `prctl` with this number has no meaning for the kernel.
const PROBE: u32 = 0x6275_7273;
/// The filter's answer to it.
const PROBED: u32 = libc::EUCLEAN as u32;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// `IPPROTO_DCCP`, `IPPROTO_SCTP`, `IPPROTO_MPTCP`; `SOCK_TYPE_MASK` of include/linux/net.h.
const DCCP: u32 = 33;
const SCTP: u32 = 132;
const MPTCP: u32 = 262;
const SOCKET_TYPES: u32 = 0xf;

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const ARGUMENTS: u32 = 16;

/// A filter, ready to be entered.
#[derive(Debug)]
pub struct CallFilter(Vec<libc::sock_filter>);

impl CallFilter {
    /// Returns whether this kernel has filters that can end a process. If it cannot say, it has:
    /// entering one fails then, and no thread goes on without.
    pub fn is_supported() -> bool {
        let (operation, action) = (libc::SECCOMP_GET_ACTION_AVAIL, libc::SECCOMP_RET_KILL_PROCESS);
        // SAFETY: the kernel reads the 4 bytes of `action`, and writes nothing.
        let answered =
            unsafe { libc::syscall(libc::SYS_seccomp, operation, 0_u32, &raw const action) };
        answered == 0 || !is_unknown(&io::Error::last_os_error())
    }

    /// Makes a filter of the calls that every job needs, and of those for `needs`. A job that
    /// has [`Need::Bells`] also binds and connects to names.
    pub fn new(needs: &[Need], refusal: Refusal) -> Self {
        let late = LateFiles { has_names: needs.contains(&Need::Bells), ..LateFiles::default() };
        Self::with_late_files(needs, late, refusal)
    }

    /// The same, also with calls for files that the job creates later, and for a library.
    pub fn with_late_files(needs: &[Need], late: LateFiles, refusal: Refusal) -> Self {
        let unlisted = match (refusal, late.has_library) {
            // A driver then does without, as on a kernel that lacks the call.
            (Refusal::Kill, true) => Some(libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            _ => None,
        };
        let is_for = |only: Only| match only {
            Only::With(need) => needs.contains(&need),
            Only::Modes => late.has_modes,
            Only::Names => late.has_names,
            Only::Helper => late.is_helper,
            Only::Ports => late.opens_ports,
            Only::Library => late.has_library,
            Only::LibraryPeers => late.has_library_peers,
            Only::Starts | Only::Answers => false,
        };
        Self::of(is_for, &[std::process::id()], refusal, unlisted)
    }

    /// Makes the filter of a thread that starts a program of the user, and of the program until it
    /// enters [`for_answers`](Self::for_answers). It opens no socket, and signals nobody.
    pub fn for_start(refusal: Refusal) -> Self {
        Self::of(|only| only == Only::Starts, &[], refusal, None)
    }

    /// Makes the filter of a program that answers questions about files, and of the threads that
    /// ask it: it opens no socket, starts no program, maps no code, and signals `processes` only.
    pub fn for_answers(processes: &[u32], refusal: Refusal) -> Self {
        Self::of(|only| only == Only::Answers, processes, refusal, None)
    }

    /// `unlisted` answers a call that is in no row, if not as a refused one.
    fn of(
        is_for: impl Fn(Only) -> bool,
        processes: &[u32],
        refusal: Refusal,
        unlisted: Option<u32>,
    ) -> Self {
        let refused = match refusal {
            Refusal::Kill => libc::SECCOMP_RET_KILL_PROCESS,
            Refusal::Log => libc::SECCOMP_RET_LOG,
        };
        let mut code = vec![load(ARCHITECTURE_AT), jump(ARCHITECTURE, 1, 0), answer(refused)];
        code.push(load(NUMBER));
        let rows = rows().filter(|row| row.only.is_none_or(&is_for));
        code.extend(tree(&spans(rows, processes, refused), unlisted.unwrap_or(refused)));
        Self(code)
    }

    /// Returns the instructions as the kernel reads them, 8 bytes each, for a program that enters
    /// the filter by itself.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = |one: &libc::sock_filter| {
            let [first, second] = one.code.to_ne_bytes();
            let [a, b, c, d] = one.k.to_ne_bytes();
            [first, second, one.jt, one.jf, a, b, c, d]
        };
        self.0.iter().flat_map(bytes).collect()
    }

    /// Restricts the calling thread, and those it starts, to these calls. It already has
    /// `no_new_privs`.
    pub(super) fn enter(&self) -> io::Result<()> {
        let program =
            libc::sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        // This filter is no defence against speculation, and disabling speculation slows each call.
        let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
        let (mode, at) = (libc::SECCOMP_SET_MODE_FILTER, &raw const program);
        // SAFETY: the program has `len` instructions, which live until the call returns; the kernel
        // copies them and writes nothing.
        let entered = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, at) };
        if entered < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Whether a kernel's error says that it does not know what it was asked for.
pub(super) fn is_unknown(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP))
}

/// Returns whether the calling thread has this filter, possibly inherited from its starter.
pub(super) fn is_entered() -> bool {
    // SAFETY: the kernel has no such option, and reads no memory.
    let answered = unsafe { libc::prctl(PROBE as i32, 0, 0, 0, 0) };
    answered < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EUCLEAN)
}

/// Consecutive call numbers with one rule.
struct Span {
    first: u32,
    last: u32,
    code: Vec<libc::sock_filter>,
}

/// Sorts the rows by number. Consecutive calls that are always allowed become one span.
fn spans(rows: impl Iterator<Item = Row>, processes: &[u32], refused: u32) -> Vec<Span> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|row| (row.number as u32, row.only.is_none()));
    // A row for a job's need replaces the row for every job. For two needs the list's order
    // decides.
    rows.dedup_by_key(|row| row.number);
    let mut spans: Vec<Span> = Vec::new();
    let mut was_allowed = false;
    for row in rows {
        let (number, is_allowed) = (row.number as u32, matches!(row.rule, Rule::Allowed));
        match spans.last_mut() {
            Some(span) if was_allowed && is_allowed && span.last + 1 == number => {
                span.last = number;
            }
            _ => {
                let code = code_of(row.rule, processes, refused);
                spans.push(Span { first: number, last: number, code });
            }
        }
        was_allowed = is_allowed;
    }
    spans
}

/// Builds a binary search for the span of a number. The kernel tries every number when a thread
/// enters the filter, so a linear list would take it 1 ms.
fn tree(spans: &[Span], unlisted: u32) -> Vec<libc::sock_filter> {
    match spans {
        [] => vec![answer(unlisted)],
        [span] => {
            let length = span.code.len() as u8;
            let within = [compare(libc::BPF_JGE, span.first, 0, length + 1)];
            let within = within.into_iter().chain([compare(libc::BPF_JGT, span.last, length, 0)]);
            within.chain(span.code.iter().copied()).chain([answer(unlisted)]).collect()
        }
        _ => {
            let (low, high) = spans.split_at(spans.len() / 2);
            let (first, low, high) = (high[0].first, tree(low, unlisted), tree(high, unlisted));
            let mut code = vec![compare(libc::BPF_JGE, first, 1, 0), skip(high.len())];
            code.extend(high);
            code.extend(low);
            code
        }
    }
}

/// Returns the instructions of a rule: each path through them ends with an answer.
fn code_of(rule: Rule, processes: &[u32], refused: u32) -> Vec<libc::sock_filter> {
    let allowed = answer(libc::SECCOMP_RET_ALLOW);
    let error = |number: i32| answer(libc::SECCOMP_RET_ERRNO | number as u32);
    match rule {
        Rule::Allowed => vec![allowed],
        Rule::Refused => vec![answer(refused)],
        Rule::Fails(number) => vec![error(number)],
        Rule::OneOf { argument, values } => one_of(argument, values, &[], answer(refused)),
        Rule::Known { argument, values } => {
            one_of(argument, values, &[(PROBE, error(PROBED as i32))], error(libc::EINVAL))
        }
        Rule::Socket { families, has_unix } => {
            let refused = error(libc::EINVAL);
            let mut code = vec![load_argument(2)];
            for protocol in [DCCP, SCTP, MPTCP] {
                code.extend([jump(protocol, 0, 1), refused]);
            }
            if !has_unix {
                // Another family skips the four instructions that look at the type.
                code.extend([load_argument(0), jump(libc::AF_UNIX as u32, 0, 4)]);
                code.extend([load_argument(1), mask(SOCKET_TYPES)]);
                code.extend([jump(libc::SOCK_DGRAM as u32, 1, 0), refused]);
            }
            code.extend(one_of(0, families, &[], refused));
            code
        }
        Rule::Except { argument, values } => {
            let except: Vec<_> = values.iter().map(|&value| (value, error(libc::EPERM))).collect();
            one_of(argument, &[], &except, allowed)
        }
        Rule::WithoutBits { argument, bits } => {
            vec![load_argument(argument), any_bit(bits, 0, 1), error(libc::EPERM), allowed]
        }
        Rule::Thread { with, without } => vec![
            load_argument(0),
            any_bit(without, 2, 0),
            any_bit(with, 0, 1),
            allowed,
            answer(refused),
        ],
        Rule::Own => one_of(0, processes, &[], answer(refused)),
        Rule::OwnLimits => one_of(0, &[&[0], processes].concat(), &[], answer(refused)),
    }
}

/// Allows the values, gives `others` their own answers, and answers anything else with `last`.
fn one_of(
    argument: u32,
    values: &[u32],
    others: &[(u32, libc::sock_filter)],
    last: libc::sock_filter,
) -> Vec<libc::sock_filter> {
    let mut code = vec![load_argument(argument)];
    let allowed = values.iter().map(|&value| (value, answer(libc::SECCOMP_RET_ALLOW)));
    for (value, answer) in allowed.chain(others.iter().copied()) {
        code.extend([jump(value, 0, 1), answer]);
    }
    code.push(last);
    code
}

fn load(at: u32) -> libc::sock_filter {
    let code = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: at }
}

/// Loads the low half of an argument: the kernel reads only that half of those checked here.
fn load_argument(argument: u32) -> libc::sock_filter {
    let low = if cfg!(target_endian = "big") { 4 } else { 0 };
    load(ARGUMENTS + 8 * argument + low)
}

fn jump(equal_to: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    compare(libc::BPF_JEQ, equal_to, if_so, if_not)
}

fn any_bit(bits: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    compare(libc::BPF_JSET, bits, if_so, if_not)
}

fn compare(how: u32, with: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | how | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: if_so, jf: if_not, k: with }
}

/// Keeps these bits of what was loaded.
fn mask(bits: u32) -> libc::sock_filter {
    let code = (libc::BPF_ALU | libc::BPF_AND | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: bits }
}

fn skip(instructions: usize) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JA) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: instructions as u32 }
}

fn answer(value: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

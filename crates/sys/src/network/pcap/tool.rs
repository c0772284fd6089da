//! Compiles with tcpdump, for a statically linked program that cannot load a library.
//!
//! Source: tcpdump(8), `-ddd`: the number of instructions, then `code jt jf k` in decimal.

use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{PcapError, RawInstruction};

/// Link types as in capture files, with tcpdump's names. Source: pcap-linktype(7).
const NAMES: [(u16, &str); 7] = [
    (0, "NULL"),
    (1, "EN10MB"),
    (101, "RAW"),
    (113, "LINUX_SLL"),
    (228, "IPV4"),
    (229, "IPV6"),
    (276, "LINUX_SLL2"),
];

/// tcpdump accepts no longer snapshot. Source: `MAXIMUM_SNAPLEN`, tcpdump's `netdissect.h`.
const SNAPSHOT_BYTES_MAX: u32 = 262_144;

/// `ret #k`. Source: `BPF_RET | BPF_K`, `linux/bpf_common.h`.
const RETURN: u16 = 6;

/// Exit status of a program whose libraries cannot be loaded. Source: `rtld.c`, glibc.
const NOT_LOADED: i32 = 127;

/// What tcpdump made of an expression; `None` as for [`compile`].
type Compiled = Option<Result<Vec<RawInstruction>, PcapError>>;

/// An expression, and how it is compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    expression: String,
    link_type: u16,
    snapshot_bytes: u32,
    optimise: bool,
}

/// What was compiled before it was needed.
static PREPARED: Mutex<Vec<(Wanted, Compiled)>> = Mutex::new(Vec::new());

fn prepared() -> MutexGuard<'static, Vec<(Wanted, Compiled)>> {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles an expression for all link types of [`NAMES`]. No program is started for them later.
pub(super) fn prepare(expression: &str, snapshot_bytes: u32, optimise: bool) {
    for (link_type, _) in NAMES {
        let expression = expression.to_owned();
        let wanted = Wanted { expression, link_type, snapshot_bytes, optimise };
        let compiled = compile_now(&wanted);
        prepared().push((wanted, compiled));
    }
}

/// Compiles an expression; `None` if tcpdump is not installed, lacks a library itself, or does not
/// know the link type.
pub(super) fn compile(
    expression: &str,
    link_type: u16,
    snapshot_bytes: u32,
    optimise: bool,
) -> Compiled {
    let wanted = Wanted { expression: expression.to_owned(), link_type, snapshot_bytes, optimise };
    let known = prepared().iter().find(|(known, _)| *known == wanted).map(|(_, made)| made.clone());
    known.unwrap_or_else(|| compile_now(&wanted))
}

fn compile_now(wanted: &Wanted) -> Compiled {
    let Wanted { expression, link_type, snapshot_bytes, optimise } = wanted;
    let (_, name) = NAMES.iter().find(|(number, _)| number == link_type)?;
    let mut tcpdump = Command::new("tcpdump");
    let taken = (*snapshot_bytes).min(SNAPSHOT_BYTES_MAX);
    tcpdump.args(["-y", name, "-s", &taken.to_string(), "-ddd"]);
    tcpdump.args((!optimise).then_some("-O")).args(["--", expression]);
    let output = tcpdump.stdin(Stdio::null()).output().ok()?;
    let refused = |message: &str| {
        let message = message.trim().trim_start_matches("tcpdump: ").to_owned();
        Err(PcapError::Expression { text: expression.to_owned(), message })
    };
    if output.status.code() == Some(NOT_LOADED) {
        return None;
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rfind(|line| !line.starts_with("Warning"));
        return Some(refused(last.unwrap_or("tcpdump does not understand it")));
    }
    let program = parse(&String::from_utf8_lossy(&output.stdout)).map(|mut program| {
        let accepts = |step: &&mut RawInstruction| step.code == RETURN && step.k > 0;
        program.iter_mut().filter(accepts).for_each(|step| step.k = *snapshot_bytes);
        program
    });
    Some(program.map_or_else(|| refused("tcpdump printed no program"), Ok))
}

fn parse(text: &str) -> Option<Vec<RawInstruction>> {
    let mut lines = text.lines();
    let count: usize = lines.next()?.trim().parse().ok()?;
    let instruction = |line: &str| {
        let mut words = line.split_whitespace();
        let code = words.next()?.parse().ok()?;
        let (jt, jf) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        Some(RawInstruction { code, jt, jf, k: words.next()?.parse().ok()? })
    };
    let program: Vec<_> = lines.map(instruction).collect::<Option<_>>()?;
    (program.len() == count).then_some(program)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    /// Converts a program for comparison.
    fn numbers(program: &[RawInstruction]) -> Vec<(u16, u8, u8, u32)> {
        program.iter().map(|step| (step.code, step.jt, step.jf, step.k)).collect()
    }

    #[test]
    fn tcpdump_compiles_what_libpcap_does() {
        let has_both = super::super::version().is_ok() && compile("ip", 1, 100, true).is_some();
        if !has_both {
            burstline_skip::skip("it takes libpcap and tcpdump");
            return;
        }
        for (expression, link_type, optimise) in
            [("udp port 53", 1, true), ("not tcp[13] & 2 != 0", 1, false), ("ip6", 101, true)]
        {
            for bytes in [96, 262_144, 1 << 20] {
                let theirs = compile(expression, link_type, bytes, optimise).unwrap().unwrap();
                let ours = super::super::compile(expression, link_type, bytes, optimise).unwrap();
                assert_eq!(numbers(&theirs), numbers(&ours), "{expression} {bytes}");
            }
        }
        prepare("udp", 100, true);
        assert_eq!(prepared().len(), NAMES.len());
        let [kept, new] = [true, false].map(|is_kept| {
            let how = if is_kept { "udp" } else { "udp " };
            numbers(&compile(how, 101, 100, true).unwrap().unwrap())
        });
        assert_eq!(kept, new);
        let wrong = compile("udp prot 53", 1, 100, true).unwrap().unwrap_err().to_string();
        assert!(wrong.contains("udp prot 53") && wrong.contains("syntax error"), "{wrong}");
        assert!(compile("ip", 9999, 100, true).is_none());
    }

    #[test]
    fn what_is_no_program_is_refused() {
        for text in ["", "x", "1\n", "1\n40 0 0", "2\n6 0 0 0\n", "1\n6 0 0 0 \n6 0 0 0\n"] {
            assert!(parse(text).is_none(), "{text:?}");
        }
        assert_eq!(parse("1\n6 0 0 96\n").unwrap()[0].k, 96);
    }
}

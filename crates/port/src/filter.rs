//! Packet filters: an expression or a program from the user, and the program that runs.
//!
//! ```text
//! "udp port 53" --libpcap, by link type--> program --Filter::compile--> a port runs it
//!  tcpdump -ddd -------------------------^                              a packet at a time
//! ```
//!
//! A verdict is yes or no, on the available bytes, before a snapshot length cuts them. The number
//! of bytes that a program says to keep is ignored: the snapshot length controls that.
//!
//! Unwanted packets are counted exactly, as `filtered`. Without a filter the cost is one branch.

use std::str::FromStr;

use burstline_sys::filter as classic;
use burstline_sys::pcap::{self, PcapError};
use burstline_wire::filter::{FilterError, Instruction, Program};
use burstline_wire::headers::LinkType;

use crate::PortError;

/// A port's call returns after this many unwanted packets, unless a buffer ends first. So a job
/// that wants no packet still notices its end.
pub(crate) const UNWANTED_MOST: u64 = 16 << 10;

/// The longest expression that is optimised: at this length libpcap takes a tenth of a second.
const OPTIMISED_BYTES_MAX: usize = 1 << 10;

/// More than any packet has; a program returns it for wanted packets.
const SNAPSHOT_BYTES: u32 = 1 << 20;

/// A filter that selects packets.
///
/// A text is a program if it consists only of numbers, commas and braces, as `tcpdump -ddd` and
/// others print one. Otherwise it is an expression of pcap-filter(7). Blank text selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Filter {
    /// All packets.
    #[default]
    All,
    /// Packets that match a pcap-filter(7) expression, compiled by libpcap for each link type.
    Expression(String),
    /// Packets of any link type of which a program keeps at least one byte.
    Program(Program),
}

/// Why a filter cannot be used on a link type.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterProblem {
    /// libpcap rejects it, or is not installed.
    #[error(transparent)]
    Compile(#[from] PcapError),
    /// The program that libpcap produced does not run here.
    #[error("filter `{expression}`: {error}")]
    Program {
        /// The expression.
        expression: String,
        /// What is wrong with the program.
        error: FilterError,
    },
}

impl FilterProblem {
    /// Whether the expression is at fault, and not the machine.
    pub fn is_about_expression(&self) -> bool {
        let is_expression =
            |error: &_| matches!(error, PcapError::Expression { .. } | PcapError::Length { .. });
        match self {
            Self::Compile(error) => is_expression(error),
            Self::Program { .. } => true,
        }
    }
}

impl FromStr for Filter {
    type Err = FilterError;

    fn from_str(text: &str) -> Result<Self, FilterError> {
        let text = text.trim();
        let is_number = |c: char| c.is_ascii_hexdigit() || "xX,{}".contains(c) || c.is_whitespace();
        let is_program = text.starts_with(|c: char| c.is_ascii_digit() || c == '{');
        match text {
            "" => Ok(Self::All),
            _ if is_program && text.chars().all(is_number) => {
                Program::from_tcpdump_ddd(text).map(Self::Program)
            }
            expression => Ok(Self::Expression(expression.to_owned())),
        }
    }
}

impl Filter {
    /// Loads what compiling this filter takes, if it has an expression: libpcap, or else the
    /// programs that tcpdump makes of it. Call it before this process gives up its rights. Errors
    /// recur when the filter is used.
    pub fn prepare(&self) {
        if let Self::Expression(expression) = self {
            pcap::prepare(expression, SNAPSHOT_BYTES, is_optimised(expression));
        }
    }

    /// Returns the program for packets of a link type; `None` if all are wanted. `port` is for the
    /// error.
    pub(crate) fn compile(&self, port: &str, link: LinkType) -> Result<Option<Program>, PortError> {
        let compiled = match self {
            Self::All => Ok(None),
            Self::Program(program) => Ok(Some(program.clone())),
            Self::Expression(expression) => compile(expression, link).map(Some),
        };
        compiled.map_err(|problem| PortError::Filter { port: port.to_owned(), link, problem })
    }
}

fn is_optimised(expression: &str) -> bool {
    expression.len() <= OPTIMISED_BYTES_MAX
}

fn compile(expression: &str, link: LinkType) -> Result<Program, FilterProblem> {
    let raw = pcap::compile(expression, link.0, SNAPSHOT_BYTES, is_optimised(expression))?;
    let of = |raw: pcap::RawInstruction| Instruction {
        code: raw.code,
        jt: raw.jt,
        jf: raw.jf,
        k: raw.k,
    };
    let expression = expression.to_owned();
    Program::new(raw.into_iter().map(of).collect())
        .map_err(|error| FilterProblem::Program { expression, error })
}

/// Converts a program to the form that the kernel's interfaces take.
pub(crate) fn for_kernel(program: &[Instruction]) -> Vec<classic::Instruction> {
    let of = |instruction: &Instruction| classic::Instruction {
        code: instruction.code,
        jump_true: instruction.jt,
        jump_false: instruction.jf,
        operand: instruction.k,
    };
    program.iter().map(of).collect()
}

/// The programs of a filter for a source of several link types.
#[derive(Clone, Debug)]
pub struct FilterByLink {
    filter: Filter,
    /// One per link type; usually only one.
    programs: Vec<(LinkType, Program)>,
}

impl FilterByLink {
    /// Creates a filter without any link type.
    pub fn new(filter: &Filter) -> Self {
        Self { filter: filter.clone(), programs: Vec::new() }
    }

    /// Adds a link type, before its packets are judged; `port` is for the error.
    pub fn add(&mut self, port: &str, link: LinkType) -> Result<(), PortError> {
        if self.programs.iter().all(|(known, _)| *known != link)
            && let Some(program) = self.filter.compile(port, link)?
        {
            self.programs.push((link, program));
        }
        Ok(())
    }

    /// Whether a packet is wanted; `packet` holds its available bytes.
    #[inline]
    pub fn wants(&self, link: LinkType, packet: &[u8], original_length: u32) -> bool {
        let program = self.programs.iter().find(|(known, _)| *known == link);
        program.is_none_or(|(_, program)| program.run(packet, original_length) > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_an_expression_or_a_program() {
        for blank in ["", " \n"] {
            assert_eq!(blank.parse(), Ok(Filter::All));
        }
        let accept = Filter::Program(Program::from_tcpdump_ddd("6 0 0 1").unwrap());
        for text in ["1\n6 0 0 1\n", "1,6 0 0 1", "6 0 0 1", "{ 0x6, 0, 0, 0x1 },"] {
            assert_eq!(text.parse().as_ref(), Ok(&accept), "{text}");
        }
        for text in ["udp port 53", "6 = tcp[13]", "dead", "ip"] {
            assert_eq!(text.parse(), Ok(Filter::Expression(text.to_owned())));
        }
        for wrong in ["3,6 0 0 1", "6 0 0", "7"] {
            assert!(wrong.parse::<Filter>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_link_type_that_an_expression_does_not_fit_is_named() {
        let filter: Filter = "ether broadcast".parse().unwrap();
        match filter.compile("file:a.pcap", LinkType::RAW) {
            Err(error @ PortError::Filter { .. }) => {
                let text = error.to_string();
                let is_missing = text.contains("apt-get install libpcap0.8");
                let words = "file:a.pcap, link type 101: filter `ether broadcast`: ";
                assert!(is_missing || text.starts_with(words), "{text}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(Filter::All.compile("", LinkType::RAW).unwrap(), None);
    }
}

//! `burstline lab pcie`.

use burstline_nicsim::pcie::{Link, Work};
use burstline_port::Rate;
use clap::{Args, ValueEnum};

use super::lab::sizes;

const EXAMPLES: &str = "\
Examples:
  burstline lab pcie                                       receive, 2.0x8 to 5.0x16, 64 to 1518
  burstline lab pcie --sizes 64 --work forward             in by one card, out by another
  burstline lab pcie --pcie 3.0x16 --line 100Gbit          does 100 Gbit/s fit through the slot?
  burstline lab pcie --json                                also the curve of every length

Nothing runs: it is arithmetic on what a nicsim: card does, transaction by transaction, in its three
modes. As the paper on Minimum-Overhead DMA counts: up only, every TLP filled up to 64 bytes.
Complete: both directions, with headers, framing, requests, completions, doorbells; 8% of the slot
are taken off for acknowledgements and flow control. A line of frames is full at its own rate.";

/// What a packet costs the bus in three modes of DMA, and where a slot is full
#[derive(Debug, Args)]
#[command(name = "pcie", after_long_help = EXAMPLES)]
pub(crate) struct PcieArgs {
    /// Slots: generation and lanes
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = link)]
    #[arg(default_value = "2.0x8,3.0x8,3.0x16,4.0x8,4.0x16,5.0x8,5.0x16")]
    pub(crate) pcie: Vec<Link>,

    /// Max payload of a TLP in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    pub(crate) payload: u64,

    /// Max read request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub(crate) request: u64,

    /// Frame sizes in bytes, FCS included: a list, standard (64 to 1518), or numa (64 to 1500)
    #[arg(long, value_name = "LIST", default_value = "standard", value_parser = sizes)]
    pub(crate) sizes: Box<[u32]>,

    /// What is done with packets
    #[arg(long, value_name = "WORK", default_value = "receive")]
    pub(crate) work: WorkArg,

    /// The Ethernet link that is to fit
    #[arg(long, value_name = "RATE", default_value = "100Gbit")]
    pub(crate) line: Rate,

    /// Print one JSON object instead of the tables
    #[arg(long)]
    pub(crate) json: bool,
}

/// As [`Work`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkArg {
    Receive,
    Transmit,
    Forward,
}

impl WorkArg {
    /// What it stands for.
    pub(crate) fn work(self) -> Work {
        match self {
            Self::Receive => Work::Receive,
            Self::Transmit => Work::Transmit,
            Self::Forward => Work::Forward,
        }
    }

    /// The word in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Transmit => "transmit",
            Self::Forward => "forward",
        }
    }
}

pub(super) fn link(text: &str) -> Result<Link, &'static str> {
    text.parse()
}

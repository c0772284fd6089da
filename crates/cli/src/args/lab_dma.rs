//! `burstline lab dma` and `burstline lab retention`.

use std::path::PathBuf;

use burstline_nicsim::pcie::Link;
use burstline_port::Rate;
use clap::Args;

use super::lab_pcie::link;
use super::values;

const DMA_EXAMPLES: &str = "\
Examples:
  burstline lab dma                                  64 bytes, and lengths at random, by 2.0x8
  burstline lab dma --instructions                   also the driver's, by valgrind: some seconds
  burstline lab dma --sizes 64,256,1518 --pcie 3.0x8 --line 40Gbit --json
  burstline lab dma --repeats 5 --out runs/dma       and a record of it, runs/dma/dma.json

The paper's machine: two ports at one slot, packets forwarded both ways. For each mode of DMA:
host      measured: the driver's nanoseconds a packet, device and driver by turns on one core
run       measured: bounce nicsim:a nicsim:b --both for --time, two devices and two workers
bus       counted: the bytes that the devices really moved, and where the slot is full
link      computed: both lines full
binds     the least of link, bus and host (a core for each direction), beside the paper's figure:
          13.3 Gbit/s at 64 bytes and 18.7 at random, measured with its own card";

/// The paper's experiment: what forwarding costs host, bus and link in three modes of DMA
#[derive(Debug, Args)]
#[command(name = "dma", after_long_help = DMA_EXAMPLES)]
pub(crate) struct DmaArgs {
    /// Frame sizes, FCS included, as generate has them: 64, random:64-1518, imix
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64,random:64-1518")]
    pub(crate) sizes: Vec<String>,

    /// The slot of both cards: generation and lanes
    #[arg(long, value_name = "LINK", default_value = "2.0x8", value_parser = link)]
    pub(crate) pcie: Link,

    /// Max payload of a TLP in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 256)]
    pub(crate) payload: u64,

    /// Max read request in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 512)]
    pub(crate) request: u64,

    /// Each of the two Ethernet links
    #[arg(long, value_name = "RATE", default_value = "10Gbit")]
    pub(crate) line: Rate,

    /// How long each run takes
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::span_ns)]
    pub(crate) time: u64,

    /// Turns of each mode at each size; medians are shown
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeats: u16,

    /// Write a record as `lab run` does, dma.json, to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Count the driver's instructions with valgrind
    #[arg(long)]
    pub(crate) instructions: bool,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,

    /// MODE,SIZE,STEPS: the driver's part and nothing else, for valgrind
    #[arg(long, hide = true)]
    pub(crate) driver_only: Option<String>,
}

const RETENTION_EXAMPLES: &str = "\
Examples:
  burstline lab retention                             64 bytes, 1 packet in 1 to 1024
  burstline lab retention --every 64 --span 65536 --size 1518 --json
  burstline lab retention --repeats 5 --out runs/dma  and a record of it, runs/dma/retention.json

A kept scattered packet keeps its buffer, of 2 KiB whatever its length. A kept contiguous one keeps
its whole segment, or is copied out. Throughput is that of driver and application, on one core. A
reader of a log holds at most 8 segments: what had to go before its time is refused.";

/// What an application that keeps 1 packet in k pins, and what it costs, in three modes of DMA
#[derive(Debug, Args)]
#[command(name = "retention", after_long_help = RETENTION_EXAMPLES)]
pub(crate) struct RetentionArgs {
    /// Keep 1 packet in so many
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "1,4,16,64,256,1024")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) every: Vec<u64>,

    /// Until so many packets have come after it
    #[arg(long, value_name = "PACKETS", default_value_t = 16_384)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 19))]
    pub(crate) span: u64,

    /// Frame size, FCS included, as generate has it
    #[arg(long, value_name = "SIZE", default_value = "64")]
    pub(crate) size: String,

    /// Turns of each mode and each k; the one in the middle is shown
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) repeats: u16,

    /// Write a record as `lab run` does, retention.json, to this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Packets of each run
    #[arg(long, value_name = "N", default_value = "2M", value_parser = values::packets)]
    pub(crate) packets: u64,

    /// Print one JSON object instead of the table
    #[arg(long)]
    pub(crate) json: bool,
}

//! The flags for the file format, and for files of several link types.

use burstline_port::OutputOptions;
use clap::{Args, ValueEnum};

/// What a file is written as.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct FormatArgs {
    /// The file's format [default: pcap-ns for a name with .pcap; else segmented, or pcapng if one
    /// segment is enough; pcapng for gzip, and into pipes and devices]
    #[arg(long, value_name = "FORMAT", requires = "write")]
    pub(crate) format: Option<Format>,

    /// How the file is compressed [default: as its name ends: .zst, .gz]. Segments are compressed
    /// by zstd one by one, so that `extract` reads only those that may have an answer
    #[arg(long, value_name = "WAY", requires = "write")]
    pub(crate) compress: Option<Compress>,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// pcapng in aligned segments with an index in each
    Segmented,
    /// pcapng
    Pcapng,
    /// pcap with nanosecond times
    PcapNs,
    /// pcap with microsecond times
    Pcap,
}

/// The ways to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compress {
    /// Zstandard
    Zstd,
    /// gzip
    Gzip,
    /// No compression, even if the name ends in .zst or .gz
    None,
}

/// What is done with link types.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct LinkTypeArgs {
    /// What to do with packets of another link type than the file's; libpcap rejects a file that
    /// mixes link types
    #[arg(long, value_name = "HOW", default_value = "one")]
    pub(crate) link_types: LinkTypes,
}

/// How many link types are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LinkTypes {
    /// Only that of the first packet; others are counted as link_mismatch
    One,
    /// Each in its own file: x.pcapng, and x-link113.pcapng for link type 113
    Split,
}

impl LinkTypeArgs {
    /// Whether each link type gets its own file.
    pub(crate) fn splits(self) -> bool {
        self.link_types == LinkTypes::Split
    }

    /// Returns the options of an output of one file for each link type.
    pub(crate) fn options(self) -> OutputOptions {
        OutputOptions { splits_links: self.splits(), ..OutputOptions::default() }
    }
}

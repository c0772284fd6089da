//! The flags for the file format.

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

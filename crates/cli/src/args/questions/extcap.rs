//! `burstline extcap`: the flags with which Wireshark calls a program that provides interfaces.
//!
//! Source: extcap(4), doc/extcap.4 of Wireshark.

use std::path::PathBuf;

use clap::Args;

/// Bring published logs and ports into Wireshark as interfaces
///
/// Wireshark, tshark and dumpcap call this for each file in their folder for extcap; the file is
/// two lines: #!/bin/sh and exec burstline extcap "$@". make install-pcap installs it.
///
/// Example: tshark -i burst-tap
#[derive(Debug, Args)]
pub(crate) struct ExtcapArgs {
    /// List the published logs, and the ports that can be captured from
    #[arg(long)]
    pub(crate) extcap_interfaces: bool,

    /// The version of the calling Wireshark
    #[arg(long, value_name = "VERSION", num_args = 0..=1)]
    pub(crate) extcap_version: Option<Option<String>>,

    /// The log, burst-NAME, or the port, burstport-INTERFACE
    #[arg(long, value_name = "burst-NAME")]
    pub(crate) extcap_interface: Option<String>,

    /// Print its link type
    #[arg(long)]
    pub(crate) extcap_dlts: bool,

    /// Print the options that Wireshark's dialogue offers
    #[arg(long)]
    pub(crate) extcap_config: bool,

    /// Write its packets into the file of --fifo
    #[arg(long, requires = "fifo", requires = "extcap_interface")]
    pub(crate) capture: bool,

    /// The pipe that Wireshark reads
    #[arg(long, value_name = "PATH")]
    pub(crate) fifo: Option<PathBuf>,

    /// Only packets that match this filter; without --capture: check the filter
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) extcap_capture_filter: Option<String>,

    /// Only this worker's share of a log
    #[arg(long, value_name = "K")]
    pub(crate) worker: Option<u32>,

    /// Keep at most this many bytes of each packet
    #[arg(long, value_name = "BYTES")]
    pub(crate) snaplen: Option<u32>,

    /// Begin with the oldest packet that the log still has
    #[arg(long)]
    pub(crate) oldest: bool,
}

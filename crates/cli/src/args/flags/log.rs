//! The flags of jobs that receive into a log: its size and its readers.

use burstline_engine::LogRequest;
use burstline_log::Handoff;
use burstline_share::PublishConfig;
use burstline_sys::memory::PageChoice;
use clap::Args;

use crate::args::values;

/// A job's log, or logs.
#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// Let other programs read the packets as log:NAME while this one receives them, without a
    /// copy. Only your own programs may read, unless mode=0660, owner=USER or group=GROUP allows
    /// more. A slow reader loses packets; lossless=5s, or =forever, lets readers that request it
    /// hold this program up for that long: --publish 'tap?group=adm&lossless=5s'
    #[arg(long, value_name = "NAME", value_parser = values::publish)]
    pub(crate) publish: Option<PublishConfig>,

    /// Size of each log's packet memory, or of the kernel's ring in place of a log (k, m, g are
    /// powers of 1024)
    /// [default: 64m]
    #[arg(long, visible_alias = "depth", value_name = "SIZE", value_parser = values::bytes)]
    pub(crate) buffer: Option<usize>,

    /// Size of one segment of the log: a power of two. A packet that does not fit is truncated and
    /// counted [default: 512k with files, whose packets may have 256k; else 256k]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, hide_short_help = true)]
    pub(crate) segment: Option<usize>,

    /// Pages of the log; auto takes the largest available [default: auto]
    #[arg(long, value_name = "PAGES", value_parser = values::pages(), hide_short_help = true)]
    pub(crate) pages: Option<PageChoice>,

    /// Which way packets go from one core to another: near through the caches, far past them; auto
    /// measures the distance at each segment, and tries both if it is far. The report says which
    /// it was
    #[arg(long, value_name = "WAY", value_parser = values::handoff(), default_value_t,
          hide_short_help = true)]
    pub(crate) handoff: Handoff,
}

impl LogArgs {
    /// Returns the configuration requested for each log.
    pub(crate) fn request(&self) -> LogRequest {
        LogRequest {
            bytes: self.buffer,
            segment_bytes: self.segment,
            pages: self.pages,
            handoff: self.handoff,
            is_published: self.publish.is_some(),
            divided_by: None,
        }
    }
}

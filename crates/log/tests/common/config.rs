//! The shape of the tests' logs.

use burstline_log::LogConfig;
use burstline_sys::memory::PageChoice;

pub(crate) fn of_segments(name: &str, segments: usize, segment_bytes: usize) -> LogConfig {
    let (name, bytes, pages) = (name.into(), segments * segment_bytes, PageChoice::Size4K);
    LogConfig { name, bytes, segment_bytes, pages, ..LogConfig::default() }
}

//! What can go wrong, with the numbers in it.

use burstline_sys::memory::MemoryError;

/// Why a log could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// Segments are a power of two in a fixed range.
    #[error("a segment of {bytes} bytes: it must be a power of two from {least} to {most}")]
    SegmentBytes {
        /// What was asked for.
        bytes: usize,
        /// The smallest.
        least: usize,
        /// The largest.
        most: usize,
    },
    /// The buffer holds too few segments, or too many.
    #[error(
        "a log of {log_bytes} bytes is {segments} segments of {segment_bytes}: \
         it must be from {least} to {most}; change --buffer"
    )]
    Segments {
        /// The log's size.
        log_bytes: usize,
        /// One segment's size.
        segment_bytes: usize,
        /// How many that makes.
        segments: usize,
        /// The fewest.
        least: usize,
        /// The most.
        most: usize,
    },
    /// The number of readers is fixed when the log is made.
    #[error("{asked} readers: must be 1 to {most}")]
    Readers {
        /// What was asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// No memory was available.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Why a reader could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// All seats are taken.
    #[error("the log has {readers} readers already, and was made for {readers}")]
    Full {
        /// How many it was made for.
        readers: usize,
    },
    /// A seat serves one reader in its life.
    #[error("another reader has attached with these files: ask the publisher for a new seat")]
    Claimed,
    /// Its publisher waits for no verdicts.
    #[error("the log takes no verdicts: its publisher is not `bounce --inline`")]
    NoVerdicts,
    /// A packet has one verdict.
    #[error("another reader gives verdicts on the log: end that one first")]
    HasGiver,
    /// A window is a number of pins.
    #[error("a window of {asked} segments: must be 1 to {most}")]
    Window {
        /// What was asked for.
        asked: usize,
        /// The most.
        most: usize,
    },
    /// With this reader the pins could hold every segment, and the writer would starve.
    #[error(
        "the readers' windows would be {windows} segments of a log of {segments}: \
         at least 3 must stay free; make the log larger with --buffer"
    )]
    Pool {
        /// The sum of the windows with this reader.
        windows: usize,
        /// The log's segments.
        segments: usize,
    },
    /// The publisher did not allow readers that hold it up.
    #[error("the log allows no lossless readers; its publisher must say --lossless")]
    LosslessNotAllowed,
    /// The memory is no log.
    #[error("this is not a log: {reason}")]
    NotALog {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A log of another program version.
    #[error("the log speaks version {theirs} and this program version {ours}")]
    Version {
        /// The version in the log.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// The memory could not be mapped, or is not sealed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

//! Errors of making a log and of attaching to one, with their numbers.

use burstline_sys::memory::MemoryError;

/// The reason why a log could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CreateError {
    /// A segment's size must be a power of two in a fixed range.
    #[error("a segment of {bytes} bytes: it must be a power of two from {least} to {most}")]
    SegmentBytes {
        /// The requested size.
        bytes: usize,
        /// The smallest size.
        least: usize,
        /// The largest size.
        most: usize,
    },
    /// The buffer has too few segments, or too many.
    #[error(
        "a log of {log_bytes} bytes is {segments} segments of {segment_bytes}: \
         it must be from {least} to {most}; change --buffer"
    )]
    Segments {
        /// The size of the log.
        log_bytes: usize,
        /// The size of one segment.
        segment_bytes: usize,
        /// The resulting number of segments.
        segments: usize,
        /// The smallest number of segments.
        least: usize,
        /// The largest number of segments.
        most: usize,
    },
    /// Logs made together have more memory than a desc's offset can express.
    #[error("logs of {bytes} bytes together: at most {most}; make each smaller with --buffer")]
    Together {
        /// The requested size of all logs.
        bytes: usize,
        /// The largest size.
        most: usize,
    },
    /// The maximum number of readers is outside the range; it is fixed when the log is made.
    #[error("{asked} readers: must be 1 to {most}")]
    Readers {
        /// The requested number.
        asked: usize,
        /// The largest number.
        most: usize,
    },
    /// No memory was available.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// The reason why a reader could not attach.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AttachError {
    /// All seats are taken.
    #[error("the log already has its maximum of {readers} readers")]
    Full {
        /// The number of seats that the log was made with.
        readers: usize,
    },
    /// The log's packet memory is also that of other logs.
    #[error("the log shares its memory with other logs: only its own process can read it")]
    Together,
    /// Another reader has used the seat; a seat serves one reader only.
    #[error("another reader has attached with these files: ask the publisher for a new seat")]
    Claimed,
    /// The publisher takes no verdicts.
    #[error("the log takes no verdicts: its publisher is not `bounce --inline`")]
    NoVerdicts,
    /// Another reader already gives verdicts; a packet has one verdict only.
    #[error("another reader gives verdicts on the log: end that one first")]
    HasGiver,
    /// The window, a number of pins, is out of range.
    #[error("a window of {asked} segments: must be 1 to {most}")]
    Window {
        /// The requested window.
        asked: usize,
        /// The largest window.
        most: usize,
    },
    /// With this reader, the pins could cover every segment, and the writer would starve.
    #[error(
        "the readers' windows would be {windows} segments of a log of {segments}: \
         at least 2 must stay free; make the log larger with --buffer"
    )]
    Pool {
        /// The sum of the windows, including this reader's.
        windows: usize,
        /// The number of the log's segments.
        segments: usize,
    },
    /// The publisher allows no lossless readers.
    #[error("the log allows no lossless readers; start its publisher with --lossless")]
    LosslessNotAllowed,
    /// The memory is not a log.
    #[error("this is not a log: {reason}")]
    NotALog {
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The log was made by another program version.
    #[error("the log has version {theirs}, this program expects version {ours}")]
    Version {
        /// The version in the log.
        theirs: u32,
        /// This program's version.
        ours: u32,
    },
    /// The memory could not be mapped, or is not sealed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

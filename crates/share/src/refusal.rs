//! Why a publisher refused, with its numbers: a code and two numbers on the socket.

use burstline_log::AttachError;

/// Why a publisher did not give what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The two speak different protocols.
    #[error(
        "it speaks version {theirs} of the protocol and this program {ours}: update one of them"
    )]
    Version {
        /// The publisher's version.
        theirs: u64,
        /// The asker's.
        ours: u64,
    },
    /// The request was not one.
    #[error("it did not understand the request of {bytes} bytes: not a program of this kind?")]
    Malformed {
        /// How long the request was.
        bytes: u64,
    },
    /// The socket's owner, group and mode do not let this user in.
    #[error(
        "user {uid} may not read it: publish it with another owner, group or mode, or use sudo"
    )]
    NotAllowed {
        /// Who asked.
        uid: u64,
    },
    /// All seats are taken.
    #[error(
        "all {readers} seats of a log are taken, its own threads' among them: end a reader; \
         burstline doctor logs lists them"
    )]
    Seats {
        /// How many it was made for.
        readers: u64,
    },
    /// The readers' windows could hold every segment.
    #[error(
        "the readers' windows would be {windows} segments of {segments}, and at least 3 must stay \
         free: publish with a larger --buffer, or ask for a smaller window"
    )]
    Pool {
        /// Segments that the windows would be in all.
        windows: u64,
        /// Segments that there are.
        segments: u64,
    },
    /// A window is a number of segments.
    #[error("a window of {asked} segments: must be 1 to {most}; use ?window=1")]
    Window {
        /// What was asked for.
        asked: u64,
        /// The most.
        most: u64,
    },
    /// Readers may not hold this publisher up.
    #[error("it lets no reader hold it up: read without ?lossless, or publish 'NAME?lossless=5s'")]
    Lossless,
    /// The publisher's process has no descriptors left.
    #[error("it has no descriptors left of {limit}: raise its limit (ulimit -n), or end readers")]
    Descriptors {
        /// How many it may have; 0 if the whole system has none left.
        limit: u64,
    },
    /// The publisher could not get a page of memory for the reader.
    #[error("it has no memory for another reader: see free -m")]
    Memory,
    /// The name stands for fewer logs.
    #[error("it has {count} logs, and number {asked} was asked for: they are counted from 0")]
    NoSuchLog {
        /// The number asked for.
        asked: u64,
        /// How many there are.
        count: u64,
    },
    /// Too many ask at the same time, or the request took too long to come.
    #[error(
        "it waited {waited_ms} ms for the request and {waiting} others were waiting: try again"
    )]
    Busy {
        /// How long it waited.
        waited_ms: u64,
        /// How many were waiting.
        waiting: u64,
    },
    /// The user has called as often as one may within a second.
    #[error("user {uid} has called {most} times within a second, which is the maximum: wait")]
    TooOften {
        /// Who asked.
        uid: u64,
        /// Calls a second.
        most: u64,
    },
    /// A reader of this user held the writer up for as long as it may.
    #[error(
        "a lossless reader of user {uid} has held it up for as long as it may: try again in \
         {wait_s} s, or read without ?lossless"
    )]
    HeldUp {
        /// Whose reader that was.
        uid: u64,
        /// How long the user has to wait.
        wait_s: u64,
    },
    /// Its packets wait for no verdicts.
    #[error("it takes no verdicts: only bounce --inline does")]
    NoVerdicts,
    /// A log's packets have one verdict each.
    #[error(
        "another reader gives verdicts on the log: end it, or ask for another worker's, NAME@K"
    )]
    HasGiver,
    /// The other seats are for other users.
    #[error(
        "this user has {has} seats of a log and may have {most}; some are kept for others, its \
         owner and root: end a reader; burstline doctor logs lists them"
    )]
    UsersSeats {
        /// How many the user has.
        has: u64,
        /// How many the user may have at most.
        most: u64,
    },
}

/// A refusal as it is sent: a code and its numbers, 0 where it has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) code: u16,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl Refusal {
    /// As it is sent.
    pub(crate) fn encode(self) -> Coded {
        let (code, first, second) = match self {
            Self::Version { theirs, ours } => (1, theirs, ours),
            Self::Malformed { bytes } => (2, bytes, 0),
            Self::NotAllowed { uid } => (3, uid, 0),
            Self::Seats { readers } => (4, readers, 0),
            Self::Pool { windows, segments } => (5, windows, segments),
            Self::Window { asked, most } => (6, asked, most),
            Self::Lossless => (7, 0, 0),
            Self::Descriptors { limit } => (8, limit, 0),
            Self::Memory => (9, 0, 0),
            Self::NoSuchLog { asked, count } => (10, asked, count),
            Self::Busy { waited_ms, waiting } => (11, waited_ms, waiting),
            Self::TooOften { uid, most } => (12, uid, most),
            Self::HeldUp { uid, wait_s } => (13, uid, wait_s),
            Self::UsersSeats { has, most } => (14, has, most),
            Self::NoVerdicts => (15, 0, 0),
            Self::HasGiver => (16, 0, 0),
        };
        Coded { code, first, second }
    }

    /// As it was sent; `None` for a code that this version does not know.
    pub(crate) fn decode(coded: Coded) -> Option<Self> {
        let (a, b) = (coded.first, coded.second);
        Some(match coded.code {
            1 => Self::Version { theirs: a, ours: b },
            2 => Self::Malformed { bytes: a },
            3 => Self::NotAllowed { uid: a },
            4 => Self::Seats { readers: a },
            5 => Self::Pool { windows: a, segments: b },
            6 => Self::Window { asked: a, most: b },
            7 => Self::Lossless,
            8 => Self::Descriptors { limit: a },
            9 => Self::Memory,
            10 => Self::NoSuchLog { asked: a, count: b },
            11 => Self::Busy { waited_ms: a, waiting: b },
            12 => Self::TooOften { uid: a, most: b },
            13 => Self::HeldUp { uid: a, wait_s: b },
            14 => Self::UsersSeats { has: a, most: b },
            15 => Self::NoVerdicts,
            16 => Self::HasGiver,
            _ => return None,
        })
    }

    /// What a log's own refusal is to a reader.
    pub(crate) fn of_log(error: &AttachError, limit: u64) -> Self {
        match *error {
            AttachError::Full { readers } => Self::Seats { readers: readers as u64 },
            AttachError::Window { asked, most } => {
                Self::Window { asked: asked as u64, most: most as u64 }
            }
            AttachError::Pool { windows, segments } => {
                Self::Pool { windows: windows as u64, segments: segments as u64 }
            }
            AttachError::LosslessNotAllowed => Self::Lossless,
            AttachError::NoVerdicts => Self::NoVerdicts,
            AttachError::HasGiver => Self::HasGiver,
            AttachError::Memory(ref error) if error.is_out_of_descriptors() => {
                Self::Descriptors { limit }
            }
            _ => Self::Memory,
        }
    }
}

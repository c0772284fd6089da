//! Reasons of a publisher's refusal, with their numbers: on the socket, a code and two numbers.

use burstline_log::AttachError;

/// The reason why a publisher refused a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Publisher and client use different protocol versions.
    #[error(
        "it speaks version {theirs} of the protocol and this program {ours}: update one of them"
    )]
    Version {
        /// The publisher's version.
        theirs: u64,
        /// The client's version.
        ours: u64,
    },
    /// The request is malformed.
    #[error("it could not parse the request of {bytes} bytes: is the client a burstline program?")]
    Malformed {
        /// The length of the request.
        bytes: u64,
    },
    /// The socket's owner, group and mode do not let this user in.
    #[error(
        "user {uid} may not read it: publish it with another owner, group or mode, or use sudo"
    )]
    NotAllowed {
        /// The client's user.
        uid: u64,
    },
    /// All seats are taken.
    #[error(
        "all {readers} seats of a log are taken, including its own threads': end a reader; \
         burstline doctor logs lists them"
    )]
    Seats {
        /// The number of seats that the log was made with.
        readers: u64,
    },
    /// The readers' windows could hold every segment.
    #[error(
        "the readers' windows would be {windows} segments of {segments}, and at least 2 must stay \
         free: publish with a larger --buffer, or ask for a smaller window"
    )]
    Pool {
        /// The sum of the windows, in segments.
        windows: u64,
        /// The number of segments.
        segments: u64,
    },
    /// The window, a number of segments, is out of range.
    #[error("a window of {asked} segments: must be 1 to {most}; use ?window=1")]
    Window {
        /// The requested window.
        asked: u64,
        /// The largest window.
        most: u64,
    },
    /// The publisher does not allow lossless readers.
    #[error("it allows no lossless readers: read without ?lossless, or publish 'NAME?lossless=5s'")]
    Lossless,
    /// The publisher's process has no descriptors left.
    #[error("{}", no_descriptors(.limit))]
    Descriptors {
        /// The process's limit; 0 if the whole system has no descriptor left.
        limit: u64,
    },
    /// The publisher could not get a page of memory for the reader.
    #[error("it has no memory for another reader: see free -m")]
    Memory,
    /// The name has fewer logs.
    #[error("it has {count} log{}, numbered from 0; there is no log {asked}", plural(.count))]
    NoSuchLog {
        /// The requested number.
        asked: u64,
        /// The number of logs.
        count: u64,
    },
    /// Too many clients wait, or the request took too long to arrive.
    #[error(
        "it waited {waited_ms} ms for the request and {waiting} others were waiting: try again"
    )]
    Busy {
        /// How long the publisher waited.
        waited_ms: u64,
        /// The number of waiting clients.
        waiting: u64,
    },
    /// The user has used up its calls per second.
    #[error("user {uid} has made {most} requests within a second, the maximum: try again later")]
    TooOften {
        /// The client's user.
        uid: u64,
        /// The maximum number of calls a second.
        most: u64,
    },
    /// A reader of this user exceeded the deadline for holding up the writer.
    #[error(
        "a lossless reader of user {uid} has held it up for the maximum time: try again in \
         {wait_s} s, or read without ?lossless"
    )]
    HeldUp {
        /// The user of that reader.
        uid: u64,
        /// How long the user has to wait.
        wait_s: u64,
    },
    /// The publisher takes no verdicts.
    #[error("it takes no verdicts: only bounce --inline does")]
    NoVerdicts,
    /// Another reader already gives verdicts on the log; each packet has one verdict.
    #[error(
        "another reader gives verdicts on the log: end it, or ask for another worker's, NAME@K"
    )]
    HasGiver,
    /// The remaining seats are reserved for other users.
    #[error(
        "this user has {has} seats of a log, and may have {most} now; others are taken, or for \
         other users, its owner and root: end a reader; burstline doctor logs lists them"
    )]
    UsersSeats {
        /// The number of the user's seats.
        has: u64,
        /// The maximum number of the user's seats.
        most: u64,
    },
    /// The remaining segments of windows are reserved for other users.
    #[error(
        "this user's windows would be {windows} segments of a log, the maximum is {most}; some are \
         reserved for other users, its owner and root: ask for a smaller window, end a reader, or \
         publish with a larger --buffer"
    )]
    UsersWindows {
        /// The sum of the user's windows, in segments.
        windows: u64,
        /// The maximum of that sum.
        most: u64,
    },
}

/// Whose descriptors are used up, and the remedy. A `limit` of 0 is the whole system.
fn no_descriptors(limit: &u64) -> String {
    match limit {
        0 => {
            "the whole system has no descriptors left: raise fs.file-max (sysctl), or end programs"
                .to_owned()
        }
        _ => format!(
            "all {limit} descriptors of its process are in use: raise its limit (ulimit -n), or \
             end readers"
        ),
    }
}

fn plural(count: &u64) -> &'static str {
    if *count == 1 { "" } else { "s" }
}

/// An encoded refusal: a code and its numbers, 0 for an absent one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Coded {
    pub(crate) code: u16,
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl Refusal {
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
            Self::UsersWindows { windows, most } => (17, windows, most),
        };
        Coded { code, first, second }
    }

    /// Decodes a refusal; `None` for a code that this version does not know.
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
            17 => Self::UsersWindows { windows: a, most: b },
            _ => return None,
        })
    }

    /// Returns the refusal that corresponds to a log's error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_fits_its_sentence() {
        let descriptors = |limit| Refusal::Descriptors { limit }.to_string();
        assert!(descriptors(64).starts_with("all 64 descriptors of its process are in use: "));
        assert!(descriptors(0).starts_with("the whole system has no descriptors left: "));
        let logs = |count| Refusal::NoSuchLog { asked: 7, count }.to_string();
        assert_eq!(logs(1), "it has 1 log, numbered from 0; there is no log 7");
        assert_eq!(logs(2), "it has 2 logs, numbered from 0; there is no log 7");
    }
}

//! The messages on the socket: fixed little-endian structs, one in each message.
//!
//! ```text
//! 0       8         10     12       16
//! | magic | version | kind | 0      | fields of the kind ...
//!
//! client   Attach, Query          server   Welcome (a log each, with 3 or 4 descriptors) ...
//!                                          Refused: code, two numbers; the same in all versions
//!                                          Publisher, Log ..., Readers ..., End
//! ```
//!
//! A decoder accepts only a message of exactly the length of its kind (S2).

use burstline_log::{Buckets, Policy, Start};

use crate::refusal::{Coded, Refusal};
use crate::status::{LogStatus, ReaderStatus};

/// The version of the protocol; incremented with every change of it.
pub const PROTOCOL_VERSION: u16 = 3;
/// The length of the longest message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2048;

const MAGIC: [u8; 8] = *b"brstshar";
const HEADER_BYTES: usize = 16;

const ATTACH: u16 = 1;
const QUERY: u16 = 2;
const WELCOME: u16 = 3;
const REFUSED: u16 = 4;
const PUBLISHER: u16 = 5;
const LOG: u16 = 6;
const READERS: u16 = 7;
const END: u16 = 8;

/// The number of readers that fit into one message.
pub(crate) const READERS_A_MESSAGE: usize = 16;
const READER_BYTES: usize = 88;
const COMMAND_BYTES: usize = 16;
const _: () = assert!(HEADER_BYTES + 8 + READERS_A_MESSAGE * READER_BYTES <= MESSAGE_BYTES_MAX);
/// In [`AttachRequest::log`]: all logs.
const ALL_LOGS: u32 = u32::MAX;
/// In [`Welcome::part`]: the whole log.
const NO_PART: u32 = 0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    Attach(AttachRequest),
    Query,
}

/// A request for seats at the logs of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AttachRequest {
    pub(crate) policy: Policy,
    pub(crate) start: Start,
    pub(crate) is_untrusted: bool,
    pub(crate) window: u32,
    /// The number of a log; all if `None`.
    pub(crate) log: Option<u32>,
    pub(crate) gives_verdicts: bool,
}

/// A publisher's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    Welcome(Welcome),
    Refused(Refusal),
    Publisher { epoch: u64, pid: u32, logs: u32, up_s: u64 },
    Log(LogStatus),
    Readers(Vec<ReaderStatus>),
    End,
}

/// A seat at one log. The descriptors of its packet memory, control memory and the reader's page
/// come with it, and that of the column if the reader gives verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) epoch: u64,
    pub(crate) pid: u32,
    /// This is welcome number `index` of `count`.
    pub(crate) index: u32,
    pub(crate) count: u32,
    pub(crate) seat: u32,
    pub(crate) window: u32,
    /// The part of the log that is lent; all if `None`.
    pub(crate) part: Option<Buckets>,
}

impl Request {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Query => header(QUERY),
            Self::Attach(request) => {
                let mut bytes = header(ATTACH);
                let policy = u8::from(request.policy == Policy::Lossless);
                let start = start_code(request.start);
                let marks = [request.is_untrusted, request.gives_verdicts].map(u8::from);
                bytes.extend([policy, start]);
                bytes.extend(marks);
                bytes.extend(request.window.to_le_bytes());
                bytes.extend(request.log.unwrap_or(ALL_LOGS).to_le_bytes());
                bytes.extend([0; 4]);
                bytes
            }
        }
    }

    /// Decodes a client's request, or returns the refusal to answer.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Refusal> {
        let malformed = Refusal::Malformed { bytes: bytes.len() as u64 };
        let mut fields = Fields(bytes);
        let (version, kind) = fields.header().ok_or(malformed)?;
        if version != PROTOCOL_VERSION {
            return Err(Refusal::Version { theirs: PROTOCOL_VERSION.into(), ours: version.into() });
        }
        let request = match kind {
            QUERY => Some(Self::Query),
            ATTACH => fields.attach().map(Self::Attach),
            _ => None,
        };
        request.filter(|_| fields.0.is_empty()).ok_or(malformed)
    }
}

impl Reply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Welcome(welcome) => {
                let mut bytes = header(WELCOME);
                let Welcome { epoch, pid, index, count, seat, window, part } = *welcome;
                let part = part.map_or(NO_PART, Buckets::code);
                bytes.extend(epoch.to_le_bytes());
                bytes.extend(
                    [pid, index, count, seat, window, part].map(u32::to_le_bytes).as_flattened(),
                );
                bytes
            }
            Self::Refused(refusal) => {
                let mut bytes = header(REFUSED);
                let Coded { code, first, second } = refusal.encode();
                bytes.extend(u64::from(code).to_le_bytes());
                bytes.extend([first, second].map(u64::to_le_bytes).as_flattened());
                bytes
            }
            Self::Publisher { epoch, pid, logs, up_s } => {
                let mut bytes = header(PUBLISHER);
                bytes.extend(epoch.to_le_bytes());
                bytes.extend([*pid, *logs].map(u32::to_le_bytes).as_flattened());
                bytes.extend(up_s.to_le_bytes());
                bytes
            }
            Self::Log(log) => {
                let mut bytes = header(LOG);
                let words = [
                    log.published,
                    log.segments,
                    log.segment_bytes,
                    log.readers,
                    log.max_readers,
                    log.kept_ns,
                ];
                bytes.extend(words.map(u64::to_le_bytes).as_flattened());
                bytes
            }
            Self::Readers(readers) => {
                let mut bytes = header(READERS);
                bytes.extend((readers.len() as u64).to_le_bytes());
                readers.iter().for_each(|reader| push_reader(&mut bytes, reader));
                bytes
            }
            Self::End => header(END),
        }
    }

    /// Decodes a publisher's answer, or returns its fault.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(bytes);
        let (version, kind) = fields.header().ok_or("its answer has no header")?;
        if kind == REFUSED {
            let refusal = fields.refusal().filter(|_| fields.0.is_empty());
            return refusal.map(Self::Refused).ok_or("it refuses for an unknown reason");
        }
        if version != PROTOCOL_VERSION {
            let (theirs, ours) = (version.into(), PROTOCOL_VERSION.into());
            return Ok(Self::Refused(Refusal::Version { theirs, ours }));
        }
        let reply = match kind {
            WELCOME => fields.welcome().map(Self::Welcome),
            PUBLISHER => fields.publisher(),
            LOG => fields.log().map(Self::Log),
            READERS => fields.readers().map(Self::Readers),
            END => Some(Self::End),
            _ => return Err("its answer is of an unknown kind"),
        };
        reply.filter(|_| fields.0.is_empty()).ok_or("its answer has the wrong length")
    }
}

/// For fuzz targets: checks that encoding a decoded message and decoding it again changes nothing.
///
/// # Panics
/// If the result is different.
#[cfg(fuzzing)]
pub fn read_and_say_again(bytes: &[u8]) {
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(reply) = Reply::decode(bytes) {
        // A command that is not UTF-8 becomes longer when it is decoded, and is truncated again.
        let said = reply.encode();
        assert_eq!(Reply::decode(&said).map(|again| again.encode()), Ok(said));
    }
}

fn header(kind: u16) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend(PROTOCOL_VERSION.to_le_bytes());
    bytes.extend(kind.to_le_bytes());
    bytes.extend([0; 4]);
    bytes
}

fn start_code(start: Start) -> u8 {
    match start {
        Start::Now => 0,
        Start::Segment => 1,
        Start::Oldest => 2,
    }
}

fn start_of(code: u8) -> Option<Start> {
    match code {
        0 => Some(Start::Now),
        1 => Some(Start::Segment),
        2 => Some(Start::Oldest),
        _ => None,
    }
}

fn push_reader(bytes: &mut Vec<u8>, reader: &ReaderStatus) {
    let words =
        [reader.log, reader.seat, reader.pid, reader.uid, reader.window, reader.held_segments];
    bytes.extend(words.map(u32::to_le_bytes).as_flattened());
    let wide = [reader.delivered, reader.missed, reader.lag_packets, reader.attached_s];
    bytes.extend(wide.map(u64::to_le_bytes).as_flattened());
    let is_lossless = reader.policy == Policy::Lossless;
    let marks = [is_lossless, reader.is_untrusted, reader.is_demoted, reader.is_claimed];
    bytes.extend(marks.map(u8::from));
    let mut command = [0; COMMAND_BYTES];
    let kept = reader.command.floor_char_boundary(COMMAND_BYTES);
    command[..kept].copy_from_slice(&reader.command.as_bytes()[..kept]);
    bytes.extend(command);
    bytes.extend([0; READER_BYTES - 24 - 32 - 4 - COMMAND_BYTES]);
}

/// The rest of a message.
struct Fields<'m>(&'m [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Decodes version and kind.
    fn header(&mut self) -> Option<(u16, u16)> {
        let magic: [u8; 8] = self.take()?;
        let found = (self.u16()?, self.u16()?);
        self.u32()?;
        (magic == MAGIC).then_some(found)
    }

    fn attach(&mut self) -> Option<AttachRequest> {
        let [policy, start, is_untrusted, gives_verdicts] = self.take()?;
        let (window, log) = (self.u32()?, self.u32()?);
        self.u32()?;
        let policy = match policy {
            0 => Policy::Lossy,
            1 => Policy::Lossless,
            _ => return None,
        };
        let log = (log != ALL_LOGS).then_some(log);
        let [is_untrusted, gives_verdicts] = [is_untrusted, gives_verdicts].map(|mark| mark != 0);
        let start = start_of(start)?;
        Some(AttachRequest { policy, start, is_untrusted, window, log, gives_verdicts })
    }

    fn welcome(&mut self) -> Option<Welcome> {
        let epoch = self.u64()?;
        let [pid, index, count, seat, window] =
            [self.u32()?, self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        let part = match self.u32()? {
            NO_PART => None,
            code => Some(Buckets::from_code(code)?),
        };
        Some(Welcome { epoch, pid, index, count, seat, window, part })
    }

    fn refusal(&mut self) -> Option<Refusal> {
        let code = u16::try_from(self.u64()?).ok()?;
        Refusal::decode(Coded { code, first: self.u64()?, second: self.u64()? })
    }

    fn publisher(&mut self) -> Option<Reply> {
        let (epoch, pid, logs) = (self.u64()?, self.u32()?, self.u32()?);
        Some(Reply::Publisher { epoch, pid, logs, up_s: self.u64()? })
    }

    fn log(&mut self) -> Option<LogStatus> {
        Some(LogStatus {
            published: self.u64()?,
            segments: self.u64()?,
            segment_bytes: self.u64()?,
            readers: self.u64()?,
            max_readers: self.u64()?,
            kept_ns: self.u64()?,
        })
    }

    fn readers(&mut self) -> Option<Vec<ReaderStatus>> {
        let count = usize::try_from(self.u64()?).ok().filter(|&n| n <= READERS_A_MESSAGE)?;
        (0..count).map(|_| self.reader()).collect()
    }

    fn reader(&mut self) -> Option<ReaderStatus> {
        let [log, seat, pid, uid, window, held_segments] =
            [self.u32()?, self.u32()?, self.u32()?, self.u32()?, self.u32()?, self.u32()?];
        let [delivered, missed, lag_packets, attached_s] =
            [self.u64()?, self.u64()?, self.u64()?, self.u64()?];
        let marks: [u8; 4] = self.take()?;
        let [is_lossless, is_untrusted, is_demoted, is_claimed] = marks.map(|mark| mark != 0);
        let command: [u8; COMMAND_BYTES] = self.take()?;
        self.take::<{ READER_BYTES - 24 - 32 - 4 - COMMAND_BYTES }>()?;
        let policy = if is_lossless { Policy::Lossless } else { Policy::Lossy };
        let command = crate::status::plain(&command);
        Some(ReaderStatus {
            log,
            seat,
            pid,
            uid,
            window,
            held_segments,
            delivered,
            missed,
            lag_packets,
            attached_s,
            policy,
            is_untrusted,
            is_demoted,
            is_claimed,
            command,
        })
    }
}

#[cfg(test)]
mod tests;

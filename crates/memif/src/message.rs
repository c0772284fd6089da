//! Messages of 128 bytes each; the first two bytes are the type.

use std::io;

use burstline_peer::PeerMemoryError;

/// The size of every message.
pub const MESSAGE_BYTES: usize = 128;
/// Version 2.0.
pub(crate) const VERSION: u16 = 2 << 8;

const NAME_BYTES: usize = 32;
const SECRET_BYTES: usize = 24;
const REASON_BYTES: usize = 96;

/// A message of either side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last message was handled.
    Acknowledge,
    /// The server's limits.
    Hello {
        /// The lowest and the highest version.
        versions: [u16; 2],
        /// The largest region number.
        region_max: u16,
        /// The largest number of rings from server to client, and from client to server.
        ring_max: [u16; 2],
        /// The largest ring, as a power of two.
        log2_slots_max: u8,
    },
    /// The client's choice of an interface.
    Init {
        /// Its version.
        version: u16,
        /// The interface's number.
        id: u32,
        /// 0: Ethernet.
        mode: u8,
    },
    /// A file of the client, sent as a descriptor.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its size.
        bytes: u64,
    },
    /// A ring; the descriptor of its bell comes with it.
    AddRing {
        /// Whether it is from client to server.
        is_to_server: bool,
        /// Its number.
        index: u16,
        /// The number of its region.
        region: u16,
        /// Its offset in the region.
        offset: u32,
        /// Its size, as a power of two.
        log2_slots: u8,
    },
    /// The client has announced everything.
    Connect,
    /// The server accepts the connection.
    Connected,
    /// The sender ends the connection.
    Disconnect {
        /// The reason.
        reason: String,
    },
}

/// The reason why a connection ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The peer has closed the connection.
    #[error("it has closed the connection")]
    Closed,
    /// The peer has disconnected with a reason.
    #[error("it disconnected: {0}")]
    Left(String),
    /// The message does not have 128 bytes.
    #[error("a message of {0} bytes: expected {MESSAGE_BYTES}")]
    Size(usize),
    /// The message type is unknown.
    #[error("message of type {0}: expected 1 to 8")]
    Unknown(u16),
    /// The message comes at the wrong time.
    #[error("{0} was not expected now")]
    Order(&'static str),
    /// The message has the wrong number of descriptors.
    #[error("{message} has {descriptors} descriptors: expected {expected}")]
    Descriptors {
        /// The name of the message.
        message: &'static str,
        /// The number of descriptors received.
        descriptors: usize,
        /// The number of descriptors expected.
        expected: usize,
    },
    /// The peer uses another version.
    #[error("version {0:#x}: expected {VERSION:#x}")]
    Version(u16),
    /// The client wants another interface.
    #[error("interface {wanted}: this one is {ours}; both ends need the same id")]
    Id {
        /// The client's number.
        wanted: u32,
        /// Our number.
        ours: u32,
    },
    /// The interface mode is not Ethernet.
    #[error("mode {0}: expected 0, Ethernet")]
    Mode(u8),
    /// A number is out of sequence, or too large.
    #[error("{what} {index}: expected {expected}")]
    Index {
        /// The kind of the number.
        what: &'static str,
        /// The number received.
        index: usize,
        /// The next number, or the limit.
        expected: usize,
    },
    /// A ring is outside its region, not aligned, or too large.
    #[error("ring {index} of 2^{log2_slots} slots at {offset:#x} is not in region {region}")]
    RingPlace {
        /// The ring's number.
        index: u16,
        /// Its region.
        region: u16,
        /// Its offset in the region.
        offset: u32,
        /// Its size.
        log2_slots: u8,
    },
    /// The memory does not contain a ring.
    #[error("ring {index} begins with {cookie:#x}: expected {expected:#x}")]
    Cookie {
        /// The ring's number.
        index: usize,
        /// The value found.
        cookie: u32,
        /// The value expected.
        expected: u32,
    },
    /// The peer's memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PeerMemoryError),
    /// A descriptor or the socket failed.
    #[error("{what}: {error}")]
    Io {
        /// The attempted operation.
        what: &'static str,
        /// The kernel's error.
        error: io::Error,
    },
}

/// The fields of a message, in sequence without gaps.
struct Fields<'b>(&'b [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut field = [0; N];
        field.copy_from_slice(&self.0[..N]);
        self.0 = &self.0[N..];
        field
    }

    fn half(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    fn word(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn long(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

impl Message {
    /// Parses a message.
    ///
    /// # Errors
    /// [`Fault::Size`], [`Fault::Unknown`].
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        if bytes.len() != MESSAGE_BYTES {
            return Err(Fault::Size(bytes.len()));
        }
        let mut fields = Fields(bytes);
        Ok(match fields.half() {
            1 => Self::Acknowledge,
            2 => {
                fields.take::<NAME_BYTES>();
                let versions = [fields.half(), fields.half()];
                let (region_max, to_client, to_server) =
                    (fields.half(), fields.half(), fields.half());
                let [log2_slots_max] = fields.take();
                let ring_max = [to_client, to_server];
                Self::Hello { versions, region_max, ring_max, log2_slots_max }
            }
            3 => {
                let (version, id) = (fields.half(), fields.word());
                let [mode] = fields.take();
                Self::Init { version, id, mode }
            }
            4 => Self::AddRegion { index: fields.half(), bytes: fields.long() },
            5 => {
                let (flags, index, region) = (fields.half(), fields.half(), fields.half());
                let offset = fields.word();
                let [log2_slots] = fields.take();
                Self::AddRing { is_to_server: flags & 1 != 0, index, region, offset, log2_slots }
            }
            6 => Self::Connect,
            7 => Self::Connected,
            8 => {
                let _code = fields.word();
                let reason: [u8; REASON_BYTES] = fields.take();
                let reason = reason.split(|&byte| byte == 0).next().unwrap_or_default();
                // The text is shown on a terminal.
                let reason = String::from_utf8_lossy(reason).escape_debug().to_string();
                Self::Disconnect { reason }
            }
            other => return Err(Fault::Unknown(other)),
        })
    }

    /// Encodes the message. `name` is the name of this program.
    pub fn bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut all = Vec::with_capacity(MESSAGE_BYTES);
        let mut name = [0; NAME_BYTES];
        name[..9].copy_from_slice(b"burstline");
        let put = |all: &mut Vec<u8>, values: &[u16]| {
            all.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        };
        match self {
            Self::Acknowledge => put(&mut all, &[1]),
            Self::Hello { versions, region_max, ring_max, log2_slots_max } => {
                put(&mut all, &[2]);
                all.extend(name);
                put(&mut all, versions);
                put(&mut all, &[*region_max, ring_max[0], ring_max[1]]);
                all.push(*log2_slots_max);
            }
            Self::Init { version, id, mode } => {
                put(&mut all, &[3, *version]);
                all.extend(id.to_le_bytes());
                all.push(*mode);
                all.extend([0; SECRET_BYTES]);
                all.extend(name);
            }
            Self::AddRegion { index, bytes } => {
                put(&mut all, &[4, *index]);
                all.extend(bytes.to_le_bytes());
            }
            Self::AddRing { is_to_server, index, region, offset, log2_slots } => {
                put(&mut all, &[5, u16::from(*is_to_server), *index, *region]);
                all.extend(offset.to_le_bytes());
                all.extend([*log2_slots, 0, 0]);
            }
            Self::Connect => {
                put(&mut all, &[6]);
                all.extend(name);
            }
            Self::Connected => {
                put(&mut all, &[7]);
                all.extend(name);
            }
            Self::Disconnect { reason } => {
                put(&mut all, &[8, 1, 0]);
                all.extend(reason.bytes().take(REASON_BYTES - 1));
            }
        }
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..all.len()].copy_from_slice(&all);
        bytes
    }

    /// Returns the message's name in errors.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Acknowledge => "an acknowledgement",
            Self::Hello { .. } => "a hello",
            Self::Init { .. } => "an init",
            Self::AddRegion { .. } => "a region",
            Self::AddRing { .. } => "a ring",
            Self::Connect => "a connect",
            Self::Connected => "a connected",
            Self::Disconnect { .. } => "a disconnect",
        }
    }
}

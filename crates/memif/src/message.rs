//! Messages: 128 bytes each, of which the first two say what the others are.

use std::io;

use burstline_peer::PeerMemoryError;

/// Bytes of every message.
pub const MESSAGE_BYTES: usize = 128;
/// Version 2.0.
pub(crate) const VERSION: u16 = 2 << 8;

const NAME_BYTES: usize = 32;
const SECRET_BYTES: usize = 24;
const REASON_BYTES: usize = 96;

/// What one says to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The last one was carried out.
    Acknowledge,
    /// The server's limits.
    Hello {
        /// Versions, the lowest and the highest.
        versions: [u16; 2],
        /// The largest number of a region.
        region_max: u16,
        /// The largest number of a ring from server to client, and from client to server.
        ring_max: [u16; 2],
        /// The largest ring, as a power of two.
        log2_slots_max: u8,
    },
    /// Which interface the client wants.
    Init {
        /// Its version.
        version: u16,
        /// The interface's number.
        id: u32,
        /// 0: Ethernet.
        mode: u8,
    },
    /// A file of the client's, which comes with it.
    AddRegion {
        /// Its number.
        index: u16,
        /// Its size.
        bytes: u64,
    },
    /// A ring, whose bell comes with it.
    AddRing {
        /// Whether it is from client to server.
        is_to_server: bool,
        /// Its number.
        index: u16,
        /// Where it is.
        region: u16,
        /// Where it is in there.
        offset: u32,
        /// Its size, as a power of two.
        log2_slots: u8,
    },
    /// All is said.
    Connect,
    /// All is well.
    Connected,
    /// The other one ends it.
    Disconnect {
        /// Why.
        reason: String,
    },
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// It has gone.
    #[error("it has closed the connection")]
    Closed,
    /// It has said why it goes.
    #[error("it disconnects: {0}")]
    Left(String),
    /// Not 128 bytes.
    #[error("a message of {0} bytes: expected {MESSAGE_BYTES}")]
    Size(usize),
    /// There is no such message.
    #[error("message of type {0}: expected 1 to 8")]
    Unknown(u16),
    /// It comes at the wrong time.
    #[error("{0} was not expected now")]
    Order(&'static str),
    /// Too many descriptors, or too few.
    #[error("{message} has {descriptors} descriptors: expected {expected}")]
    Descriptors {
        /// Which message.
        message: &'static str,
        /// How many came.
        descriptors: usize,
        /// How many such a message has.
        expected: usize,
    },
    /// Another version.
    #[error("version {0:#x}: expected {VERSION:#x}")]
    Version(u16),
    /// Another interface.
    #[error("interface {wanted}: this one is {ours}; both ends have the same id")]
    Id {
        /// What the client wants.
        wanted: u32,
        /// What we are.
        ours: u32,
    },
    /// No Ethernet.
    #[error("mode {0}: expected 0, Ethernet")]
    Mode(u8),
    /// A number out of turn, or too large.
    #[error("{what} {index}: expected {expected}")]
    Index {
        /// Of what.
        what: &'static str,
        /// Which came.
        index: usize,
        /// Which is next, or how many there can be.
        expected: usize,
    },
    /// A ring that is not in its region, or not aligned, or too large.
    #[error("ring {index} of 2^{log2_slots} slots at {offset:#x} is not in region {region}")]
    RingPlace {
        /// Which.
        index: u16,
        /// Its region.
        region: u16,
        /// Where in it.
        offset: u32,
        /// Its size.
        log2_slots: u8,
    },
    /// What is there is no ring.
    #[error("ring {index} begins with {cookie:#x}: expected {expected:#x}")]
    Cookie {
        /// Which.
        index: usize,
        /// What is there.
        cookie: u32,
        /// What should be.
        expected: u32,
    },
    /// Its memory cannot be mapped.
    #[error(transparent)]
    Memory(#[from] PeerMemoryError),
    /// A descriptor or the socket is not as it should be.
    #[error("{what}: {error}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the kernel said.
        error: io::Error,
    },
}

/// Numbers one behind the other, without gaps.
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
    /// Reads a message.
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
                // It goes to a terminal.
                let reason = String::from_utf8_lossy(reason).escape_debug().to_string();
                Self::Disconnect { reason }
            }
            other => return Err(Fault::Unknown(other)),
        })
    }

    /// Its bytes. `name` is what this program is called.
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

    /// What it is called in errors.
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

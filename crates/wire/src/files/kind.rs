//! Detects what a file is from its first bytes.

use thiserror::Error;

use super::block_type;

/// Magic numbers of classic pcap as read in little-endian. Source: draft-ietf-opsawg-pcap;
/// the modified one from libpcap 1.10 `sf-pcap.c`.
const MICROSECONDS: u32 = 0xA1B2_C3D4;
const NANOSECONDS: u32 = 0xA1B2_3C4D;
const MODIFIED: u32 = 0xA1B2_CD34;

/// The kind of a file, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// No bytes at all.
    Empty,
    /// Classic pcap.
    Pcap {
        /// Nanoseconds in the second word of each record, not microseconds.
        nanoseconds: bool,
        /// Written big-endian.
        swapped: bool,
        /// Records have 24 bytes of header (Kuznetzov's patch), not 16.
        modified: bool,
    },
    /// pcapng, segmented or not.
    Pcapng,
    /// gzip: the caller decompresses first.
    Gzip,
    /// Zstandard: the caller decompresses first.
    Zstd,
    /// Something else.
    Unknown,
}

impl FileKind {
    /// Detects the kind of a file from its first bytes; 4 are enough.
    pub fn detect(first: &[u8]) -> FileKind {
        if first.is_empty() {
            return FileKind::Empty;
        }
        if first.starts_with(&[0x1F, 0x8B]) {
            return FileKind::Gzip;
        }
        let Some(magic) = first.first_chunk::<4>() else { return FileKind::Unknown };
        let little = u32::from_le_bytes(*magic);
        let pcap =
            |swapped, nanoseconds, modified| FileKind::Pcap { nanoseconds, swapped, modified };
        for (value, swapped) in [(little, false), (little.swap_bytes(), true)] {
            match value {
                MICROSECONDS => return pcap(swapped, false, false),
                NANOSECONDS => return pcap(swapped, true, false),
                MODIFIED => return pcap(swapped, false, true),
                _ => {}
            }
        }
        match little {
            block_type::SECTION => FileKind::Pcapng,
            0xFD2F_B528 => FileKind::Zstd,
            _ => FileKind::Unknown,
        }
    }
}

/// Why a file as a whole is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// No bytes at all: not even a file header.
    #[error("the file is empty: it has no capture file header")]
    Empty,
    /// The file ends inside its header.
    #[error("the file ends inside its header: {length} of {needed} bytes")]
    HeaderCut {
        /// Bytes present.
        length: usize,
        /// Bytes of a header.
        needed: usize,
    },
    /// Compressed: the caller decompresses first.
    #[error("the file is compressed ({kind:?})")]
    Compressed {
        /// The compression.
        kind: FileKind,
    },
    /// Neither pcap nor pcapng.
    #[error("not a capture file: it starts with {:02x?}", &.first[..usize::from(*.length)])]
    NotCapture {
        /// The first bytes, zero-filled.
        first: [u8; 8],
        /// How many of them are present.
        length: u8,
    },
    /// A pcapng section header without a byte-order magic.
    #[error("damaged pcapng section header: byte-order magic is {magic:#010x}")]
    ByteOrder {
        /// The value in its place.
        magic: u32,
    },
}

impl FormatError {
    /// Returns the error for these first bytes.
    pub(super) fn not_capture(here: &[u8]) -> FormatError {
        let mut first = [0; 8];
        let length = here.len().min(8);
        first[..length].copy_from_slice(&here[..length]);
        FormatError::NotCapture { first, length: length as u8 }
    }
}

//! The descriptions of a file's sections and interfaces, and the counters of these.

use super::block_type::SECTION;
use super::options::{Malformed, Options, number};
use super::{BYTE_ORDER_MAGIC, MAX_NAME_BYTES, MAX_TEXT_BYTES, Resolution, half, word};
use crate::headers::LinkType;

/// What a section header says of its section. Texts that it does not have are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Section {
    /// Its comments, a line each, cut to [`MAX_TEXT_BYTES`].
    pub comment: String,
    /// `shb_hardware`, cut to [`MAX_NAME_BYTES`].
    pub hardware: String,
    /// `shb_os`, cut to [`MAX_NAME_BYTES`].
    pub os: String,
    /// `shb_userappl`: the program that wrote it, cut to [`MAX_NAME_BYTES`].
    pub application: String,
}

impl Section {
    /// Reads the section header at the start of a file. `None` if there is none, or not all of it.
    #[must_use]
    pub fn at_start(bytes: &[u8]) -> Option<Section> {
        let head = bytes.get(..12)?;
        let swapped = word(head, 8, true) == BYTE_ORDER_MAGIC;
        let is_section =
            word(head, 0, false) == SECTION && word(head, 8, swapped) == BYTE_ORDER_MAGIC;
        let end = (word(head, 4, swapped) as usize).checked_sub(4)?;
        bytes.get(8..end).filter(|_| is_section).map(|body| Section::parse(body, swapped))
    }

    /// Reads the body of a Section Header Block, up to a malformed option.
    ///
    /// Source: draft-ietf-opsawg-pcapng, section 4.1.
    pub(super) fn parse(body: &[u8], swapped: bool) -> Section {
        let mut section = Section::default();
        let mut options = Options::new(body.get(16..).unwrap_or_default(), swapped);
        while let Ok(Some((code, value))) = options.next() {
            match code {
                1 => {
                    let end = if section.comment.is_empty() { "" } else { "\n" };
                    let used = section.comment.len() + end.len();
                    if used < MAX_TEXT_BYTES && !value.is_empty() {
                        section.comment += end;
                        section.comment += &text(value, MAX_TEXT_BYTES - used);
                    }
                }
                2 => section.hardware = text(value, MAX_NAME_BYTES),
                3 => section.os = text(value, MAX_NAME_BYTES),
                4 => section.application = text(value, MAX_NAME_BYTES),
                _ => {}
            }
        }
        section
    }
}

/// An interface that a file describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// `if_name`, cut to [`MAX_NAME_BYTES`]; empty if the file has none, as in pcap.
    pub name: String,
    /// Link type of its packets.
    pub link: LinkType,
    /// Units of its timestamps.
    pub resolution: Resolution,
    /// Longest captured length it promises, in bytes; 0 if it makes no promise.
    pub snapshot_length: u32,
    /// Bytes of frame check sequence at the end of each packet, if the file says.
    pub fcs_bytes: Option<u8>,
    /// Counters of its last Interface Statistics Block.
    pub counters: Counters,
}

/// Counters of an Interface Statistics Block; `None` if the block does not have them.
///
/// Source: draft-ietf-opsawg-pcapng, section 4.6, options 4 to 8.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// `isb_ifrecv`: packets that the interface received.
    pub received: Option<u64>,
    /// `isb_ifdrop`: packets that the interface had no room for.
    pub missed: Option<u64>,
    /// `isb_filteraccept`: packets that passed the filter.
    pub accepted: Option<u64>,
    /// `isb_osdrop`: packets that were lost after the interface.
    pub lost: Option<u64>,
    /// `isb_usrdeliv`: packets that were delivered, and so should be in the file.
    pub delivered: Option<u64>,
}

impl Interface {
    /// Reads the body of an Interface Description Block.
    pub(super) fn parse(body: &[u8], swapped: bool) -> Result<Interface, Malformed> {
        let options = body.get(8..).ok_or(Malformed)?;
        let mut interface = Interface {
            name: String::new(),
            link: LinkType(half(body, 0, swapped)),
            resolution: Resolution::MICROSECONDS,
            snapshot_length: word(body, 4, swapped),
            fcs_bytes: None,
            counters: Counters::default(),
        };
        let mut options = Options::new(options, swapped);
        let mut offset_seconds = 0;
        while let Some((code, value)) = options.next()? {
            match (code, value) {
                (2, name) => interface.name = text(name, MAX_NAME_BYTES),
                (9, &[resolution]) => interface.resolution = Resolution::from_option(resolution),
                (13, &[bits]) => interface.fcs_bytes = Some(bits / 8),
                (14, offset) => offset_seconds = number(offset, swapped).ok_or(Malformed)? as i64,
                _ => {}
            }
        }
        interface.resolution.offset_seconds = offset_seconds;
        Ok(interface)
    }

    /// Describes the one interface of a classic pcap file from the last word of its header.
    ///
    /// Source: draft-ietf-opsawg-pcap, section 4: link type in 16 bits, then reserved bits, the
    /// flag `f`, and the FCS length in half words.
    pub(super) fn classic(link_word: u32, snapshot_length: u32, resolution: Resolution) -> Self {
        let has_fcs = link_word & 0x0400_0000 != 0;
        Interface {
            name: String::new(),
            link: LinkType(link_word as u16),
            resolution,
            snapshot_length,
            fcs_bytes: has_fcs.then_some((link_word >> 28) as u8 * 2),
            counters: Counters::default(),
        }
    }

    /// Returns whether both describe the same interface, counters aside.
    pub(super) fn describes_same(&self, other: &Interface) -> bool {
        (self.link, self.snapshot_length, self.resolution, self.fcs_bytes, &self.name)
            == (other.link, other.snapshot_length, other.resolution, other.fcs_bytes, &other.name)
    }
}

impl Counters {
    /// Reads the options of an Interface Statistics Block.
    pub(super) fn parse(bytes: &[u8], swapped: bool) -> Result<Counters, Malformed> {
        let mut counters = Counters::default();
        let mut options = Options::new(bytes, swapped);
        while let Some((code, value)) = options.next()? {
            let slot = match code {
                4 => &mut counters.received,
                5 => &mut counters.missed,
                6 => &mut counters.accepted,
                7 => &mut counters.lost,
                8 => &mut counters.delivered,
                _ => continue,
            };
            *slot = Some(number(value, swapped).ok_or(Malformed)?);
        }
        Ok(counters)
    }
}

/// Keeps the readable start of a text option, of at most `most` bytes.
fn text(value: &[u8], most: usize) -> String {
    let value = &value[..value.len().min(most)];
    let mut text = String::from_utf8_lossy(value).into_owned();
    // A byte that is not UTF-8 becomes three.
    text.truncate(text.floor_char_boundary(most));
    text
}

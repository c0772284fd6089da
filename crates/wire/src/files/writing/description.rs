//! The descriptions that a file has of itself and of its interfaces, for writing.

use crate::files::encode::{EncodeError, Put};
use crate::files::{BYTE_ORDER_MAGIC, Counters, block_type};
use crate::headers::LinkType;

/// Longest text that we write as an option, in bytes: every reader accepts it.
const MAX_TEXT: usize = 4096;

/// Contents of the section header; empty texts are left out.
#[derive(Clone, Copy, Debug, Default)]
pub struct SectionDescription<'a> {
    /// `opt_comment`.
    pub comment: &'a str,
    /// `shb_hardware`.
    pub hardware: &'a str,
    /// `shb_os`.
    pub os: &'a str,
    /// `shb_userappl`: the program that writes.
    pub application: &'a str,
}

/// Contents of an Interface Description Block; empty texts and zeros are left out.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceDescription<'a> {
    /// Link type of its packets; the same for all interfaces of a file.
    pub link: LinkType,
    /// `if_name`: the device.
    pub name: &'a str,
    /// `if_description`: for example the port as the user wrote it.
    pub description: &'a str,
    /// `if_os`.
    pub os: &'a str,
    /// `if_hardware`.
    pub hardware: &'a str,
    /// `if_filter`, as text.
    pub filter: &'a str,
    /// `if_speed` in bit/s.
    pub speed_bits_per_s: u64,
}

impl<'a> InterfaceDescription<'a> {
    /// Creates a description with only a name.
    pub fn new(link: LinkType, name: &'a str) -> Self {
        InterfaceDescription {
            link,
            name,
            description: "",
            os: "",
            hardware: "",
            filter: "",
            speed_bits_per_s: 0,
        }
    }
}

/// Writes a Section Header Block. Returns its bytes, or 0 if `out` has no room.
pub(crate) fn write_section(
    out: &mut [u8],
    section: &SectionDescription<'_>,
) -> Result<usize, EncodeError> {
    check_texts(&[section.comment, section.hardware, section.os, section.application])?;
    let mut put = Put::new(out);
    put.word(block_type::SECTION);
    put.word(0);
    put.word(BYTE_ORDER_MAGIC);
    put.word(1); // version 1.0
    put.bytes(&u64::MAX.to_le_bytes()); // length of the section: unknown
    put.text(1, section.comment);
    put.text(2, section.hardware);
    put.text(3, section.os);
    put.text(4, section.application);
    Ok(put.close())
}

/// Writes an Interface Description Block in ns. Returns its bytes, or 0 if `out` has no room.
pub(crate) fn write_interface(
    out: &mut [u8],
    interface: &InterfaceDescription<'_>,
    snapshot_length: u32,
) -> Result<usize, EncodeError> {
    let InterfaceDescription { name, description, os, hardware, filter, .. } = *interface;
    check_texts(&[name, description, os, hardware, filter])?;
    let mut put = Put::new(out);
    put.word(block_type::INTERFACE);
    put.word(0);
    put.word(interface.link.0.into()); // and 16 reserved bits
    put.word(snapshot_length);
    put.text(2, name);
    put.text(3, description);
    if interface.speed_bits_per_s != 0 {
        put.option(8, &interface.speed_bits_per_s.to_le_bytes());
    }
    put.option(9, &[9]);
    if !filter.is_empty() {
        // The leading 0 marks a text in libpcap's language.
        put.option(11, &[b"\0", filter.as_bytes()].concat());
    }
    put.text(12, os);
    put.text(15, hardware);
    Ok(put.close())
}

/// Writes an Interface Statistics Block. Returns its bytes, or 0 if `out` has no room.
pub(crate) fn write_statistics(
    out: &mut [u8],
    interface: u32,
    time_ns: u64,
    counters: &Counters,
) -> usize {
    let mut put = Put::new(out);
    put.word(block_type::STATISTICS);
    put.word(0);
    put.word(interface);
    put.word((time_ns >> 32) as u32);
    put.word(time_ns as u32);
    let counts = [
        (4, counters.received),
        (5, counters.missed),
        (6, counters.accepted),
        (7, counters.lost),
        (8, counters.delivered),
    ];
    for (code, count) in counts {
        if let Some(count) = count {
            put.option(code, &count.to_le_bytes());
        }
    }
    put.close()
}

fn check_texts(texts: &[&str]) -> Result<(), EncodeError> {
    match texts.iter().find(|text| text.len() > MAX_TEXT) {
        Some(text) => Err(EncodeError::TextTooLong { length: text.len(), limit: MAX_TEXT }),
        None => Ok(()),
    }
}

//! From the path of a file to an address.

use burstline_port::{Address, AddressError};

use crate::args::{Format, NOTHING};

/// The address of a file, whatever characters are in its path.
pub(crate) fn file_address(path: &str) -> String {
    let mut address = String::from("file:");
    for character in path.chars() {
        match character {
            '%' => address += "%25",
            '?' => address += "%3F",
            _ => address.push(character),
        }
    }
    address
}

/// The address of the file at `path`.
pub(crate) fn address_of(path: &str, format: Option<Format>) -> Result<Address, AddressError> {
    if path == NOTHING {
        return path.parse();
    }
    let mut address = file_address(path);
    if let Some(format) = format {
        let name = match format {
            Format::Segmented => "segmented",
            Format::Pcapng => "pcapng",
            Format::PcapNs => "pcap-ns",
            Format::Pcap => "pcap",
        };
        address += &format!("?format={name}");
    }
    address.parse()
}

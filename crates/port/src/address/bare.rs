//! Resolves a word without a scheme to a network interface or a file, depending on which exists.
//!
//! ```text
//!  interface  file   as a source         as a sink
//!  yes        no     the interface       the interface: no file is made of its name
//!  no         yes    the file            the file
//!  yes        yes    an error that asks for the scheme, for both
//!  no         no     an error            a new file, if it is called as a capture, else an error
//! ```
//!
//! A capture is called so by its extension: `.pcapng`, `.pcap.zst`. No other new file is made,
//! because a name like `eth0.100` may be meant as an interface that is not there. A path with a
//! slash in it is a file, and so is one with the prefix `file:`: those are not looked up.

use std::path::Path;

use burstline_sys::interface::{Interface, present_interfaces};
use burstline_sys::late;
use burstline_sys::namespace::interface_index;

use crate::afpacket::link_type;
use crate::file::is_capture_name;
use crate::near::did_you_mean;
use crate::open::{FILE, INTERFACE};
use crate::{Address, AddressError};

/// The purpose of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// To receive from.
    Source,
    /// To send to.
    Sink,
}

/// Highest VLAN number. Source: IEEE 802.1Q, 9.6.
const VLAN_MOST: u16 = 4094;

/// Whether an interface in the calling thread's network namespace has this name.
pub fn is_interface(name: &str) -> bool {
    // If the kernel does not answer, opening the port reports the error.
    interface_index(name).is_ok_and(|index| index.is_some())
}

/// Returns the interfaces of the calling thread's network namespace that are up and that
/// `afpacket:` can receive from.
pub fn interfaces_up() -> Vec<String> {
    let fits = |found: Interface| found.is_up && link_type(&found).is_ok();
    let is_fit = |name: &String| Interface::named(name).is_ok_and(fits);
    present_interfaces().into_iter().filter(is_fit).collect()
}

impl Address {
    /// Returns this address with its scheme. A word without one is resolved by what exists: an
    /// interface in the calling thread's network namespace, or a path. Any other address is
    /// returned unchanged.
    ///
    /// # Errors
    /// [`AddressError::Ambiguous`]; [`AddressError::Unknown`] and [`AddressError::NoSuchVlan`],
    /// which are about the machine and not about the text ([`AddressError::is_about_machine`]).
    pub fn resolved(&self, role: Role) -> Result<Self, AddressError> {
        if !self.is_bare() {
            return Ok(self.clone());
        }
        let name = self.target();
        let is_file = late::metadata(Path::new(name)).is_ok_and(|found| !found.is_dir());
        match (is_interface(name), is_file) {
            (true, false) => Ok(self.with_scheme(INTERFACE)),
            (false, true) => Ok(self.with_scheme(FILE)),
            (true, true) => Err(AddressError::Ambiguous { name: self.to_string() }),
            (false, false) if role == Role::Source => Err(self.unknown(role)),
            (false, false) if is_capture_name(name) => Ok(self.with_scheme(FILE)),
            (false, false) => match vlan(name) {
                Some((parent, number)) => Err(AddressError::NoSuchVlan {
                    name: name.to_owned(),
                    parent: parent.to_owned(),
                    number,
                }),
                None => Err(self.unknown(role)),
            },
        }
    }

    fn unknown(&self, role: Role) -> AddressError {
        let present = present_interfaces();
        AddressError::Unknown {
            name: self.target().to_owned(),
            near: did_you_mean(self.target(), present.iter().map(String::as_str)),
            present: present.join(", "),
            mend: match role {
                Role::Source => String::new(),
                Role::Sink => format!("; for a new file write file:{self} or ./{self}"),
            },
        }
    }
}

/// Splits a VLAN's name into interface and number, if that interface exists.
fn vlan(name: &str) -> Option<(&str, u16)> {
    let (parent, number) = name.rsplit_once('.')?;
    let number = number.parse().ok().filter(|number| (1..=VLAN_MOST).contains(number))?;
    is_interface(parent).then_some((parent, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str, role: Role) -> Result<String, AddressError> {
        let address: Address = text.parse().unwrap();
        Ok(format!("{} {}", address.resolved(role)?.scheme(), address.target()))
    }

    #[test]
    fn what_exists_decides() {
        let present = present_interfaces();
        let Some(lo) = present.iter().find(|name| *name == "lo") else {
            return burstline_skip::skip("there is no interface lo here");
        };
        for role in [Role::Source, Role::Sink] {
            assert_eq!(resolved(lo, role), Ok("afpacket lo".into()));
            assert_eq!(resolved("lo?direction=in", role), Ok("afpacket lo".into()));
            // Tests run in the crate's folder.
            assert_eq!(resolved("Cargo.toml", role), Ok("file Cargo.toml".into()));
            let error = resolved("nosuch", role).unwrap_err();
            assert!(
                matches!(&error, AddressError::Unknown { present, .. } if present.contains(lo))
            );
            assert!(error.is_about_machine(), "{error}");
            for path in ["./lo", "file:lo", "-", "/nosuch/lo"] {
                assert!(resolved(path, role).unwrap().starts_with("file "), "{path}");
            }
        }
        for name in ["nosuch.pcap", "lo.1.pcap", "nosuch.PCAPNG", "x.cap", "x.zst", "x.pcap.lz4"] {
            let file = resolved(&format!("{name}?format=pcap"), Role::Sink);
            assert_eq!(file, Ok(format!("file {name}")));
        }
        assert!(resolved("nosuch.pcap", Role::Source).is_err());
        let vlan = resolved("lo.100", Role::Sink).unwrap_err();
        assert!(vlan.to_string().contains("ip link add link lo name lo.100"), "{vlan}");
        for no_vlan in ["lo.0", "lo.4095", "lo.x", "nosuch.5", "nosuch.pcapng.5"] {
            let error = resolved(no_vlan, Role::Sink).unwrap_err().to_string();
            let mend = format!("; for a new file write file:{no_vlan} or ./{no_vlan}");
            assert!(error.ends_with(&mend), "{error}");
        }
    }
}

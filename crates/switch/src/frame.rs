//! Parses the part of a frame that a switch needs: its addresses and its VLAN.

use crate::Cause;
use crate::port::VlanMode;

/// Bytes of an Ethernet header.
pub(crate) const HEADER: usize = 14;
/// Bytes of a tag.
pub(crate) const TAG: usize = 4;
/// The EtherType of a tag. Source: IEEE 802.1Q, 9.4. Service tags (802.1ad) are not touched.
pub(crate) const TAG_TYPE: [u8; 2] = [0x81, 0];

/// The priority and drop-eligible bits of the 16 bits of a tag.
pub(crate) const PRIORITY: u16 = 0xf000;

/// An admitted frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) vlan: u16,
    /// Its tag, if it has one: priority, and the number of a VLAN or 0.
    pub(crate) tag: Option<u16>,
    /// Whether a second tag follows, which would determine the VLAN without the first.
    pub(crate) has_inner: bool,
}

impl Frame {
    /// Parses a frame that was received on a port.
    ///
    /// # Errors
    /// The cause why the frame is not admitted.
    #[inline]
    pub(crate) fn of(bytes: &[u8], mode: &VlanMode) -> Result<Self, Cause> {
        if bytes.len() < HEADER {
            return Err(Cause::TooShort);
        }
        let has_inner = bytes.get(12..18).is_some_and(|b| b[..2] == TAG_TYPE && b[4..] == TAG_TYPE);
        let tag = match bytes[12..14] == TAG_TYPE {
            false => None,
            true if bytes.len() < HEADER + TAG => return Err(Cause::TooShort),
            true => Some(u16::from_be_bytes([bytes[14], bytes[15]])),
        };
        // A tag of VLAN 0 carries only a priority.
        let tagged = tag.map(|tag| tag & !PRIORITY).filter(|&vlan| vlan != 0);
        let vlan = match (mode, tagged) {
            (VlanMode::Access(own), None) => Some(*own),
            (VlanMode::Access(_), Some(_)) => None,
            (VlanMode::Trunk { native, .. }, None) => *native,
            (VlanMode::Trunk { allowed, .. }, Some(vlan)) => allowed.has(vlan).then_some(vlan),
        };
        // If a priority tag is removed, a tag behind it would determine the VLAN.
        let is_hidden = has_inner && tagged.is_none();
        let vlan = vlan.filter(|_| !is_hidden).ok_or(Cause::Vlan)?;
        let (first, source) = (bytes[6], &bytes[6..12]);
        if first & 1 == 1 || source == [0; 6] {
            return Err(Cause::BadSource);
        }
        Ok(Self { vlan, tag, has_inner })
    }
}

/// Returns whether an address is multicast or broadcast.
#[inline]
pub(crate) fn is_group(destination: &[u8]) -> bool {
    destination[0] & 1 == 1
}

/// Returns whether an address is one that switches must not forward: 01:80:c2:00:00:00 to 0f.
/// Source: IEEE 802.1Q, table 8-1.
#[inline]
pub(crate) fn is_link_local(destination: &[u8]) -> bool {
    destination[..5] == [1, 0x80, 0xc2, 0, 0] && destination[5] & 0xf0 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(tag: Option<u16>) -> Vec<u8> {
        let mut frame = vec![2; 12];
        if let Some(tag) = tag {
            frame.extend(TAG_TYPE);
            frame.extend(tag.to_be_bytes());
        }
        frame.extend([8, 0, 0, 0]);
        frame
    }

    #[test]
    fn a_port_lets_in_what_it_carries_and_says_why_not() {
        let access = VlanMode::Access(5);
        let trunk = VlanMode::Trunk { allowed: [10, 20].into_iter().collect(), native: Some(7) };
        let closed = VlanMode::Trunk { allowed: [10].into_iter().collect(), native: None };
        let of = |tag, mode| Frame::of(&frame(tag), mode);
        let is_in = |vlan, tag| Ok(Frame { vlan, tag, has_inner: false });
        assert_eq!(of(None, &access), is_in(5, None));
        assert_eq!(of(Some(0xe000), &access), is_in(5, Some(0xe000)));
        assert_eq!(of(Some(5), &access), Err(Cause::Vlan), "no hopping, not even home");
        assert_eq!(of(Some(0x2014), &trunk), is_in(20, Some(0x2014)));
        assert_eq!(of(None, &trunk), is_in(7, None));
        assert_eq!(of(Some(7), &trunk), Err(Cause::Vlan), "the native one has no tags");
        assert_eq!(of(Some(30), &trunk), Err(Cause::Vlan));
        assert_eq!(of(None, &closed), Err(Cause::Vlan));
        assert_eq!(Frame::of(&[2; 13], &access), Err(Cause::TooShort));
        assert_eq!(Frame::of(&frame(Some(1))[..16], &access), Err(Cause::TooShort));
        let mut group = frame(None);
        group[6] = 1;
        assert_eq!(Frame::of(&group, &access), Err(Cause::BadSource));
        group[6..12].fill(0);
        assert_eq!(Frame::of(&group, &access), Err(Cause::BadSource));
    }

    #[test]
    fn sixteen_addresses_stay_with_the_switch() {
        assert!(is_link_local(&[1, 0x80, 0xc2, 0, 0, 0x0e]));
        assert!(!is_link_local(&[1, 0x80, 0xc2, 0, 0, 0x10]));
        assert!(is_group(&[0xff; 6]) && !is_group(&[2; 6]));
    }
}

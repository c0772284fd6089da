//! Ends of the switch, and the configuration of a port.

use crate::Quota;

/// The number of a port or a mirror target. It may be reused after the end is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId(pub u16);

impl EndId {
    /// Maximum number of ends of a switch.
    pub const MOST: usize = 1024;

    /// Returns the number as a list index.
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// The configuration of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// The VLANs that the port carries.
    pub vlan: VlanMode,
    /// Its isolation group. Ports of one group do not reach each other.
    pub isolate: Option<String>,
    /// Maximum number of addresses that may send here; frames from others are dropped.
    pub addresses_max: Option<u32>,
    /// Rate limit of frames flooded from this port.
    pub storm: Option<Quota>,
}

impl Default for PortConfig {
    /// Returns a port in VLAN 1, without tags and limits.
    fn default() -> Self {
        Self { vlan: VlanMode::Access(1), isolate: None, addresses_max: None, storm: None }
    }
}

/// The VLANs that a port carries, and whether frames are tagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// One VLAN, untagged. Tagged frames are dropped, except priority-tagged ones.
    Access(u16),
    /// Several VLANs, tagged.
    Trunk {
        /// The VLANs.
        allowed: VlanSet,
        /// The VLAN of untagged frames. If `None`, untagged frames are dropped.
        native: Option<u16>,
    },
}

impl VlanMode {
    /// Returns whether the port carries a VLAN.
    #[inline]
    pub fn carries(&self, vlan: u16) -> bool {
        match self {
            Self::Access(own) => *own == vlan,
            Self::Trunk { allowed, native } => *native == Some(vlan) || allowed.has(vlan),
        }
    }

    /// Returns whether frames of a VLAN leave with a tag.
    #[inline]
    pub fn tags(&self, vlan: u16) -> bool {
        match self {
            Self::Access(_) => false,
            Self::Trunk { native, .. } => *native != Some(vlan),
        }
    }
}

/// A set of VLANs in `[1, 4094]`.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl VlanSet {
    /// The valid VLAN numbers. Source: IEEE 802.1Q, table 9-2.
    pub const RANGE: std::ops::RangeInclusive<u16> = 1..=4094;

    /// Returns the empty set.
    pub fn none() -> Self {
        Self(Box::new([0; 64]))
    }

    /// Returns the set of all VLANs.
    pub fn all() -> Self {
        Self::RANGE.collect()
    }

    /// Returns whether a VLAN is in the set.
    #[inline]
    pub fn has(&self, vlan: u16) -> bool {
        vlan < 4096 && self.0[usize::from(vlan / 64)] >> (vlan % 64) & 1 == 1
    }

    /// Returns the VLANs in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        Self::RANGE.filter(|&vlan| self.has(vlan))
    }

    /// Parses `all`, or numbers and ranges separated by commas: `10,20,100-199`. Returns `None` for
    /// any other text.
    pub fn parse(text: &str) -> Option<Self> {
        if text == "all" {
            return Some(Self::all());
        }
        let mut set = Self::none();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (parse_vlan(first)?, parse_vlan(last)?);
            if first > last {
                return None;
            }
            (first..=last).for_each(|vlan| set.add(vlan));
        }
        Some(set)
    }

    fn add(&mut self, vlan: u16) {
        self.0[usize::from(vlan / 64)] |= 1 << (vlan % 64);
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vlans: I) -> Self {
        let mut set = Self::none();
        vlans.into_iter().filter(|vlan| Self::RANGE.contains(vlan)).for_each(|vlan| set.add(vlan));
        set
    }
}

impl std::fmt::Debug for VlanSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

pub(crate) fn parse_vlan(text: &str) -> Option<u16> {
    let is_number = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = is_number.then(|| text.parse().ok()).flatten()?;
    VlanSet::RANGE.contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_read_as_lists_of_numbers_and_ranges() {
        let set = VlanSet::parse("10,20,4000-4003").unwrap();
        assert_eq!(set.iter().collect::<Vec<_>>(), [10, 20, 4000, 4001, 4002, 4003]);
        assert_eq!(VlanSet::parse("all").unwrap().iter().count(), 4094);
        for wrong in ["", "0", "4095", "5-4", "1,", "1-", "+1", "a", "1-2-3"] {
            assert_eq!(VlanSet::parse(wrong), None, "{wrong}");
        }
        assert!(!set.has(0) && !set.has(u16::MAX));
    }

    #[test]
    fn a_native_vlan_is_carried_without_tags() {
        let trunk = VlanMode::Trunk { allowed: [10].into_iter().collect(), native: Some(7) };
        assert_eq!([7, 10, 11].map(|vlan| trunk.carries(vlan)), [true, true, false]);
        assert_eq!([7, 10].map(|vlan| trunk.tags(vlan)), [false, true]);
        assert!(VlanMode::Access(3).carries(3) && !VlanMode::Access(3).tags(3));
    }
}

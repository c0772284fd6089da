//! Ends of the switch, and how a port is configured.

use crate::Quota;

/// A port, or a target of mirrors: its number, which a later one may get when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EndId(pub u16);

impl EndId {
    /// The most ends that a switch has.
    pub const MOST: usize = 1024;

    /// As the index of lists.
    #[inline]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

/// How a port is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortConfig {
    /// Which VLANs it carries.
    pub vlan: VlanMode,
    /// Ports of one group do not reach each other.
    pub isolate: Option<String>,
    /// The most addresses that may send here: frames of others are not let in.
    pub addresses_max: Option<u32>,
    /// The most frames a second that are flooded from here.
    pub storm: Option<Quota>,
}

impl Default for PortConfig {
    /// In VLAN 1, without tags, and with no limits.
    fn default() -> Self {
        Self { vlan: VlanMode::Access(1), isolate: None, addresses_max: None, storm: None }
    }
}

/// Which VLANs a port carries, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VlanMode {
    /// One, without tags. Tagged frames are not let in, but for those of priority only.
    Access(u16),
    /// Several, with tags.
    Trunk {
        /// Which.
        allowed: VlanSet,
        /// The one whose frames have no tags; without it, frames without tags are not let in.
        native: Option<u16>,
    },
}

impl VlanMode {
    /// Whether it carries a VLAN.
    #[inline]
    pub fn carries(&self, vlan: u16) -> bool {
        match self {
            Self::Access(own) => *own == vlan,
            Self::Trunk { allowed, native } => *native == Some(vlan) || allowed.has(vlan),
        }
    }

    /// Whether frames of a VLAN leave with a tag.
    #[inline]
    pub fn tags(&self, vlan: u16) -> bool {
        match self {
            Self::Access(_) => false,
            Self::Trunk { native, .. } => *native != Some(vlan),
        }
    }
}

/// VLANs, in `[1, 4094]`.
#[derive(Clone, PartialEq, Eq)]
pub struct VlanSet(Box<[u64; 64]>);

impl VlanSet {
    /// The numbers that a VLAN can have. Source: IEEE 802.1Q, table 9-2.
    pub const RANGE: std::ops::RangeInclusive<u16> = 1..=4094;

    /// None.
    pub fn none() -> Self {
        Self(Box::new([0; 64]))
    }

    /// All.
    pub fn all() -> Self {
        Self::RANGE.collect()
    }

    /// Whether a VLAN is one of them.
    #[inline]
    pub fn has(&self, vlan: u16) -> bool {
        vlan < 4096 && self.0[usize::from(vlan / 64)] >> (vlan % 64) & 1 == 1
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        Self::RANGE.filter(|&vlan| self.has(vlan))
    }

    /// Reads `all`, or numbers and ranges with commas between them: `10,20,100-199`. `None`: it is
    /// not like that.
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

/// The number of a VLAN.
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

//! Frame lengths.

use burstline_wire::ethernet::FCS_BYTES;
use burstline_wire::grammar::{Bounds, Quantity};

use crate::{AddressError, Values};

/// The minimum and maximum frame length, including FCS.
const SIZES: std::ops::RangeInclusive<u32> = 64..=65_535;

/// Simple IMIX: 7 frames of 64, 4 of 594, 1 of 1518 bytes.
/// Source: RFC 6985, section 2 and the "Simple IMIX" in common use.
const IMIX: [u32; 12] = [64, 64, 64, 64, 64, 64, 64, 594, 594, 594, 594, 1518];

/// Standard Ethernet sizes. Source: RFC 2544, section 9.1, plus 768 between 512 and 1024.
const RFC2544: [u32; 8] = [64, 128, 256, 512, 768, 1024, 1280, 1518];

/// 9,000 bytes of IP, as supported by most equipment.
const JUMBO: u32 = 9018;

/// A distribution of frame lengths, including FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// One of these, each as likely as its number of occurrences.
    List(Vec<u32>),
    /// A uniform range, inclusive.
    Range(u32, u32),
}

impl Sizes {
    /// Parses the keys `size` and `size-basis`.
    pub(super) fn parse(values: &Values<'_>) -> Result<Self, AddressError> {
        let more = values.word("size-basis", [0, FCS_BYTES])?;
        let value = values.text("size").unwrap_or(if more == 0 { "64" } else { "60" });
        let wrong = || {
            let (least, most) = (SIZES.start() - more, SIZES.end() - more);
            let reason = format!(
                "must be {least}-{most}, a list 64,128, a range random:64-1518, or imix, dma, \
                 article, rfc2544, jumbo"
            );
            values.wrong("size", reason)
        };
        let named = match value {
            "imix" => Some(Self::List(IMIX.to_vec())),
            "rfc2544" => Some(Self::List(RFC2544.to_vec())),
            "jumbo" => Some(Self::List(vec![JUMBO])),
            "dma" => Some(Self::Range(64, 1518)),
            "article" => Some(Self::Range(68, 256)),
            _ => None,
        };
        if let Some(named) = named {
            return Ok(named);
        }
        let size = |text: &str| {
            let bounds = u64::from(SIZES.start() - more)..=u64::from(SIZES.end() - more);
            let size = Bounds::new(Quantity::Size, bounds).read::<u32>(text);
            size.map(|size| size + more).map_err(|_| wrong())
        };
        if let Some(range) = value.strip_prefix("random:") {
            let (least, most) = range.split_once('-').ok_or_else(wrong)?;
            let (least, most) = (size(least)?, size(most)?);
            return if least <= most { Ok(Self::Range(least, most)) } else { Err(wrong()) };
        }
        Ok(Self::List(value.split(',').map(size).collect::<Result<_, _>>()?))
    }

    /// Draws a size from 32 random bits.
    #[inline]
    pub(super) fn draw(&self, chance: u32) -> u32 {
        let below = |count: usize| ((u64::from(chance) * count as u64) >> 32) as usize;
        match self {
            Self::List(sizes) => sizes[below(sizes.len())],
            Self::Range(least, most) => least + below((most - least + 1) as usize) as u32,
        }
    }

    /// Returns the size if there is only one.
    pub(super) fn only(&self) -> Option<u32> {
        match self {
            Self::List(sizes) if sizes.iter().all(|size| *size == sizes[0]) => Some(sizes[0]),
            Self::Range(least, most) if least == most => Some(*least),
            _ => None,
        }
    }

    /// Returns the longest size.
    pub(super) fn longest(&self) -> u32 {
        match self {
            Self::List(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Self::Range(_, most) => *most,
        }
    }

    /// Returns the mean size of frames that have at least `least` bytes each.
    pub(super) fn mean(&self, least: u32) -> f64 {
        let mean = |sizes: &mut dyn Iterator<Item = u32>, count: usize| {
            sizes.map(|size| f64::from(size.max(least))).sum::<f64>() / count as f64
        };
        match self {
            Self::List(sizes) => mean(&mut sizes.iter().copied(), sizes.len()),
            Self::Range(first, last) => mean(&mut (*first..=*last), (last - first + 1) as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, GENERATOR_KEYS};

    fn sizes(text: &str) -> Sizes {
        let address: Address = format!("gen:?{text}").parse().unwrap();
        Sizes::parse(&address.values(GENERATOR_KEYS).unwrap()).unwrap()
    }

    #[test]
    fn lists_ranges_and_names() {
        assert_eq!(sizes(""), Sizes::List(vec![64]));
        assert_eq!(sizes("size=64,128"), Sizes::List(vec![64, 128]));
        assert_eq!(sizes("size=random:64-1518"), sizes("size=dma"));
        assert_eq!(sizes("size=article"), Sizes::Range(68, 256));
        assert_eq!(sizes("size-basis=no-fcs"), Sizes::List(vec![64]));
        assert_eq!(sizes("size-basis=no-fcs&size=random:60-1514"), Sizes::Range(64, 1518));
        assert_eq!((sizes("size=64,64").only(), sizes("size=imix").only()), (Some(64), None));
    }

    #[test]
    fn every_size_of_a_range_and_of_a_list_is_drawn() {
        let range = Sizes::Range(64, 67);
        let drawn: Vec<u32> = (0..4).map(|part| range.draw(part << 30)).collect();
        assert_eq!(drawn, [64, 65, 66, 67]);
        assert_eq!(range.draw(u32::MAX), 67);
        let imix = sizes("size=imix");
        assert_eq!((imix.draw(0), imix.draw(u32::MAX), imix.longest()), (64, 1518, 1518));
    }

    #[test]
    fn means() {
        assert_eq!(sizes("size=random:64-66").mean(0), 65.0);
        assert_eq!(sizes("size=64,128").mean(100), 114.0);
    }
}

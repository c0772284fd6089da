//! PCIe generations, lanes, and their data rates.

use std::fmt;
use std::str::FromStr;

/// A generation of PCI Express.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Generation {
    /// 2.5 GT/s.
    Gen1,
    /// 5 GT/s.
    Gen2,
    /// 8 GT/s.
    Gen3,
    /// 16 GT/s.
    Gen4,
    /// 32 GT/s.
    Gen5,
}

impl Generation {
    /// All generations, oldest first.
    pub const ALL: [Self; 5] = [Self::Gen1, Self::Gen2, Self::Gen3, Self::Gen4, Self::Gen5];

    /// Returns transfers per second of a lane, and its share of data bits.
    /// Source: PCI Express Base Specification 5.0, 4.2.1 (8b/10b) and 4.2.2 (128b/130b).
    fn lane(self) -> (f64, f64) {
        match self {
            Self::Gen1 => (2.5e9, 8.0 / 10.0),
            Self::Gen2 => (5e9, 8.0 / 10.0),
            Self::Gen3 => (8e9, 128.0 / 130.0),
            Self::Gen4 => (16e9, 128.0 / 130.0),
            Self::Gen5 => (32e9, 128.0 / 130.0),
        }
    }

    fn number(self) -> u8 {
        match self {
            Self::Gen1 => 1,
            Self::Gen2 => 2,
            Self::Gen3 => 3,
            Self::Gen4 => 4,
            Self::Gen5 => 5,
        }
    }
}

/// Generation and lanes of a slot: `3.0x8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Signalling rate and encoding.
    pub generation: Generation,
    /// 1, 2, 4, 8 or 16.
    pub lanes: u8,
}

impl Link {
    /// Returns the bit/s in each direction after decoding.
    #[must_use]
    pub fn bits_per_s(&self) -> f64 {
        let (transfers, share) = self.generation.lane();
        transfers * share * f64::from(self.lanes)
    }
}

impl FromStr for Link {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let wrong = "expected a slot's generation and lanes: 2.0x8, 3.0x16, up to 5.0x16";
        let (generation, lanes) = text.split_once('x').ok_or(wrong)?;
        let generation = generation.strip_suffix(".0").unwrap_or(generation);
        let known =
            Generation::ALL.into_iter().find(|known| known.number().to_string() == generation);
        let lanes = lanes.parse().ok().filter(|lanes| [1, 2, 4, 8, 16].contains(lanes));
        known.zip(lanes).map(|(generation, lanes)| Self { generation, lanes }).ok_or(wrong)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.0x{}", self.generation.number(), self.lanes)
    }
}

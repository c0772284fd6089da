//! What to make: the parameters of `gen:`.

use crate::{Address, AddressError};

/// The keys of `gen:`.
const KEYS: &[&str] =
    &["packets", "size", "flows", "rate", "pace", "seed", "protocol", "ip", "vlan", "start"];

/// The shortest and the longest frame, FCS included.
const SIZES: std::ops::RangeInclusive<u32> = 64..=65_535;

/// Simple IMIX: 7 frames of 64, 4 of 594, 1 of 1518 bytes.
/// Source: RFC 6985, section 2 and the "Simple IMIX" in common use.
const IMIX: [u32; 12] = [64, 64, 64, 64, 64, 64, 64, 594, 594, 594, 594, 1518];

/// The most flows: each has a template of about 100 bytes.
const MAX_FLOWS: u32 = 1 << 20;

/// Packets a second of the times of packets, where no rate says otherwise.
const DEFAULT_RATE: u64 = 1_000_000;

/// Which of two kinds a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    First,
    Second,
    Mixed,
}

/// How long frames are, FCS included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Sizes {
    /// One of these, each as often as it is in the list.
    List(Vec<u32>),
    /// Any from the first to the last of these.
    Range(u32, u32),
}

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Recipe {
    /// How many packets; `None` for no end.
    pub(super) packets: Option<u64>,
    pub(super) sizes: Sizes,
    pub(super) flows: u32,
    /// Packets a second of their times.
    pub(super) rate: u64,
    /// Whether they come at their times, or as fast as they are taken.
    pub(super) is_paced: bool,
    pub(super) seed: u64,
    /// UDP or TCP.
    pub(super) protocol: Choice,
    /// IPv4 or IPv6.
    pub(super) ip: Choice,
    pub(super) vlan: Option<u16>,
    /// Time of the first packet, in ns since 1970; `None` for now.
    pub(super) start_ns: Option<u64>,
}

impl Recipe {
    /// Reads the parameters of an address.
    pub(super) fn parse(address: &Address) -> Result<Self, AddressError> {
        address.check_keys(KEYS)?;
        let optional = |key| address.parameter(key).map(|_| address.parsed(key, 0_u64)).transpose();
        let flows = address.parsed("flows", 16)?;
        if !(1..=MAX_FLOWS).contains(&flows) {
            let reason = format!("flows are from 1 to {MAX_FLOWS}");
            return Err(address.bad_value("flows", &flows.to_string(), reason));
        }
        let rate = parse_rate(address)?;
        let vlan = optional("vlan")?;
        if vlan.is_some_and(|vlan| vlan > 4094) {
            let value = address.parameter("vlan").unwrap_or("");
            return Err(address.bad_value("vlan", value, "a VLAN is from 0 to 4094"));
        }
        Ok(Self {
            packets: optional("packets")?,
            sizes: parse_sizes(address)?,
            flows,
            rate: rate.unwrap_or(DEFAULT_RATE),
            is_paced: parse_pace(address, rate.is_some())?,
            seed: address.parsed("seed", 1)?,
            protocol: parse_choice(address, "protocol", ["udp", "tcp"])?,
            ip: parse_choice(address, "ip", ["4", "6"])?,
            vlan: vlan.map(|vlan| vlan as u16),
            start_ns: optional("start")?,
        })
    }
}

impl Sizes {
    /// A size by 32 bits of chance, FCS included.
    #[inline]
    pub(super) fn draw(&self, chance: u32) -> u32 {
        let below = |count: usize| ((u64::from(chance) * count as u64) >> 32) as usize;
        match self {
            Self::List(sizes) => sizes[below(sizes.len())],
            Self::Range(least, most) => least + below((most - least + 1) as usize) as u32,
        }
    }

    /// The longest there is.
    pub(super) fn longest(&self) -> u32 {
        match self {
            Self::List(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Self::Range(_, most) => *most,
        }
    }
}

fn parse_choice(address: &Address, key: &str, of: [&str; 2]) -> Result<Choice, AddressError> {
    match address.parameter(key) {
        None => Ok(Choice::First),
        Some(value) if value == of[0] => Ok(Choice::First),
        Some(value) if value == of[1] => Ok(Choice::Second),
        Some("mix") => Ok(Choice::Mixed),
        Some(value) => {
            Err(address.bad_value(key, value, format!("it is {}, {} or mix", of[0], of[1])))
        }
    }
}

fn parse_pace(address: &Address, default: bool) -> Result<bool, AddressError> {
    match address.parameter("pace") {
        None => Ok(default),
        Some("yes") => Ok(true),
        Some("no") => Ok(false),
        Some(value) => Err(address.bad_value("pace", value, "it is yes or no")),
    }
}

/// Reads `64`, `64,128`, `imix` or `random:64-1518`.
fn parse_sizes(address: &Address) -> Result<Sizes, AddressError> {
    let value = address.parameter("size").unwrap_or("64");
    let reason = "a size is 64 to 65535, FCS included; or 64,128 or imix or random:64-1518";
    let wrong = || address.bad_value("size", value, reason);
    let size = |text: &str| text.parse().ok().filter(|size| SIZES.contains(size)).ok_or_else(wrong);
    if value == "imix" {
        return Ok(Sizes::List(IMIX.to_vec()));
    }
    if let Some(range) = value.strip_prefix("random:") {
        let (least, most) = range.split_once('-').ok_or_else(wrong)?;
        let (least, most) = (size(least)?, size(most)?);
        return if least <= most { Ok(Sizes::Range(least, most)) } else { Err(wrong()) };
    }
    Ok(Sizes::List(value.split(',').map(size).collect::<Result<_, _>>()?))
}

/// Reads `1000`, `14.88M`, `max`. `None` where there is none to keep.
fn parse_rate(address: &Address) -> Result<Option<u64>, AddressError> {
    let Some(value) = address.parameter("rate").filter(|&value| value != "max") else {
        return Ok(None);
    };
    let wrong = || address.bad_value("rate", value, "a rate is packets/s: 500, 1k, 14.88M or max");
    let (digits, factor) = match value.as_bytes().last() {
        Some(b'k') => (&value[..value.len() - 1], 1e3),
        Some(b'M') => (&value[..value.len() - 1], 1e6),
        Some(b'G') => (&value[..value.len() - 1], 1e9),
        _ => (value, 1.0),
    };
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let rate = (number * factor).round();
    if (1.0..=1e9).contains(&rate) { Ok(Some(rate as u64)) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Recipe, AddressError> {
        Recipe::parse(&text.parse().unwrap())
    }

    #[test]
    fn what_is_not_said_has_a_default() {
        let recipe = parse("gen:").unwrap();
        assert_eq!((recipe.packets, recipe.flows, recipe.seed), (None, 16, 1));
        assert_eq!(recipe.sizes, Sizes::List(vec![64]));
        assert!(!recipe.is_paced);
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!(parse("gen:?size=64,128").unwrap().sizes, Sizes::List(vec![64, 128]));
        assert_eq!(parse("gen:?size=random:64-1518").unwrap().sizes, Sizes::Range(64, 1518));
        let recipe = parse("gen:?rate=14.88M").unwrap();
        assert_eq!((recipe.rate, recipe.is_paced), (14_880_000, true));
        assert!(!parse("gen:?rate=1k&pace=no").unwrap().is_paced);
        assert!(!parse("gen:?rate=max").unwrap().is_paced);
    }

    #[test]
    fn every_size_of_a_range_and_of_a_list_is_drawn() {
        let range = Sizes::Range(64, 67);
        let drawn: Vec<u32> = (0..4).map(|part| range.draw(part << 30)).collect();
        assert_eq!(drawn, [64, 65, 66, 67]);
        assert_eq!(range.draw(u32::MAX), 67);
        let imix = Sizes::List(IMIX.to_vec());
        assert_eq!((imix.draw(0), imix.draw(u32::MAX), imix.longest()), (64, 1518, 1518));
    }

    #[test]
    fn nonsense_is_an_error_with_the_value() {
        for query in [
            "size=63",
            "size=65536",
            "size=",
            "size=64,x",
            "size=random:9-8",
            "size=random:64",
            "rate=0",
            "rate=-1",
            "rate=nan",
            "rate=2G",
            "rate=x",
            "rate=",
            "flows=0",
            "flows=9999999",
            "vlan=4095",
            "protocol=sctp",
            "ip=5",
            "pace=1",
            "packets=-1",
        ] {
            let error = parse(&format!("gen:?{query}")).unwrap_err();
            assert!(matches!(error, AddressError::Value { .. }), "{query}: {error}");
        }
        assert!(matches!(parse("gen:?sizes=1"), Err(AddressError::UnknownKey { .. })));
    }
}

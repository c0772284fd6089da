//! Lists and ranges of addresses and numbers.

use std::net::{IpAddr, Ipv6Addr};

use burstline_wire::grammar::{Bounds, Quantity};

/// Values in the order as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pool {
    /// First value and length of each range.
    ranges: Vec<(u128, u128)>,
}

impl Pool {
    /// Creates a pool of `count` values from `first` on; at least one.
    pub(super) fn range(first: u128, count: u128) -> Self {
        Self { ranges: vec![(first, count)] }
    }

    /// Returns the number of values, at least 1, saturating at `u128::MAX`.
    pub(super) fn len(&self) -> u128 {
        self.ranges.iter().fold(0, |sum, range| range.1.saturating_add(sum))
    }

    /// Returns value number `index`, in `[0, len)`.
    pub(super) fn value(&self, mut index: u128) -> u128 {
        for &(first, count) in &self.ranges {
            match index.checked_sub(count) {
                None => return first + index,
                Some(rest) => index = rest,
            }
        }
        self.ranges[0].0
    }

    /// Parses numbers up to `most`: `5`, `1-9`, `1-9,20`.
    pub(super) fn numbers(text: &str, most: u64) -> Option<Self> {
        let bounds = Bounds::new(Quantity::Number, 0..=most);
        let number = |text: &str| bounds.read::<u128>(text).ok();
        Self::parse(text, |item| match item.split_once('-') {
            Some((first, last)) => Some((number(first)?, number(last)?)),
            None => number(item).map(|number| (number, number)),
        })
    }

    /// Parses addresses of one version: `10.0.0.1`, `10.0.0.1-10.0.0.9`, `2001:2::/64`. Also
    /// returns whether it is IPv6.
    pub(super) fn addresses(text: &str) -> Option<(Self, bool)> {
        let mut is_ipv6 = None;
        let mut address = |text: &str| {
            let address: IpAddr = text.parse().ok()?;
            let same = *is_ipv6.get_or_insert(address.is_ipv6()) == address.is_ipv6();
            same.then(|| match address {
                IpAddr::V4(address) => u32::from(address).into(),
                IpAddr::V6(address) => u128::from(address),
            })
        };
        let pool = Self::parse(text, |item| {
            if let Some((first, last)) = item.split_once('-') {
                return Some((address(first)?, address(last)?));
            }
            let Some((network, length)) = item.split_once('/') else {
                return address(item).map(|one| (one, one));
            };
            let network_address = address(network)?;
            let bits = if network.parse::<Ipv6Addr>().is_ok() { 128 } else { 32 };
            let host_bits = u32::checked_sub(bits, length.parse().ok()?)?;
            let hosts = u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
            Some((network_address & !hosts, network_address | hosts))
        })?;
        Some((pool, is_ipv6?))
    }

    fn parse(text: &str, mut range: impl FnMut(&str) -> Option<(u128, u128)>) -> Option<Self> {
        let mut ranges = Vec::new();
        for item in text.split(',') {
            let (first, last) = range(item)?;
            ranges.push((first, last.checked_sub(first)?.saturating_add(1)));
        }
        Some(Self { ranges })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_in_order() {
        let pool = Pool::numbers("5,1-3,65535", 65_535).unwrap();
        let values: Vec<u128> = (0..pool.len()).map(|index| pool.value(index)).collect();
        assert_eq!(values, [5, 1, 2, 3, 65_535]);
        for wrong in ["", "3-1", "1,,2", "65536", "-1", "x"] {
            assert_eq!(Pool::numbers(wrong, 65_535), None, "{wrong}");
        }
    }

    #[test]
    fn addresses_of_one_version() {
        let (pool, is_ipv6) = Pool::addresses("10.0.0.4/30,10.9.9.9,10.1.0.1-10.1.1.0").unwrap();
        assert_eq!((pool.len(), is_ipv6), (4 + 1 + 256, false));
        let address = |index| std::net::Ipv4Addr::from(pool.value(index) as u32).to_string();
        assert_eq!([0, 3, 4, 260].map(address), ["10.0.0.4", "10.0.0.7", "10.9.9.9", "10.1.1.0"]);
        let (pool, is_ipv6) = Pool::addresses("2001:2::/64").unwrap();
        assert_eq!((pool.len(), is_ipv6), (1 << 64, true));
        assert_eq!(Pool::addresses("::/0").unwrap().0.len(), u128::MAX);
        for wrong in ["10.0.0.1,::1", "10.0.0.9-10.0.0.1", "10.0.0.0/33", "a", "", "1.2.3.4/"] {
            assert_eq!(Pool::addresses(wrong), None, "{wrong}");
        }
    }
}

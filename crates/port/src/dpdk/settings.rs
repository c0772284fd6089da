//! From an address to the options of device and EAL.

use burstline_dpdk::{BURST_MOST, DeviceOptions, EalOptions, Rss};
use burstline_wire::hash::{HashKind, MICROSOFT_KEY, SYMMETRIC_KEY};

use crate::live::{WAIT_KEY, wait_ns};
use crate::{Address, AddressError};

const KEYS: &[&str] = &[
    "queues",
    "burst",
    "ring",
    "mtu",
    "pool",
    "node",
    "checksums",
    "rss",
    "timestamps",
    "huge",
    "memory",
    "eal",
    WAIT_KEY,
];

/// Packets that are asked for at once: half of what the first cache has room for with their
/// headers, and enough to share a call's fixed costs.
const BURST: u16 = 64;

/// Descriptors of a queue.
const RING: u16 = 1024;

/// The key of `rss=on`, and of `rss=symmetric`: those that the job's hash kinds go by.
const ON: Rss = Rss::Keyed(MICROSOFT_KEY);
const SYMMETRIC: Rss = Rss::Keyed(SYMMETRIC_KEY);

/// What an address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) device: DeviceOptions,
    pub(super) eal: EalOptions,
    pub(super) burst: u16,
    pub(super) wait_ns: u64,
}

/// Reads the parameters of `address`.
pub(super) fn parse(address: &Address) -> Result<Settings, AddressError> {
    address.check_keys(KEYS)?;
    if address.target().is_empty() {
        let reason = "a device is named, for example dpdk:net_null0 or dpdk:0000:00:05.0";
        return Err(address.bad_value("device", "", reason));
    }
    let switch = [("yes", true), ("no", false)];
    let spreading = [("on", ON), ("symmetric", SYMMETRIC), ("off", Rss::Off)];
    let clocks = [("device", true), ("poll", false)];
    let huge = address.parameter("huge").map(|_| address.choice("huge", &switch, true));
    let words = address.parameter("eal").unwrap_or_default().split_whitespace();
    Ok(Settings {
        device: DeviceOptions {
            devargs: address.target().to_owned(),
            queues: within(address, "queues", 1, 1..=64)?,
            ring: within(address, "ring", RING, 32..=32768)?,
            mtu: given(address, "mtu", 68..=65_000)?,
            mbufs: given(address, "pool", 64..=8_388_607)?,
            checksums: address.choice("checksums", &switch, false)?,
            rss: address.choice("rss", &spreading, Rss::default())?,
            times: address.choice("timestamps", &clocks, false)?,
            node: given(address, "node", 0..=31)?,
        },
        eal: EalOptions {
            huge: huge.transpose()?,
            memory_mib: given(address, "memory", 16..=1_048_576)?,
            arguments: words.map(str::to_owned).collect(),
        },
        burst: within(address, "burst", BURST, 1..=BURST_MOST as u16)?,
        wait_ns: wait_ns(address)?,
    })
}

/// The kind of hash that a device computes which spreads packets so.
pub(super) fn hash_kind(rss: Rss) -> Option<HashKind> {
    match rss {
        ON => Some(HashKind::Rss),
        SYMMETRIC => Some(HashKind::RssSymmetric),
        _ => None,
    }
}

/// A number within a range, or `default` where none is given.
fn within<T: Number>(
    address: &Address,
    key: &str,
    default: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, AddressError> {
    Ok(given(address, key, range)?.unwrap_or(default))
}

trait Number: Copy + PartialOrd + std::fmt::Display + TryFrom<u64> {}
impl Number for u16 {}
impl Number for u32 {}

fn given<T: Number>(
    address: &Address,
    key: &str,
    range: std::ops::RangeInclusive<T>,
) -> Result<Option<T>, AddressError> {
    let Some(text) = address.parameter(key) else { return Ok(None) };
    let number = T::try_from(address.parsed(key, 0_u64)?).ok();
    let reason = || format!("a number from {} to {}", range.start(), range.end());
    let number = number.filter(|number| range.contains(number));
    number.map(Some).ok_or_else(|| address.bad_value(key, text, reason()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Settings, AddressError> {
        parse(&text.parse().unwrap())
    }

    #[test]
    fn every_key_has_its_effect() {
        let text = "dpdk:net_pcap0,rx_pcap=a.pcap?queues=2&burst=32&ring=512&mtu=9000&pool=4095\
                    &node=1&checksums=yes&rss=symmetric&timestamps=device\
                    &huge=no&memory=64&eal=--iova-mode=va -n 2&wait_ms=5";
        let expected = Settings {
            device: DeviceOptions {
                devargs: "net_pcap0,rx_pcap=a.pcap".to_owned(),
                queues: 2,
                ring: 512,
                mtu: Some(9000),
                mbufs: Some(4095),
                checksums: true,
                rss: SYMMETRIC,
                times: true,
                node: Some(1),
            },
            eal: EalOptions {
                huge: Some(false),
                memory_mib: Some(64),
                arguments: ["--iova-mode=va", "-n", "2"].map(str::to_owned).to_vec(),
            },
            burst: 32,
            wait_ns: 5_000_000,
        };
        assert_eq!(parsed(text).unwrap(), expected);
        let card = parsed("dpdk:0000:00:05.0").unwrap();
        assert_eq!((card.device.devargs.as_str(), card.device.queues), ("0000:00:05.0", 1));
        assert_eq!(card.eal, EalOptions::default());
        assert_eq!((card.device.rss, card.device.times), (Rss::AsItCan, false));
        let rss = ["on", "symmetric", "off"].map(|rss| parsed(&format!("dpdk:a?rss={rss}")));
        let kinds = rss.map(|settings| hash_kind(settings.unwrap().device.rss));
        assert_eq!(kinds, [Some(HashKind::Rss), Some(HashKind::RssSymmetric), None]);
    }

    #[test]
    fn bad_values_are_named() {
        for (text, reason) in [
            ("dpdk:", "a device is named"),
            ("dpdk:net_null0?queues=0", "a number from 1 to 64"),
            ("dpdk:net_null0?burst=257", "a number from 1 to 256"),
            ("dpdk:net_null0?mtu=70000", "a number from 68 to 65000"),
            ("dpdk:net_null0?huge=2", "one of yes, no"),
            ("dpdk:net_null0?pool=x", "invalid digit"),
            ("dpdk:net_null0?rss=yes", "one of on, symmetric, off"),
            ("dpdk:net_null0?timestamps=kernel", "one of device, poll"),
            ("dpdk:net_null0?rings=1", "knows no 'rings'"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

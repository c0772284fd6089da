//! Parses an address into the options of device and EAL.

use burstline_dpdk::{DeviceOptions, EalOptions, Rss};
use burstline_wire::hash::{HashKind, MICROSOFT_KEY, SYMMETRIC_KEY};

use super::KEYS;
use crate::live::wait_ns;
use crate::{Address, AddressError};

/// The keys of `rss=on` and `rss=symmetric`, as used by the job's hash kinds.
const ON: Rss = Rss::Keyed(MICROSOFT_KEY);
const SYMMETRIC: Rss = Rss::Keyed(SYMMETRIC_KEY);

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) device: DeviceOptions,
    pub(super) eal: EalOptions,
    pub(super) burst: u16,
    pub(super) wait_ns: u64,
}

/// Parses the parameters of `address`.
pub(super) fn parse(address: &Address) -> Result<Settings, AddressError> {
    let values = address.values(KEYS)?;
    if address.target().is_empty() {
        let reason = "expected a device's name, e.g. dpdk:net_null0 or dpdk:0000:00:05.0";
        return Err(address.bad_value("device", "", reason));
    }
    let words = values.text("eal").unwrap_or_default().split_whitespace();
    Ok(Settings {
        device: DeviceOptions {
            devargs: address.target().to_owned(),
            queues: values.integer("queues")?,
            ring: values.integer("ring")?,
            mtu: values.typed_integer("mtu")?,
            mbufs: values.typed_integer("pool")?,
            checksums: values.switch("checksums")?,
            rss: values.typed_word("rss", [ON, SYMMETRIC, Rss::Off])?.unwrap_or_default(),
            times: values.word("timestamps", [true, false])?,
            node: values.typed_integer("node")?,
        },
        eal: EalOptions {
            huge: values.typed_switch("huge")?,
            memory_mib: values.typed_integer("memory")?,
            arguments: words.map(str::to_owned).collect(),
        },
        burst: values.integer("burst")?,
        wait_ns: wait_ns(&values)?,
    })
}

/// Returns the kind of hash that a device computes with this RSS setting.
pub(super) fn hash_kind(rss: Rss) -> Option<HashKind> {
    match rss {
        ON => Some(HashKind::Rss),
        SYMMETRIC => Some(HashKind::RssSymmetric),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Settings, AddressError> {
        parse(&text.parse().unwrap())
    }

    #[test]
    fn a_burst_is_as_long_as_a_receiver_takes() {
        let most = format!("dpdk:net_null0?burst={}", burstline_dpdk::BURST_MOST);
        assert_eq!(usize::from(parsed(&most).unwrap().burst), burstline_dpdk::BURST_MOST);
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
            ("dpdk:", "expected a device's name"),
            ("dpdk:net_null0?queues=0", "must be 1-64"),
            ("dpdk:net_null0?burst=257", "must be 1-256"),
            ("dpdk:net_null0?mtu=70000", "must be 68-65000"),
            ("dpdk:net_null0?huge=2", "one of yes, no"),
            ("dpdk:net_null0?pool=x", "expected an integer"),
            ("dpdk:net_null0?rss=yes", "one of on, symmetric, off"),
            ("dpdk:net_null0?timestamps=kernel", "one of device, poll"),
            ("dpdk:net_null0?rings=1", "has no key 'rings'"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

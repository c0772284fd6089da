//! Work that a device can do for us: hashes, checksums, timestamps.
//!
//! ```text
//!   requested ──► what the device offers ──► configure, start ──► what the driver reports
//!        └ refused here, in a line                └ a key that was not applied: set again
//! ```
//!
//! **Hash.** Receive-side scaling (RSS) spreads packets over queues by a hash of addresses and
//! ports, so that a flow stays in one queue. The Toeplitz hash depends only on the key and the
//! packet. So if the device uses our key and reports each packet's hash, we need not compute it
//! again. We rely on that only for TCP and UDP, and only if the device hashes the ports of both:
//! for other packets, devices differ in what they hash.
//!
//! **Time.** DPDK has a field for a packet's time, and leaves its unit and epoch to the driver.
//! Times of unknown units are not used.

use std::fmt;

use crate::error::DpdkError;
use crate::ffi;
use crate::log_text::reason;
use crate::options::{DeviceOptions, RSS_KEY_BYTES, Rss};

/// Drivers whose timestamps have a known unit: ns per unit, since 1970. Source: `eth_pcap_rx`,
/// drivers/net/pcap/pcap_ethdev.c of DPDK 22.11.
const CLOCKS: [(&str, u64); 1] = [("net_pcap", 1_000)];

/// How a device spreads packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spreading {
    /// Bits of `SHIM_RSS_*`.
    functions: u32,
    /// Whether the key is the requested one.
    pub has_our_key: bool,
    /// Whether the device reports each packet's hash.
    pub has_hashes: bool,
    /// Whether the driver confirms all this; otherwise it is what we requested.
    pub is_told: bool,
}

/// The offloads of a started device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offloads {
    /// Bits of `SHIM_SUM_*`: checksums that it checks.
    checksums: u8,
    /// How it spreads packets over queues by a hash. `None` if it does not.
    pub rss: Option<Spreading>,
    /// Whether it timestamps packets.
    pub times: bool,
    /// Whether a packet may come in several mbufs.
    pub scatter: bool,
    /// Whether it sends packets of several mbufs.
    pub segments: bool,
    /// ns per unit of its timestamps, since 1970.
    time_unit_ns: u64,
}

impl Spreading {
    /// Whether reported hashes use our key over addresses and ports.
    pub fn tells_our_hash(&self) -> bool {
        let ports = ffi::RSS_TCP | ffi::RSS_UDP;
        self.has_our_key && self.has_hashes && self.functions & ports == ports
    }
}

impl fmt::Display for Spreading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = [(ffi::RSS_IP, "ip"), (ffi::RSS_TCP, "tcp"), (ffi::RSS_UDP, "udp")];
        write!(f, "rss of {}", names_of(names, |function| self.functions & function != 0))?;
        f.write_str(if self.has_our_key { " by our key" } else { " by the driver's key" })?;
        f.write_str(if self.has_hashes { ", hashes reported" } else { "" })?;
        f.write_str(if self.is_told { "" } else { " (the driver does not confirm it)" })
    }
}

/// Returns the names of the enabled ones, separated by spaces.
fn names_of<T>(all: [(T, &str); 3], is_on: impl Fn(T) -> bool) -> String {
    let on = all.into_iter().filter_map(|(bit, name)| is_on(bit).then_some(name));
    on.collect::<Vec<&str>>().join(" ")
}

/// The enabled offloads, separated by commas, or `none`.
impl fmt::Display for Offloads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut on: Vec<String> = self.rss.iter().map(Spreading::to_string).collect();
        let sums = [(ffi::SUM_IP, "ip"), (ffi::SUM_TCP, "tcp"), (ffi::SUM_UDP, "udp")];
        let sums = names_of(sums, |sum| self.checksums & sum != 0);
        on.extend((!sums.is_empty()).then(|| format!("checksums of {sums}")));
        for (is_on, name) in [
            (self.times, "times"),
            (self.scatter, "scattered receive"),
            (self.segments, "segmented send"),
        ] {
            on.extend(is_on.then(|| name.to_owned()));
        }
        f.write_str(if on.is_empty() { "none".to_owned() } else { on.join(", ") }.as_str())
    }
}

impl Offloads {
    /// Converts a device's timestamp to ns since 1970.
    #[inline]
    pub fn time_ns(&self, told: u64) -> u64 {
        told.saturating_mul(self.time_unit_ns)
    }
}

/// Requested offloads, which were checked against the device's offers.
pub(crate) struct Asked {
    offers: ffi::Offers,
    keyed: Option<ffi::Rss>,
    is_spreading: bool,
    time_unit_ns: Option<u64>,
}

impl Asked {
    /// Checks the options against the offers of a probed device. `driver` is its name.
    pub(crate) fn of(port: u16, driver: &str, options: &DeviceOptions) -> Result<Self, DpdkError> {
        let mut offers = ffi::Offers::default();
        // SAFETY: `offers` is written only during the call.
        let code = unsafe { ffi::shim_offers(port, &mut offers) };
        if code != 0 {
            return Err(refusal(options, "report its offloads", reason(code)));
        }
        let keyed = match options.rss {
            Rss::Keyed(key) => Some(keyed(&offers, driver, options, &key)?),
            Rss::AsItCan | Rss::Off => None,
        };
        let is_wanted = options.queues > 1 && options.rss == Rss::AsItCan;
        let time_unit_ns = match options.times {
            true => Some(time_unit(&offers, driver, options)?),
            false => None,
        };
        let is_spreading = keyed.is_some() || (is_wanted && offers.rss != 0);
        Ok(Self { offers, keyed, is_spreading, time_unit_ns })
    }

    /// Enters the requests into a plan, with a pointer to the key.
    pub(crate) fn enter_into(&self, plan: &mut ffi::Plan) {
        plan.rss = self.is_spreading.into();
        plan.hash = u8::from(self.keyed.is_some() && self.offers.has_hash != 0);
        plan.times = self.time_unit_ns.is_some().into();
        plan.keyed = self.keyed.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    }

    /// Returns the offloads of a device that was started by `plan`.
    pub(crate) fn settle(
        &self,
        raw: &ffi::Device,
        plan: &ffi::Plan,
        options: &DeviceOptions,
    ) -> Result<Offloads, DpdkError> {
        if self.time_unit_ns.is_some() {
            // SAFETY: EAL runs.
            let code = unsafe { ffi::shim_times_start() };
            if code != 0 {
                return Err(refusal(options, "stamp packets", reason(code)));
            }
        }
        let rss = match self.is_spreading {
            true => Some(self.spreading(raw.port, plan, options)?),
            false => None,
        };
        Ok(Offloads {
            checksums: if plan.checksum != 0 { raw.checksums } else { 0 },
            rss,
            times: self.time_unit_ns.is_some(),
            scatter: plan.scatter != 0,
            segments: raw.has_segments != 0,
            time_unit_ns: self.time_unit_ns.unwrap_or(0),
        })
    }

    /// Returns what the driver reports, after setting the requested key if necessary.
    fn spreading(
        &self,
        port: u16,
        plan: &ffi::Plan,
        options: &DeviceOptions,
    ) -> Result<Spreading, DpdkError> {
        let refused = |why| refusal(options, "set our RSS key", why);
        let has_hashes = plan.hash != 0;
        let Some(mut now) = told(port, self.offers.key_bytes) else {
            let (functions, has_our_key) = (self.offers.rss, self.keyed.is_some());
            return Ok(Spreading { functions, has_our_key, has_hashes, is_told: false });
        };
        let Some(wanted) = &self.keyed else {
            let functions = now.functions;
            return Ok(Spreading { functions, has_our_key: false, has_hashes, is_told: true });
        };
        if now.key != wanted.key {
            // SAFETY: `wanted` lives for the call.
            let code = unsafe { ffi::shim_rss_change(port, wanted) };
            if code != 0 {
                return Err(refused(reason(code)));
            }
            let again = told(port, wanted.key_bytes).filter(|again| again.key == wanted.key);
            now = again.ok_or_else(|| refused("its driver keeps another key".to_owned()))?;
        }
        let functions = now.functions;
        Ok(Spreading { functions, has_our_key: true, has_hashes, is_told: true })
    }
}

/// Asks the driver for hash functions and key. `None` if it does not report them; many drivers have
/// no such call.
fn told(port: u16, key_bytes: u8) -> Option<ffi::Rss> {
    let mut rss = ffi::Rss { key_bytes, ..ffi::Rss::default() };
    // SAFETY: `rss` is written only during the call, and has room for any key.
    let code = unsafe { ffi::shim_rss_told(port, &mut rss) };
    (code == 0).then_some(rss)
}

fn refusal(options: &DeviceOptions, action: &'static str, reason: String) -> DpdkError {
    DpdkError::Device { device: options.devargs.clone(), action, reason }
}

fn keyed(
    offers: &ffi::Offers,
    driver: &str,
    options: &DeviceOptions,
    key: &[u8; RSS_KEY_BYTES],
) -> Result<ffi::Rss, DpdkError> {
    let refused = |why| Err(refusal(options, "spread packets by a hash", why));
    let bytes = usize::from(offers.key_bytes);
    if offers.rss == 0 {
        return refused(format!("{driver} cannot: leave out rss="));
    }
    if !(RSS_KEY_BYTES..=ffi::KEY_MOST).contains(&bytes) {
        return refused(format!("{driver} has keys of {bytes} bytes: leave out rss="));
    }
    let mut rss = ffi::Rss { key_bytes: offers.key_bytes, ..ffi::Rss::default() };
    rss.key[..RSS_KEY_BYTES].copy_from_slice(key);
    Ok(rss)
}

fn time_unit(
    offers: &ffi::Offers,
    driver: &str,
    options: &DeviceOptions,
) -> Result<u64, DpdkError> {
    let known = CLOCKS.iter().find(|(name, _)| *name == driver);
    known.map(|(_, unit_ns)| *unit_ns).ok_or_else(|| {
        let why = match offers.has_times {
            0 => "cannot",
            _ => "has its own clock, whose unit is unknown here",
        };
        let why = format!("{driver} {why}: leave out timestamps=device");
        refusal(options, "stamp packets", why)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_on_is_said_and_whose_hash_it_is() {
        assert_eq!(Offloads::default().to_string(), "none");
        let spreading = Spreading {
            functions: ffi::RSS_IP | ffi::RSS_TCP | ffi::RSS_UDP,
            has_our_key: true,
            has_hashes: true,
            is_told: true,
        };
        let checksums = ffi::SUM_UDP | ffi::SUM_TCP;
        let on = Offloads { checksums, rss: Some(spreading), times: true, ..Offloads::default() };
        let said = "rss of ip tcp udp by our key, hashes reported, checksums of tcp udp, times";
        assert_eq!(on.to_string(), said);
        assert!(spreading.tells_our_hash());
        for other in [
            Spreading { functions: ffi::RSS_IP | ffi::RSS_TCP, ..spreading },
            Spreading { has_our_key: false, ..spreading },
            Spreading { has_hashes: false, ..spreading },
        ] {
            assert!(!other.tells_our_hash(), "{other}");
        }
        let unsure =
            Spreading { has_our_key: false, has_hashes: false, is_told: false, ..spreading };
        let said = "rss of ip tcp udp by the driver's key (the driver does not confirm it)";
        assert_eq!(unsure.to_string(), said);
    }
}

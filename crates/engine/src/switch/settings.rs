//! Separates the switch's keys from the other keys of a port's address.

use std::str::FromStr;

use burstline_port::{Address, AddressError, Key, PortError};
use burstline_switch::{PortConfig, VlanMode, VlanSet, parse_quota};

/// The keys for any port of a switch, in addition to those of its scheme.
pub const SWITCH_KEYS: &[Key] = &[
    Key::number("vlan", 1..=4094, "The VLAN of a port without tags [default: 1]"),
    Key::text("trunk", "LIST|all", "The VLANs of a port with tags: 10,20-29"),
    Key::number("native", 1..=4094, "The VLAN of a trunk's frames without tags [default: none]"),
    Key::text("isolate", "GROUP", "Ports of one group do not reach each other"),
    Key::number("security", 1..=1 << 20, "Maximum number of source addresses on the port"),
    Key::text("storm", "RATE", "Rate limit for packets flooded from the port: 500, 10Mbit"),
    Key::text("mirror", "TARGET", "A sink or a port that gets a copy of both directions"),
];

/// A port of a switch, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchPort {
    /// Its address, without the switch's keys.
    pub address: Address,
    /// Its configuration in the switch.
    pub config: PortConfig,
    /// The mirror target for both directions.
    pub mirror: Option<String>,
}

impl FromStr for SwitchPort {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let whole: Address = text.parse()?;
        let is_ours = |name: &str| SWITCH_KEYS.iter().any(|key| key.name == name);
        let values = whole.without(|key| !is_ours(key));
        // Parse from the whole address, so that errors name the port as typed.
        let values = values.values(SWITCH_KEYS)?;
        let vlan: Option<u16> = values.typed_integer("vlan")?;
        let native: Option<u16> = values.typed_integer("native")?;
        let vlan = match values.text("trunk") {
            None if native.is_some() => return Err(values.wrong("native", "it needs trunk=LIST")),
            None => VlanMode::Access(vlan.unwrap_or(1)),
            Some(_) if vlan.is_some() => {
                return Err(values.wrong("vlan", "a trunk has native=N instead"));
            }
            Some(list) => {
                let reason = "VLANs from 1 to 4094, like 10,20-29, or all";
                let allowed = VlanSet::parse(list).ok_or_else(|| values.wrong("trunk", reason))?;
                VlanMode::Trunk { allowed, native }
            }
        };
        let storm = values.text("storm").map(parse_quota).transpose();
        let config = PortConfig {
            vlan,
            isolate: values.text("isolate").map(str::to_owned),
            addresses_max: values.typed_integer("security")?,
            storm: storm.map_err(|reason| values.wrong("storm", reason))?,
        };
        let mirror = values.text("mirror").map(str::to_owned);
        let is_plain = !whole.parameters().iter().any(|(key, _)| is_ours(key));
        let address = if is_plain { whole.clone() } else { whole.without(is_ours) };
        Ok(Self { address, config, mirror })
    }
}

impl SwitchPort {
    /// Returns the port's name: its address without parameters.
    ///
    /// # Errors
    /// If the address has no scheme and names no interface.
    pub fn name(&self) -> Result<String, PortError> {
        Ok(self.address.port_name()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(text: &str) -> SwitchPort {
        text.parse().unwrap()
    }

    #[test]
    fn the_switchs_keys_are_split_off() {
        let all = port("tap:a?mtu=9000&vlan=10&isolate=g&security=3&storm=500&mirror=log:x");
        assert_eq!(all.address.to_string(), "tap:a?mtu=9000");
        assert_eq!(all.name().unwrap(), "tap:a");
        assert_eq!(all.config.vlan, VlanMode::Access(10));
        assert_eq!((all.config.isolate.as_deref(), all.config.addresses_max), (Some("g"), Some(3)));
        assert_eq!(all.config.storm.unwrap().per_s, 500.0);
        assert_eq!(all.mirror.as_deref(), Some("log:x"));
        let trunk = port("xdp:e?trunk=10,20&native=7");
        let allowed = [10, 20].into_iter().collect();
        assert_eq!(trunk.config.vlan, VlanMode::Trunk { allowed, native: Some(7) });
        assert_eq!(port("tap:a").config, PortConfig::default());
    }

    #[test]
    fn what_contradicts_itself_is_named() {
        for (text, reason) in [
            ("tap:a?native=5", "it needs trunk=LIST"),
            ("tap:a?trunk=5&vlan=6", "a trunk has native=N instead"),
            ("tap:a?trunk=5-3", "VLANs from 1 to 4094"),
            ("tap:a?vlan=4095", "must be 1-4094"),
            ("tap:a?storm=fast", "expected packets/s"),
            ("tap:a?security=0", "must be 1-1048576"),
        ] {
            let error = text.parse::<SwitchPort>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.starts_with("tap:a?"), "{text}: {error}");
        }
    }
}

//! Parses an address into the device's options.

use burstline_sys::tap::{QUEUES_MAX, TapOptions};

use crate::live::WAIT;
use crate::{AddressError, Key, Values};

const QUEUES: Key = Key::number(
    "queues",
    1..=QUEUES_MAX as u64,
    "Queues of the device; the kernel chooses one by a packet's flow",
)
.or("1");

const OFFLOADS: Key = Key::switch(
    "offloads",
    "Whether to take and send packets of up to 64 KiB without checksums, as the host's stack does",
)
.or("no");

const PERSIST: Key =
    Key::switch("persist", "Whether the device stays when the program ends").alone().or("no");

/// Source: `MIN_MTU` and `MAX_MTU`, drivers/net/tun.c; IPv4 needs at least 68.
const MTU: Key = Key::number("mtu", 68..=65_521, "The interface's MTU [default: unchanged]");

const DEPTH: Key = Key::number("depth", 1..=65_536, "Packets that fit in each queue").or("4096");

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[QUEUES, OFFLOADS, PERSIST, MTU, DEPTH];

/// The keys of a sink's address.
pub(crate) const SINK_KEYS: &[Key] = &[QUEUES, OFFLOADS, PERSIST, MTU, DEPTH, WAIT];

/// Parses the parameters of an address.
pub(super) fn parse(values: &Values<'_>) -> Result<TapOptions, AddressError> {
    Ok(TapOptions {
        queues: values.integer("queues")?,
        passes_offloads: values.switch("offloads")?,
        is_persistent: values.switch("persist")?,
        mtu: values.typed_integer("mtu")?,
        depth: values.integer("depth")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn parsed(query: &str) -> Result<TapOptions, AddressError> {
        let address: Address = format!("tap:t0?{query}").parse()?;
        parse(&address.values(KEYS)?)
    }

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let options = parsed("queues=4&offloads=on&persist&mtu=9000&depth=64").unwrap();
        let expected = TapOptions {
            queues: 4,
            passes_offloads: true,
            is_persistent: true,
            mtu: Some(9000),
            depth: 64,
        };
        assert_eq!(options, expected);
        assert_eq!(parsed("").unwrap(), TapOptions::default());
        for (query, reason) in [
            ("queues=0", "must be 1-16"),
            ("mtu=60", "must be 68-65521"),
            ("offloads=1", "one of yes, no, on, off"),
            ("wait_ms=1", "has no key 'wait_ms'"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

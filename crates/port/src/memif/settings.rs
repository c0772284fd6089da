//! Parses an address into the device's options.

use burstline_memif::{DeviceOptions, LOG2_SLOTS_MAX, QUEUES_MAX};

use crate::live::WAIT;
use crate::{AddressError, Key, Values};

const QUEUES: Key =
    Key::number("queues", 1..=QUEUES_MAX as u64, "Pairs of queues; each flow uses only one pair")
        .or("1");

const CLIENT: Key = Key::switch(
    "client",
    "Whether to connect to a server at the socket, with retries, and to provide the memory",
)
.alone()
.or("no");

const ID: Key =
    Key::number("id", 0..=u32::MAX as u64, "The interface's number, the same at both ends").or("0");

const RING: Key = Key::number(
    "ring",
    8..=1 << LOG2_SLOTS_MAX,
    "Slots of a client's ring, a power of two; a server uses the client's size",
)
.or("1024");

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[QUEUES, CLIENT, ID, RING];

/// The keys of a sink's address.
pub(crate) const SINK_KEYS: &[Key] = &[QUEUES, CLIENT, ID, RING, WAIT];

/// Parses the parameters of an address.
pub(super) fn parse(values: &Values<'_>) -> Result<DeviceOptions, AddressError> {
    let slots: u32 = values.integer("ring")?;
    if !slots.is_power_of_two() {
        return Err(values.wrong("ring", "must be a power of two from 8 to 16384"));
    }
    Ok(DeviceOptions {
        queues: values.integer("queues")?,
        is_client: values.switch("client")?,
        id: values.integer("id")?,
        log2_slots: slots.trailing_zeros() as u8,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn parsed(query: &str) -> Result<DeviceOptions, AddressError> {
        let address: Address = format!("memif:/run/a{query}").parse()?;
        parse(&address.values(KEYS)?)
    }

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let all = DeviceOptions { queues: 4, is_client: true, id: 7, log2_slots: 8 };
        assert_eq!(parsed("?queues=4&client&id=7&ring=256").unwrap(), all);
        let none = DeviceOptions { queues: 1, is_client: false, id: 0, log2_slots: 10 };
        assert_eq!(parsed("").unwrap(), none);
        for (query, reason) in [
            ("?queues=0", "must be 1-16"),
            ("?ring=100", "a power of two from 8 to 16384"),
            ("?ring=4", "must be 8-16384"),
            ("?wait_ms=1", "has no key 'wait_ms'"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

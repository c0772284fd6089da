//! Parses an address into the device's options.

use burstline_vhost::{DeviceOptions, QUEUES_MAX};

use crate::live::WAIT;
use crate::{AddressError, Key, Values};

const QUEUES: Key = Key::number(
    "queues",
    1..=QUEUES_MAX as u64,
    "Pairs of queues that the guest may use; all packets of a flow go to the same pair",
)
.or("1");

const CLIENT: Key = Key::switch(
    "client",
    "Whether to connect to a guest that listens at the socket, with retries, instead of \
     listening for one",
)
.alone()
.or("no");

const OFFLOADS: Key = Key::switch(
    "offloads",
    "Whether to take and send packets of up to 64 KiB without checksums, as the guest's stack does",
)
.or("no");

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[QUEUES, CLIENT, OFFLOADS];

/// The keys of a sink's address.
pub(crate) const SINK_KEYS: &[Key] = &[QUEUES, CLIENT, OFFLOADS, WAIT];

/// Parses the parameters of an address.
pub(super) fn parse(values: &Values<'_>) -> Result<DeviceOptions, AddressError> {
    Ok(DeviceOptions {
        pairs: values.integer("queues")?,
        is_client: values.switch("client")?,
        passes_offloads: values.switch("offloads")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn parsed(query: &str) -> Result<DeviceOptions, AddressError> {
        let address: Address = format!("vhost:/run/a{query}").parse()?;
        parse(&address.values(KEYS)?)
    }

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let all = DeviceOptions { pairs: 4, is_client: true, passes_offloads: true };
        assert_eq!(parsed("?queues=4&client&offloads=on").unwrap(), all);
        let none = DeviceOptions { pairs: 1, is_client: false, passes_offloads: false };
        assert_eq!(parsed("").unwrap(), none);
        for (query, reason) in [
            ("?queues=0", "must be 1-16"),
            ("?offloads=1", "one of yes, no, on, off"),
            ("?wait_ms=1", "has no key 'wait_ms'"),
        ] {
            let error = parsed(query).unwrap_err().to_string();
            assert!(error.contains(reason), "{query}: {error}");
        }
    }
}

//! Ports that both receive and send: a source and a sink for one address.
//!
//! ```text
//!  tap:a?mtu=9000&wait_ms=5      source  tap:a?mtu=9000            each half has the keys that it
//!                                sink    tap:a?mtu=9000&wait_ms=5  knows; one must know each
//!  xdp:eth0@1?mode=native        source  xdp:eth0@1?mode=native
//!                                sink    afpacket:eth0             a queue has one XDP socket
//! ```
//!
//! The sink does not wait for room, unless the address sets `wait_ms`: one port must not block the
//! others of a switch.

use crate::live::WAIT;
use crate::{Address, AddressError, Key, OpenOptions, PortError, Role, Sink, Source};
use crate::{open_sink, open_sources};

/// Both halves of a port.
pub struct Duplex {
    /// The receiving side: one source, or one for each queue.
    pub sources: Vec<Box<dyn Source>>,
    /// The sending side.
    pub sink: Box<dyn Sink>,
}

/// Opens an address for receiving, without packets that its interface sends, and for sending.
///
/// # Errors
/// As [`open_sources`] and [`open_sink`].
pub fn open_duplex(address: &Address, options: &OpenOptions) -> Result<Duplex, PortError> {
    let [receiving, sending] = halves(address)?;
    let sources = open_sources(&receiving, options)?;
    Ok(Duplex { sources, sink: open_sink(&sending, options)? })
}

/// Opens an address for sending, as one sink of several: it does not wait for room, unless the
/// address sets `wait_ms`.
///
/// # Errors
/// As [`open_sink`].
pub fn open_prompt_sink(
    address: &Address,
    options: &OpenOptions,
) -> Result<Box<dyn Sink>, PortError> {
    let address = address.resolved(Role::Sink)?;
    let keys = address.keys_of(Role::Sink)?.unwrap_or(&[]);
    open_sink(&prompt(address, keys), options)
}

/// Opens the sink of a source's port, with the keys of the address that the sink knows.
///
/// # Errors
/// As [`open_duplex`].
pub fn open_way_back(address: &Address, options: &OpenOptions) -> Result<Box<dyn Sink>, PortError> {
    let [_, sending] = halves(address)?;
    open_sink(&sending, options)
}

/// Returns a sink's address that waits for room only if it already said so.
fn prompt(address: Address, keys: &[Key]) -> Address {
    let can_wait = keys.iter().any(|key| key.name == WAIT.name);
    match can_wait && address.parameter(WAIT.name).is_none() {
        true => address.with(WAIT.name, "0"),
        false => address,
    }
}

/// Returns the addresses of the source and of the sink.
fn halves(address: &Address) -> Result<[Address; 2], PortError> {
    let address = address.resolved(Role::Source)?;
    let text = || address.to_string();
    let source_keys = address.keys_of(Role::Source)?;
    let receiving = source_keys.ok_or_else(|| PortError::CannotReceive { port: text() })?;
    let returning = address.returning()?;
    let sink_keys = returning.keys_of(Role::Sink)?;
    let sending = sink_keys.ok_or_else(|| PortError::CannotTransmit { port: text() })?;
    let knows = |keys: &[Key], name: &str| keys.iter().any(|key| key.name == name);
    let is_unknown = |key: &str| !knows(receiving, key) && !knows(sending, key);
    // Errors name the source's keys: those are the keys of the port.
    address.without(|key| !is_unknown(key)).values(receiving)?;
    let source = address.without(|key| !knows(receiving, key)).inward()?;
    let sink = returning.without(|key| !knows(sending, key));
    Ok([source, prompt(sink, sending)])
}

impl Address {
    /// Returns the port's bare name: scheme and target.
    ///
    /// # Errors
    /// As for any address: a word without a scheme is looked up.
    pub fn port_name(&self) -> Result<String, AddressError> {
        Ok(self.resolved(Role::Source)?.without(|_| true).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves_of(text: &str) -> Result<[String; 2], String> {
        let halves = halves(&text.parse().unwrap()).map_err(|error| error.to_string())?;
        Ok(halves.map(|half| half.to_string()))
    }

    #[test]
    fn each_half_has_the_keys_that_it_knows() {
        for (address, source, sink) in [
            (
                "tap:a?mtu=9000&persist",
                "tap:a?mtu=9000&persist=yes",
                "tap:a?mtu=9000&persist=yes&wait_ms=0",
            ),
            ("tap:a?wait_ms=5", "tap:a", "tap:a?wait_ms=5"),
            ("xdp:e@1?mode=native", "xdp:e@1?mode=native", "afpacket:e?wait_ms=0"),
            ("afpacket:e", "afpacket:e?direction=in", "afpacket:e?wait_ms=0"),
            (
                "afpacket:e?slots=64&blocks=4",
                "afpacket:e?blocks=4&direction=in",
                "afpacket:e?slots=64&wait_ms=0",
            ),
        ] {
            assert_eq!(halves_of(address).unwrap(), [source, sink]);
        }
        for (address, reason) in [
            ("tap:a?vlan=1", "tap: has no key 'vlan'"),
            ("inject:a", "inject:a cannot receive"),
            ("nicsim:?mode=inline", "cannot send"),
        ] {
            let error = halves_of(address).unwrap_err();
            assert!(error.contains(reason), "{address}: {error}");
        }
        let address: Address = "tap:a%3Fb?mtu=9000".parse().unwrap();
        assert_eq!(address.port_name().unwrap(), "tap:a%3Fb");
    }
}

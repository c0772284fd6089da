//! From an address to the options of sockets and program.

use burstline_sys::xdp::{Copying, SocketOptions};

use crate::{Address, AddressError, TimestampSource};

const KEYS: &[&str] =
    &["mode", "copy", "timestamps", "frames", "frame", "ring", "busy_poll", "wakeup"];

pub(super) const FRAME_SIZES: &[(&str, u32)] = &[("2048", 2048), ("4096", 4096)];

pub(super) const COPIES: &[(&str, Copying)] =
    &[("auto", Copying::Auto), ("copy", Copying::Copy), ("zero", Copying::Zero)];

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// In the driver if that is possible, else behind it.
    Auto,
    /// In the driver.
    Native,
    /// Behind the driver, in the kernel's own receive path.
    Generic,
}

/// What an address says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) interface: String,
    /// `None`: all of them.
    pub(super) queue: Option<u32>,
    pub(super) mode: Mode,
    /// [`TimestampSource::Program`] or [`TimestampSource::Poll`].
    pub(super) timestamps: TimestampSource,
    /// As typed.
    pub(super) frames: Option<u32>,
    pub(super) socket: SocketOptions,
}

/// Reads the parameters of `address`; `clock` is for one that does not name its own.
pub(super) fn parse(address: &Address, clock: TimestampSource) -> Result<Settings, AddressError> {
    address.check_keys(KEYS)?;
    let (interface, queue) = target(address)?;
    let default = SocketOptions::default();
    let frames = ring_size(address, "frames", default.frames)?;
    let modes = [("auto", Mode::Auto), ("native", Mode::Native), ("generic", Mode::Generic)];
    let clocks = [("program", TimestampSource::Program), ("poll", TimestampSource::Poll)];
    Ok(Settings {
        interface: interface.to_owned(),
        queue,
        mode: address.choice("mode", &modes, Mode::Auto)?,
        timestamps: address.choice("timestamps", &clocks, clock)?,
        frames: address.parameter("frames").map(|_| frames),
        socket: SocketOptions {
            frames,
            frame_bytes: address.choice("frame", FRAME_SIZES, default.frame_bytes)?,
            rx_entries: ring_size(address, "ring", frames)?,
            copying: address.choice("copy", COPIES, Copying::Auto)?,
            needs_wakeup: address.choice("wakeup", &[("on", true), ("off", false)], true)?,
            busy_poll_packets: busy_poll(address)?,
            ..default
        },
    })
}

/// An interface, and perhaps a queue of it.
pub(super) fn target(address: &Address) -> Result<(&str, Option<u32>), AddressError> {
    let Some((interface, queue)) = address.target().split_once('@') else {
        return Ok((address.target(), None));
    };
    let number = queue.parse().ok();
    let bad = || address.bad_value("queue", queue, "a number from 0 on: xdp:eth0@0");
    Ok((interface, Some(number.ok_or_else(bad)?)))
}

pub(super) fn ring_size(address: &Address, key: &str, default: u32) -> Result<u32, AddressError> {
    let value = address.parsed(key, default)?;
    if value.is_power_of_two() && (64..=1 << 20).contains(&value) {
        return Ok(value);
    }
    Err(address.bad_value(key, &value.to_string(), "a power of two from 64 to 1048576"))
}

fn busy_poll(address: &Address) -> Result<Option<u16>, AddressError> {
    match address.parsed("busy_poll", 0)? {
        0 => Ok(None),
        packets if packets <= 512 => Ok(Some(packets)),
        packets => {
            let reason = "packets a poll, from 1 to 512, or 0 for none";
            Err(address.bad_value("busy_poll", &packets.to_string(), reason))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Settings, AddressError> {
        parse(&text.parse().unwrap(), TimestampSource::Program)
    }

    #[test]
    fn every_key_has_its_effect() {
        let query = "mode=generic&copy=copy&timestamps=poll&frames=256&frame=4096&ring=128";
        let settings = parsed(&format!("xdp:v0@3?{query}&busy_poll=64&wakeup=off")).unwrap();
        let expected = Settings {
            interface: "v0".to_owned(),
            queue: Some(3),
            mode: Mode::Generic,
            timestamps: TimestampSource::Poll,
            frames: Some(256),
            socket: SocketOptions {
                frames: 256,
                frame_bytes: 4096,
                rx_entries: 128,
                copying: Copying::Copy,
                needs_wakeup: false,
                busy_poll_packets: Some(64),
                ..SocketOptions::default()
            },
        };
        assert_eq!(settings, expected);
        assert_eq!(parsed("xdp:v0").unwrap().socket, SocketOptions::default());
        assert_eq!(parsed("xdp:v0").unwrap().queue, None);
    }

    #[test]
    fn an_address_that_names_a_clock_has_that_one() {
        for (text, expected) in [
            ("xdp:v0", TimestampSource::Poll),
            ("xdp:v0?timestamps=poll", TimestampSource::Poll),
            ("xdp:v0?timestamps=program", TimestampSource::Program),
        ] {
            let settings = parse(&text.parse().unwrap(), TimestampSource::Poll).unwrap();
            assert_eq!(settings.timestamps, expected, "{text}");
        }
    }

    #[test]
    fn bad_values_are_named() {
        for (text, reason) in [
            ("xdp:v0@a", "a number from 0 on"),
            ("xdp:v0@", "a number from 0 on"),
            ("xdp:v0?mode=fast", "one of auto, native, generic"),
            ("xdp:v0?frames=100", "a power of two"),
            ("xdp:v0?ring=32", "a power of two"),
            ("xdp:v0?frame=1024", "one of 2048, 4096"),
            ("xdp:v0?busy_poll=600", "from 1 to 512"),
            ("xdp:v0?rings=1", "knows no 'rings'"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

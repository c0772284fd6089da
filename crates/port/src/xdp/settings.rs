//! Parses an address into the options of sockets and program.

use burstline_sys::filter::Instruction;
use burstline_xdp::bpf::XdpMode;
use burstline_xdp::{Copying, RedirectOptions, SenderOptions, SocketOptions};

use crate::live::WAIT;
use crate::{Address, AddressError, Key, TimestampSource, Values};

const MODE: Key = Key::words(
    "mode",
    "auto|native|generic",
    "Where the XDP program runs: in the driver or behind it; auto tries the driver first",
)
.or("auto");

const COPY: Key = Key::words(
    "copy",
    "auto|copy|zero",
    "Whether the kernel copies packets or the device writes into Burstline's memory; auto uses \
     zero where possible",
)
.or("auto");

const FRAMES: Key =
    Key::number("frames", 64..=1 << 20, "Frames in the memory of a queue").powers_of_two();

const FRAME: Key = Key::size("frame", 2048..=4096, "Bytes of a frame").powers_of_two().or("2k");

const WAKEUP: Key =
    Key::switch("wakeup", "Whether to wake the kernel only when it asks; no wakes it every time")
        .or("yes");

/// The keys of a source's address.
pub(crate) const KEYS: &[Key] = &[
    MODE,
    COPY,
    FRAMES.or("4096"),
    FRAME,
    Key::number("ring", 64..=1 << 20, "Entries of the receive ring [default: same as frames]")
        .powers_of_two(),
    Key::number(
        "busy_poll",
        0..=512,
        "Maximum packets that the driver takes per busy poll; 0 turns busy polling off",
    )
    .or("0"),
    WAKEUP,
    Key::words(
        "timestamps",
        "program|poll",
        "Whether each packet has its own time, or all packets of a poll the same, which is enough \
         for counting [default: poll if the job needs no times, else program]",
    ),
];

/// The keys of a sink's address.
pub(crate) const SINK_KEYS: &[Key] = &[COPY, FRAMES.or("2048"), FRAME, WAKEUP, WAIT];

/// The keys of either end of a crossing; each direction has frames.
pub(crate) const BOUNCE_KEYS: &[Key] = &[MODE, COPY, FRAMES.or("2048"), FRAME, WAKEUP];

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) interface: String,
    /// `None` for all queues.
    pub(super) queue: Option<u32>,
    pub(super) mode: XdpMode,
    /// [`TimestampSource::Program`] or [`TimestampSource::Poll`].
    pub(super) timestamps: TimestampSource,
    pub(super) socket: SocketOptions,
}

impl Settings {
    /// Returns the options of the program that takes the packets.
    pub(super) fn redirect<'a>(&self, only: Option<&'a [Instruction]>) -> RedirectOptions<'a> {
        let has_time = self.timestamps == TimestampSource::Program;
        RedirectOptions { mode: self.mode, has_time, only }
    }
}

/// Parses the parameters of `address`; `clock` is the default.
pub(super) fn parse(address: &Address, clock: TimestampSource) -> Result<Settings, AddressError> {
    read(&address.values(KEYS)?, clock)
}

fn read(values: &Values<'_>, clock: TimestampSource) -> Result<Settings, AddressError> {
    let mut settings = shared(values, clock)?;
    let clocks = [TimestampSource::Program, TimestampSource::Poll];
    settings.timestamps = values.typed_word("timestamps", clocks)?.unwrap_or(clock);
    let socket = &mut settings.socket;
    socket.rx_entries = values.typed_integer("ring")?.unwrap_or(socket.frames);
    socket.busy_poll_packets = Some(values.integer("busy_poll")?).filter(|packets| *packets > 0);
    Ok(settings)
}

/// Parses the parameters of an end of a crossing.
pub(super) fn parse_end(address: &Address) -> Result<Settings, AddressError> {
    shared(&address.values(BOUNCE_KEYS)?, TimestampSource::Poll)
}

/// Parses the parameters common to both.
fn shared(values: &Values<'_>, timestamps: TimestampSource) -> Result<Settings, AddressError> {
    let (interface, queue) = target(values.address())?;
    Ok(Settings {
        interface: interface.to_owned(),
        queue,
        mode: values.word(MODE.name, [XdpMode::Auto, XdpMode::Native, XdpMode::Generic])?,
        timestamps,
        socket: SocketOptions {
            frames: values.integer(FRAMES.name)?,
            frame_bytes: values.integer(FRAME.name)?,
            copying: copying(values)?,
            needs_wakeup: values.switch(WAKEUP.name)?,
            ..SocketOptions::default()
        },
    })
}

/// The parsed address of a sink, without its wait time.
#[derive(Debug, PartialEq)]
pub(super) struct SinkSettings<'a> {
    pub(super) interface: &'a str,
    pub(super) queue: u32,
    pub(super) sender: SenderOptions,
}

/// Parses a sink's address.
pub(super) fn parse_sink<'a>(values: &Values<'a>) -> Result<SinkSettings<'a>, AddressError> {
    let (interface, queue) = target(values.address())?;
    let sender = SenderOptions {
        frames: values.integer(FRAMES.name)?,
        frame_bytes: values.integer(FRAME.name)?,
        copying: copying(values)?,
        needs_wakeup: values.switch(WAKEUP.name)?,
        ..SenderOptions::default()
    };
    Ok(SinkSettings { interface, queue: queue.unwrap_or(0), sender })
}

fn copying(values: &Values<'_>) -> Result<Copying, AddressError> {
    values.word(COPY.name, [Copying::Auto, Copying::Copy, Copying::Zero])
}

/// Splits a target into an interface and an optional queue.
pub(super) fn target(address: &Address) -> Result<(&str, Option<u32>), AddressError> {
    let Some((interface, queue)) = address.target().split_once('@') else {
        return Ok((address.target(), None));
    };
    let number = queue.parse().ok();
    let bad = || address.bad_value("queue", queue, "expected a number from 0, e.g. xdp:eth0@0");
    Ok((interface, Some(number.ok_or_else(bad)?)))
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
            mode: XdpMode::Generic,
            timestamps: TimestampSource::Poll,
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
            ("xdp:v0@a", "expected a number from 0"),
            ("xdp:v0@", "expected a number from 0"),
            ("xdp:v0?mode=fast", "one of auto, native, generic"),
            ("xdp:v0?frames=100", "a power of two"),
            ("xdp:v0?ring=32", "a power of two"),
            ("xdp:v0?frame=1024", "a power of two, 2k-4k"),
            ("xdp:v0?busy_poll=600", "must be 0-512"),
            ("xdp:v0?rings=1", "has no key 'rings'"),
        ] {
            let error = parsed(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}

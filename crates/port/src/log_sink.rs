//! `log:` sinks: packets are published under a name, for other programs to read in place.
//!
//! ```text
//!  transmit --one copy--> segment of a log, published after each burst --> readers of NAME
//!                            '-- no room: a lossless reader holds all segments --> wait, log_full
//! ```
//!
//! NAME is a word or a path, as for readers. The log is like the one of a job with `--publish`, for
//! verbs without that flag.
//!
//! Invariants:
//! - K1: offered = published + `log_full`. Published packets count as handed on, whether they are
//!   read or not; packets that a lossy reader missed are that reader's loss.
//! - K2: no call waits longer than `wait_ms` for readers; a reader that stalls for that long costs
//!   packets, by name, until it moves.
//! - K3: readers know an interface's name before they see its first packet.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use burstline_log::{Appended, Burst, Ending, Log, LogConfig, Writer};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};
use burstline_sys::clock;

use crate::live::{WAIT, Wait, wait_ns};
use crate::{
    Address, AddressError, Capabilities, Key, Loss, LostPackets, OpenOptions, OpenedSink, Port,
    PortAccount, PortError, PortInfo, Sink, TimestampSource,
};

/// The keys of a sink's address.
pub(crate) const KEYS: &[Key] = &[
    // The minimum: two segments and one for a reader, twice.
    Key::size("bytes", 1793 << 10..=64 << 30, "Memory of the log, in whole segments").or("16m"),
    Key::text("mode", "OCTAL", "Who may read it, as a file mode: 0660 [default: 0600]"),
    Key::switch("lossless", "Whether readers that request it may block the sink").or("no").alone(),
    WAIT,
];

/// How long readers may take to reach the end before the name is removed.
const LAST_WORDS: Duration = Duration::from_secs(1);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A sink that publishes the packets it is given.
struct LogSink {
    info: PortInfo,
    /// `None` once finished.
    writer: Option<Writer>,
    publisher: Publisher,
    /// Table watchers hold a weak reference to it, and stop when it is dropped.
    _log: Arc<Log>,
    wait: Wait,
    lost: LostPackets,
    account: PortAccount,
}

/// The parsed address.
#[derive(Debug, PartialEq, Eq)]
struct Settings {
    bytes: usize,
    publish: PublishConfig,
    wait_ns: u64,
}

/// Creates a log and publishes it.
pub(crate) fn open_sink(address: &Address, options: &OpenOptions) -> OpenedSink {
    let settings = parse(address)?;
    let (log, writer) = Log::create(LogConfig {
        name: settings.publish.name.clone(),
        bytes: settings.bytes,
        allow_lossless: settings.publish.lossless != LosslessReaders::Refused,
        hash_kind: options.hash.code().into(),
        ..LogConfig::default()
    })?;
    let publisher = Publisher::start(&settings.publish, vec![log.clone()])
        .map_err(|error| PortError::Log { error, near: String::new() })?;
    let log = Arc::new(log);
    let told = Arc::downgrade(&log);
    options.table.watch_while(move |number, entry| {
        let Some(log) = told.upgrade() else { return false };
        log.name_port(number, entry.link.0.into(), &entry.name);
        true
    });
    let capabilities = Capabilities::default();
    let (name, timestamps) = (address.to_string(), TimestampSource::Synthetic);
    Ok(Box::new(LogSink {
        info: PortInfo { name, capabilities, timestamps },
        writer: Some(writer),
        publisher,
        _log: log,
        wait: Wait::new(settings.wait_ns),
        lost: LostPackets::default(),
        account: PortAccount::default(),
    }))
}

fn parse(address: &Address) -> Result<Settings, AddressError> {
    let values = address.values(KEYS)?;
    let segment = LogConfig::default().segment_bytes;
    let bytes = values.integer::<usize>("bytes")?.next_multiple_of(segment);
    let mode = match values.text("mode") {
        None => PublishConfig::new("").mode,
        Some(text) => {
            let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
            mode.ok_or_else(|| values.wrong("mode", "must be octal, 0-777"))?
        }
    };
    // Readers get no timeout from the publisher: `wait_ms` of the sink limits the wait.
    let lossless = match values.switch("lossless")? {
        true => LosslessReaders::Forever,
        false => LosslessReaders::Refused,
    };
    let publish = PublishConfig { mode, lossless, ..PublishConfig::new(address.target()) };
    Ok(Settings { bytes, publish, wait_ns: wait_ns(&values)? })
}

impl LogSink {
    /// Appends as many packets as fit; waits for readers up to the limit. `given` counts the
    /// packets appended.
    fn append(&mut self, burst: &Burst<'_>, given: &mut u64) {
        let Some(writer) = &mut self.writer else { return };
        for packet in burst.packets() {
            let (bytes, meta) = (packet.bytes(), packet.meta());
            let appended = loop {
                match writer.append(bytes, &meta) {
                    Appended::Full => {
                        writer.publish();
                        if !self.wait.pause(writer.statistics().packets, clock::monotonic_ns()) {
                            return;
                        }
                    }
                    appended => break appended,
                }
            };
            *given += 1;
            self.account.bytes_copied += bytes.len() as u64;
            let is_cut = appended == Appended::Truncated || bytes.len() < packet.original_length();
            self.account.truncated += u64::from(is_cut);
        }
    }
}

impl Port for LogSink {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    /// Marks the end for the readers, and gives them a moment to reach it.
    fn finish(&mut self) -> Result<(), PortError> {
        if let Some(writer) = self.writer.take() {
            writer.finish(Ending::Final);
        }
        let until = Instant::now() + LAST_WORDS;
        let are_behind = || self.publisher.readers().iter().any(|reader| reader.lag_packets > 0);
        while are_behind() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn account(&self) -> PortAccount {
        PortAccount { lost: self.lost.losses(), ..self.account.clone() }
    }
}

impl Sink for LogSink {
    /// Cost: one copy per packet, one publish per burst.
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        let (offered, mut given) = (burst.len() as u64, 0);
        self.append(burst, &mut given);
        if let Some(writer) = &mut self.writer {
            writer.publish();
        }
        self.account.offered += offered;
        if given < offered {
            self.lost.add_burst(Loss::LogFull, &burst.split_at(given as usize).1);
        }
        Ok(given)
    }

    fn lost(&self) -> LostPackets {
        self.lost.clone()
    }

    /// Does nothing: each burst is published by `transmit`.
    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = parse(address);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_effect_and_bad_values_are_named() {
        let parsed = |text: &str| parse(&text.parse().unwrap());
        let plain = parsed("log:tap").unwrap();
        assert_eq!(plain.publish, PublishConfig::new("tap"));
        assert_eq!((plain.bytes, plain.wait_ns), (16 << 20, 100_000_000));
        let full = parsed("log:./a/tap?bytes=3000k&mode=0660&lossless=yes&wait_ms=7").unwrap();
        assert_eq!((&*full.publish.name, full.publish.mode), ("./a/tap", 0o660));
        assert_eq!((full.bytes, full.wait_ns), (12 * (256 << 10), 7_000_000));
        assert_eq!(full.publish.lossless, LosslessReaders::Forever);
        assert_eq!(parsed("log:tap?bytes=2000k").unwrap().bytes, 2 << 20, "in whole segments");
        let wrong =
            ["bytes=1m", "bytes=x", "bytes=9999999999g", "mode=9", "lossless=5s", "from=now"];
        for wrong in wrong {
            assert!(parsed(&format!("log:tap?{wrong}")).is_err(), "{wrong}");
        }
    }
}

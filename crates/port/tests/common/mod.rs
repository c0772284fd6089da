//! Shared test helpers: packets to write, files of them, and ways to drain a port.

#![allow(dead_code, reason = "each test program uses a part of it")]

pub(crate) mod live;

use std::fs;
use std::path::{Path, PathBuf};

use burstline_log::{Log, LogConfig, Packet, Policy, Reader, ReaderConfig, Scratch, Start, Writer};
use burstline_port::{
    Address, OpenOptions, Port, PortError, PortState, Sink, Source, open_sink, open_source,
};
use burstline_sys::temporary::TemporaryFolder;

/// A packet with all its metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Got {
    pub(crate) bytes: Vec<u8>,
    pub(crate) time_ns: u64,
    pub(crate) original_length: usize,
    pub(crate) drops_before: u64,
    pub(crate) flags: u8,
    pub(crate) hash: u32,
    pub(crate) port: u8,
}

impl Got {
    pub(crate) fn new(packet: &Packet<'_>) -> Self {
        use burstline_log::Flags;
        Self {
            bytes: packet.bytes().to_vec(),
            time_ns: packet.time_ns(),
            original_length: packet.original_length(),
            drops_before: packet.drops_before(),
            flags: packet.desc().flags().without(Flags::FACTS).bits(),
            hash: packet.desc().hash(),
            port: packet.port(),
        }
    }
}

/// A directory that is removed when the test ends.
pub(crate) struct Folder(TemporaryFolder);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(TemporaryFolder::create("burstline-port-").unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, bytes).unwrap();
        path
    }
}

/// Starts DPDK without huge pages if necessary: on a shared machine their number varies.
pub(crate) fn prepare(address: &str) {
    #[cfg(feature = "dpdk")]
    if address.starts_with("dpdk:") {
        use burstline_dpdk::{EalOptions, start_eal};
        start_eal(&EalOptions { huge: Some(false), ..EalOptions::default() }).unwrap();
    }
    let _ = address;
}

pub(crate) fn source(address: &str, options: &OpenOptions) -> Result<Box<dyn Source>, PortError> {
    prepare(address);
    open_source(&address.parse::<Address>()?, options)
}

pub(crate) fn sink(address: &str, options: &OpenOptions) -> Result<Box<dyn Sink>, PortError> {
    prepare(address);
    open_sink(&address.parse::<Address>()?, options)
}

pub(crate) fn open_file(path: &Path) -> Box<dyn Source> {
    source(&format!("file:{}", path.display()), &OpenOptions::default()).unwrap()
}

/// Writes the packets of a source into a libpcap file.
pub(crate) fn write_pcap(load: &str, path: &Path) {
    let options = OpenOptions::default();
    let mut to = sink(&format!("file:{}?format=pcap", path.display()), &options).unwrap();
    pump(&mut *source(load, &options).unwrap(), &mut *to).unwrap();
    to.finish().unwrap();
}

/// Creates a log with one lossless reader.
pub(crate) fn log(segment_bytes: usize, segments: usize) -> (Log, Writer, Reader) {
    let bytes = segment_bytes * segments;
    let config = LogConfig { segment_bytes, bytes, ..LogConfig::default() };
    let (log, writer) = Log::create(config).unwrap();
    let policy = Policy::Lossless;
    let reader = ReaderConfig { policy, start: Start::Segment, ..ReaderConfig::default() };
    let reader = log.attach(reader).unwrap();
    (log, writer, reader)
}

/// Checks the ledger of a source against the delivered packets.
pub(crate) fn check_ledger(port: &dyn Port, delivered: u64) {
    let account = port.account();
    let accounted = delivered + account.lost.total() + account.in_flight;
    assert_eq!(account.offered, accounted, "{}: {account:?}", port.info().name);
}

/// Lends until the port ends.
pub(crate) fn drain_by_lending(port: &mut dyn Source, budget: u64) -> Vec<Got> {
    let mut scratch = Scratch::new();
    let mut all = Vec::new();
    loop {
        let lent = port.lend(&mut scratch, budget).unwrap();
        assert!(lent.burst.len() as u64 <= budget, "{} for {budget}", lent.burst.len());
        assert!(lent.burst.is_empty() || lent.burst.first_packet() == all.len() as u64);
        all.extend(lent.burst.packets().map(|packet| Got::new(&packet)));
        let state = lent.state;
        check_ledger(port, all.len() as u64);
        if state == PortState::Ended {
            return all;
        }
    }
}

/// Receives into a log of `segments` segments until the port ends, and drains the log whenever the
/// port is blocked.
pub(crate) fn drain_by_receiving(
    port: &mut dyn Source,
    budget: u64,
    segment_bytes: usize,
    segments: usize,
) -> Vec<Got> {
    let (_log, mut writer, mut reader) = log(segment_bytes, segments);
    let (mut all, mut delivered) = (Vec::new(), 0);
    loop {
        let received = port.receive(&mut writer, budget).unwrap();
        assert!(received.packets <= budget, "{} for {budget}", received.packets);
        delivered += received.packets;
        writer.publish();
        check_ledger(port, delivered);
        if matches!(received.state, PortState::Blocked | PortState::Ended) {
            while let Some(burst) = reader.next_burst() {
                all.extend(burst.packets().map(|packet| Got::new(&packet)));
            }
        }
        if received.state == PortState::Ended {
            assert_eq!(all.len() as u64, delivered);
            return all;
        }
    }
}

/// Lends from one port and transmits to the other until the first ends. Returns the packets taken.
pub(crate) fn pump(from: &mut dyn Source, to: &mut dyn Sink) -> Result<u64, PortError> {
    let (mut scratch, mut taken) = (Scratch::new(), 0);
    loop {
        let lent = from.lend(&mut scratch, u64::MAX)?;
        taken += to.transmit(&lent.burst)?;
        if lent.state == PortState::Ended {
            return Ok(taken);
        }
    }
}

/// Returns a classic capture of these packets: `(seconds, fraction, original length, bytes)`.
pub(crate) fn pcap(
    magic: u32,
    big_endian: bool,
    link: u32,
    packets: &[(u32, u32, u32, Vec<u8>)],
) -> Vec<u8> {
    let word = |word: u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() };
    let half = |half: u16| if big_endian { half.to_be_bytes() } else { half.to_le_bytes() };
    let mut file = Vec::new();
    file.extend(word(magic));
    file.extend(half(2));
    file.extend(half(4));
    for header in [0, 0, 262_144, link] {
        file.extend(word(header));
    }
    for (seconds, fraction, original, bytes) in packets {
        for field in [*seconds, *fraction, bytes.len() as u32, *original] {
            file.extend(word(field));
        }
        file.extend_from_slice(bytes);
    }
    file
}

/// Returns packets of many sizes, some of them truncated.
pub(crate) fn packets(count: u32) -> Vec<(u32, u32, u32, Vec<u8>)> {
    let packet = |number: u32| {
        let length = [60, 61, 0, 1514, 350, 14, 999][number as usize % 7];
        let bytes: Vec<u8> = (0..length).map(|at| (at * 7 + number) as u8).collect();
        let cut = if number.is_multiple_of(11) { 100 } else { 0 };
        (1_700_000_000 + number / 100, number % 100 * 10_000, length + cut, bytes)
    };
    (0..count).map(packet).collect()
}

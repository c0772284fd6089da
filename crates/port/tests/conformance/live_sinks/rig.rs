//! A sink on one host, and a source on the other side that sees its packets.

use std::cell::RefCell;
use std::time::Instant;

use burstline_log::{Burst, Meta, Scratch};
use burstline_port::{OpenOptions, PortError, Sink, Source};
use burstline_skip::without;
use burstline_testbed::{Bed, FAR, Host, NEAR};

use crate::common::live::{PATIENCE, drain, lend_until, try_open};
use crate::common::{Got, sink};

/// Every sink that sends by an interface, in its variants; `IFACE` is replaced by the interface.
pub(crate) const SINKS: &[&str] = &[
    "afpacket:IFACE?wait_ms=50",
    "afpacket:IFACE?wait_ms=50&bypass=off&slots=64",
    "xdp:IFACE?wait_ms=50",
    "xdp:IFACE?wait_ms=50&frames=64&wakeup=off&frame=4096",
    "inject:IFACE?wait_ms=50",
    "tap:IFACE?wait_ms=50&mtu=1500",
    "tap:IFACE?wait_ms=50&mtu=1500&queues=2&offloads=on",
];

/// The interface created by a TAP port on the far host.
pub(crate) const TAP: &str = "t1";

/// EtherType of packets at the far end that no sink has sent.
const LIKELY_NOISE: [u8; 2] = [0x86, 0xdd];

/// A test bed, and a sink's address for it.
pub(crate) struct Rig {
    pub(crate) bed: Bed,
    pub(crate) address: String,
    sink: RefCell<Option<Box<dyn Sink>>>,
}

/// Runs a test for every sink, or prints why it is skipped.
pub(crate) fn for_each_sink(job: impl Fn(&Rig)) {
    for pattern in SINKS {
        let Some(bed) = Bed::or_skip() else { return };
        let rig = Rig::new(bed, pattern);
        match rig.open() {
            Ok(()) => job(&rig),
            Err(error) if error.to_string().contains("setcap") => {
                without(format!("{pattern}: {error}"));
            }
            Err(error) => panic!("{pattern}: {error}"),
        }
    }
}

impl Rig {
    fn new(bed: Bed, pattern: &str) -> Self {
        let interface = match pattern.split(':').next() {
            Some("inject") => FAR,
            Some("tap") => TAP,
            _ => NEAR,
        };
        let address = pattern.replace("IFACE", interface);
        Self { bed, address, sink: RefCell::default() }
    }

    /// Whether packets come in by its interface, instead of leaving by it.
    pub(crate) fn is_inward(&self) -> bool {
        self.is_injector() || self.interface() == TAP
    }

    /// Whether its packets go to the XDP program on the interface.
    pub(crate) fn is_injector(&self) -> bool {
        self.address.starts_with("inject:")
    }

    /// Returns the host of the sink.
    pub(crate) fn host(&self) -> &Host {
        if self.is_inward() { &self.bed.far } else { &self.bed.near }
    }

    /// Returns the sink's interface.
    pub(crate) fn interface(&self) -> &'static str {
        let name = |scheme| self.address.starts_with(scheme);
        if name("tap:") {
            TAP
        } else if name("inject:") {
            FAR
        } else {
            NEAR
        }
    }

    fn open(&self) -> Result<(), PortError> {
        let address = self.address.clone();
        let opened = self.host().run(move || sink(&address, &OpenOptions::default()))?;
        *self.sink.borrow_mut() = Some(opened);
        Ok(())
    }

    /// Opens a source that sees packets arriving from now on.
    pub(crate) fn listen(&self) -> Box<dyn Source> {
        let interface = if self.interface() == TAP { TAP } else { FAR };
        let address = format!("afpacket:{interface}?direction=in&retire_ms=1");
        try_open(&self.bed.far, &address, OpenOptions::default()).unwrap()
    }

    /// Runs `job` with the sink, on its host.
    pub(crate) fn with<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut dyn Sink) -> T + Send + 'static,
    ) -> T {
        let mut sink = self.sink.borrow_mut().take().expect("the test has opened it");
        let (sink, outcome) = self.host().run(move || {
            let outcome = job(&mut *sink);
            (sink, outcome)
        });
        *self.sink.borrow_mut() = Some(sink);
        outcome
    }

    /// Sends packets in bursts of `size`. Returns how many were taken.
    pub(crate) fn send(&self, packets: &[Vec<u8>], size: usize) -> Result<u64, PortError> {
        let packets = packets.to_vec();
        self.with(move |sink| {
            let bursts = packets.chunks(size);
            bursts.map(|packets| with_burst(packets, |burst| sink.transmit(burst))).sum()
        })
    }

    /// Finishes the sink; its account is then final and balanced. Returns the number of packets
    /// reported as sent.
    pub(crate) fn finish(&self) -> (u64, Result<(), PortError>) {
        self.with(|sink| {
            let finished = sink.finish();
            let account = sink.account();
            assert_eq!(account.in_flight, 0, "{account:?}");
            assert_eq!(sink.lost().losses(), account.lost, "W1");
            (account.offered - account.lost.total(), finished)
        })
    }

    pub(crate) fn ip(&self, host: &Host, command: &str) {
        host.command("ip", &command.split(' ').collect::<Vec<_>>()).unwrap();
    }
}

/// Returns arriving packets until there are `count`, and those already queued after them.
pub(crate) fn arrived(port: &mut dyn Source, count: u64) -> Vec<Vec<u8>> {
    let (mut all, start): (Vec<Got>, _) = (Vec::new(), Instant::now());
    let ours = |all: &[Got]| all.iter().filter(|packet| is_ours(packet)).count() as u64;
    lend_until(port, &mut all, |all, _| ours(all) >= count).unwrap();
    assert!(start.elapsed() < PATIENCE);
    all.extend(drain(port));
    all.into_iter().filter(is_ours).map(|packet| packet.bytes).collect()
}

fn is_ours(packet: &Got) -> bool {
    packet.bytes.get(12..14) != Some(&LIKELY_NOISE)
}

/// Creates a burst of packets.
pub(crate) fn with_burst<T>(packets: &[Vec<u8>], job: impl FnOnce(&Burst<'_>) -> T) -> T {
    let (mut bytes, mut scratch) = (Vec::new(), Scratch::new());
    for packet in packets {
        scratch.push(
            bytes.len() as u32,
            packet.len() as u32,
            &Meta::new(0, packet.len() as u32, 0),
        );
        bytes.extend_from_slice(packet);
        bytes.resize(bytes.len().next_multiple_of(16), 0);
    }
    job(&scratch.burst(&bytes, 0))
}

/// Returns numbered packets, with these lengths in turn.
pub(crate) fn numbered(count: u32, lengths: &[usize]) -> Vec<Vec<u8>> {
    let packet = |number: u32| {
        let mut packet = [&[0xff; 6], &[2, 0, 0, 0, 0, 1], &[0x88, 0xb5][..]].concat();
        packet.extend(number.to_be_bytes());
        let length = lengths[number as usize % lengths.len()];
        packet.extend((packet.len()..length).map(|at| (at as u32 * 7 + number) as u8));
        packet.truncate(length);
        packet
    };
    (0..count).map(packet).collect()
}

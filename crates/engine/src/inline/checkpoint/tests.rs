//! Tests a sink that fails in the middle of a burst.

use std::sync::Arc;

use burstline_log::{Log, Meta, Policy, ReaderConfig, RemoteSeat};
use burstline_port::Losses;
use burstline_share::PublishConfig;
use burstline_wire::headers::LinkType;

use super::*;
use crate::inline::flows::Flow;
use crate::inline::{Answers, InlineOptions, config};

/// An [`Onward`] that fails on every packet.
struct Broken {
    given: u64,
}

impl Onward for Broken {
    fn pass(&mut self, burst: &Burst<'_>) -> Result<(), PortError> {
        self.given += burst.len() as u64;
        Err(PortError::DeviceTaken { port: "broken".to_owned() })
    }

    fn flush(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// Returns a checkpoint whose worker gives no verdicts: packets wait until the worker's seat is
/// dropped, or for a minute.
pub(crate) fn stalled() -> (Checkpoint, RemoteSeat) {
    let options = InlineOptions {
        publish: PublishConfig::new("none"),
        workers: 1,
        is_open: false,
        deadline_ns: 60_000_000_000,
    };
    let (log, writer) = Log::create(config(0, 0, 1, 0)).unwrap();
    let lane = Lane::new(&log, writer, &options).unwrap();
    let seat = ReaderConfig { policy: Policy::Lossy, ..ReaderConfig::default() };
    let mut worker = log.attach_remote(seat).unwrap();
    worker.take_verdicts().unwrap();
    let table = PortTable::new();
    table.add("a", LinkType::ETHERNET).unwrap();
    let ends = Ends::new(false, Answers::by_the_port());
    (Checkpoint::new(vec![lane], ends, &table, Arc::default()), worker)
}

fn udp(port: u16) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..18].copy_from_slice(&[0x45, 0, 0, 50]);
    bytes[23] = 17;
    bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    bytes[34..36].copy_from_slice(&port.to_be_bytes());
    bytes
}

#[test]
fn where_a_sink_fails_each_packet_of_the_burst_is_given_lost_or_waits() {
    let options = InlineOptions {
        publish: PublishConfig::new("none"),
        workers: 1,
        is_open: false,
        deadline_ns: 1,
    };
    let (log, writer) = Log::create(config(0, 0, 1, 0)).unwrap();
    let lane = Lane::new(&log, writer, &options).unwrap();
    let ends = Ends::new(false, Answers::by_the_port());
    let table = PortTable::new();
    table.add("a", LinkType::ETHERNET).unwrap();
    let mut checkpoint = Checkpoint::new(vec![lane], ends, &table, Arc::default());
    let flow = |port| Flow::of(LinkType::ETHERNET, &udp(port)).unwrap();
    checkpoint.gate.flows.enter(flow(2), 2, 1);
    let (mut bytes, mut scratch) = (Vec::new(), Scratch::new());
    // Flow 2 was passed; the others wait for a verdict that never comes.
    for port in [1, 2, 3, 2, 1] {
        let meta = Meta { hash: port.into(), ..Meta::new(0, 64, 0) };
        scratch.push(bytes.len() as u32, 64, &meta);
        bytes.extend(udp(port));
    }
    let mut broken = Broken { given: 0 };
    let mut outlet = Outlet { onward: &mut broken, ends: &mut checkpoint.ends };
    let outcome = checkpoint.gate.spread(&scratch.burst(&bytes, 0), 2, &mut outlet);
    assert!(outcome.is_err());
    let lost = |losses: &Losses| [Loss::NoVerdict, Loss::WriteError].map(|one| losses.of(one));
    let counts = (broken.given, lost(&checkpoint.ends.lost), checkpoint.waiting());
    assert_eq!(counts, (1, [1, 3], 0));
    checkpoint.close(&mut broken).unwrap();
}

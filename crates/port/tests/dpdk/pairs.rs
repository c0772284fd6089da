//! A sink and a source connected by a driver.

use std::time::{Duration, Instant};

use burstline_log::Scratch;
use burstline_port::{OpenOptions, PortState, Sink, Source};
use burstline_testbed::Bed;

use crate::alone;
use crate::common::live::{PATIENCE, check_closed};
use crate::common::{
    Folder, Got, drain_by_lending, log, open_file, pump, sink, source, write_pcap,
};

/// Packets of a run: more than any ring can hold.
const PACKETS: u64 = 6_000;
const LOAD: &str = "gen:?packets=6000&start=5&size=random:64-1518&flows=7&seed=9";

/// Returns the packets that a pair sends.
fn load() -> Box<dyn Source> {
    source(LOAD, &OpenOptions::default()).unwrap()
}

/// Takes packets until there are `count`.
struct Taker {
    scratch: Scratch,
    got: Vec<Got>,
}

impl Taker {
    fn lend(&mut self, from: &mut dyn Source, count: usize) {
        let start = Instant::now();
        while self.got.len() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count}", self.got.len());
            let lent = from.lend(&mut self.scratch, u64::MAX).unwrap();
            self.got.extend(lent.burst.packets().map(|packet| Got::new(&packet)));
        }
    }

    fn receive(&mut self, from: &mut dyn Source, count: usize) {
        let (_log, mut writer, mut reader) = log(64 << 10, 16);
        let start = Instant::now();
        while self.got.len() < count {
            assert!(start.elapsed() < PATIENCE, "{} of {count}", self.got.len());
            from.receive(&mut writer, 100).unwrap();
            writer.publish();
            while let Some(burst) = reader.next_burst() {
                self.got.extend(burst.packets().map(|packet| Got::new(&packet)));
            }
        }
    }
}

/// Sends single packets until the peer takes one. Returns those that were certainly sent.
fn connect(to: &mut dyn Sink, from: &mut dyn Source) -> Vec<Got> {
    let (mut scratch, start) = (Scratch::new(), Instant::now());
    let mut taker = Taker { scratch: Scratch::new(), got: Vec::new() };
    loop {
        let mut one = load();
        let lent = one.lend(&mut scratch, 1).unwrap();
        if to.transmit(&lent.burst).unwrap() == 1 {
            taker.lend(from, 1);
            return taker.got;
        }
        assert!(start.elapsed() < PATIENCE, "{:?}", to.account());
        // Some rings have no buffers before the peer asks for packets.
        assert!(from.lend(&mut taker.scratch, 1).unwrap().burst.is_empty());
        // Other threads make the connection.
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends all of the load and takes it out again: the first half is lent, the second received.
fn carry(to: &mut dyn Sink, from: &mut dyn Source) {
    let names = format!("{} > {}", to.info().name, from.info().name);
    let first = connect(to, from);
    let before = (to.account(), from.account());
    let mut taker = Taker { scratch: Scratch::new(), got: Vec::new() };
    let (mut load, mut scratch) = (load(), Scratch::new());
    let mut sent = 0;
    loop {
        // Few enough for the smallest ring.
        let lent = load.lend(&mut scratch, 100).unwrap();
        let count = lent.burst.len() as u64;
        assert_eq!(to.transmit(&lent.burst).unwrap(), count, "{names}: {:?}", to.account());
        sent += count;
        match sent <= PACKETS / 2 {
            true => taker.lend(from, sent as usize),
            false => taker.receive(from, sent as usize),
        }
        if lent.state == PortState::Ended {
            break;
        }
    }
    to.flush().unwrap();
    let expected = drain_by_lending(&mut *self::load(), u64::MAX);
    let is_same = taker.got.iter().zip(&expected).all(|(got, sent)| got.bytes == sent.bytes);
    assert!(is_same && taker.got.len() == expected.len(), "{names}");
    assert!(first[0].bytes == expected[0].bytes, "{names}");
    let account = to.account();
    assert_eq!(account.offered - before.0.offered, PACKETS, "{names}");
    assert_eq!((account.lost == before.0.lost, account.in_flight), (true, 0), "{names}");
    from.finish().unwrap();
    let start = Instant::now();
    loop {
        let lent = from.lend(&mut taker.scratch, u64::MAX).unwrap();
        assert!(lent.burst.is_empty() && start.elapsed() < PATIENCE, "{names}");
        if lent.state == PortState::Ended {
            break;
        }
    }
    check_closed(from, PACKETS + 1, PACKETS + 1);
    to.finish().unwrap();
    assert_eq!(to.account().lost, before.0.lost, "{names}");
}

/// Opens both, the sink first by default, and carries the load.
fn pair(to: &str, from: &str, is_source_first: bool) {
    let options = OpenOptions::default();
    let open_from = || source(from, &options).unwrap_or_else(|error| panic!("{error}"));
    let open_to = || sink(to, &options).unwrap_or_else(|error| panic!("{error}"));
    let (mut to, mut from) = match is_source_first {
        true => {
            let from = open_from();
            (open_to(), from)
        }
        false => {
            let to = open_to();
            (to, open_from())
        }
    };
    carry(&mut *to, &mut *from);
}

#[test]
fn a_ring_gives_back_what_was_sent_to_it() {
    let _alone = alone();
    let ring = "dpdk:net_ring10?pool=2047&wait_ms=0";
    pair(ring, ring, false);
}

#[test]
fn interfaces_carry_packets_both_ways() {
    let _alone = alone();
    let Some(bed) = Bed::or_skip() else { return };
    for (make, ends) in [
        (
            Some("link add va type veth peer name vb"),
            vec![
                ["dpdk:net_af_packet10,iface=va?wait_ms=50", "dpdk:net_af_packet11,iface=vb"],
                ["dpdk:net_af_packet12,iface=va?wait_ms=50", "dpdk:net_af_xdp12,iface=vb"],
                ["dpdk:net_af_xdp13,iface=va?wait_ms=50", "dpdk:net_af_packet13,iface=vb"],
            ],
        ),
        (
            None,
            vec![["dpdk:net_tap14,iface=t14?wait_ms=50", "afpacket:t14?direction=in&retire_ms=1"]],
        ),
    ] {
        if let Some(make) = make {
            bed.near.command("ip", &make.split(' ').collect::<Vec<_>>()).unwrap();
            for end in ["va", "vb"] {
                bed.near.command("ip", &["link", "set", end, "up"]).unwrap();
            }
        }
        for [to, from] in ends {
            bed.near.run(move || pair(to, from, false));
        }
    }
    bed.near.run(|| pair("afpacket:t15?wait_ms=50", "dpdk:net_tap15,iface=t15", true));
}

#[test]
fn a_file_of_the_pcap_driver_is_ours_to_read_and_ours_is_the_drivers() {
    let _alone = alone();
    let folder = Folder::new();
    let (ours, theirs) = (folder.path("ours.pcap"), folder.path("theirs.pcap"));
    let options = OpenOptions::default();
    write_pcap(LOAD, &ours);
    let device = format!("net_pcap10,rx_pcap={},tx_pcap={}", ours.display(), theirs.display());
    let address = format!("dpdk:{device}?ring=8192&pool=2047");
    let mut from = source(&address, &options).unwrap();
    let mut to = sink(&address, &options).unwrap();
    from.finish().unwrap();
    assert_eq!(pump(&mut *from, &mut *to).unwrap(), PACKETS);
    check_closed(&*from, PACKETS, PACKETS);
    to.finish().unwrap();
    assert_eq!(to.account().lost.total(), 0);
    drop((from, to));
    let expected = drain_by_lending(&mut *load(), u64::MAX);
    let read = drain_by_lending(&mut *open_file(&theirs), u64::MAX);
    assert!(read.iter().map(|packet| &packet.bytes).eq(expected.iter().map(|sent| &sent.bytes)));
}

//! The sources and sinks that the suite tests.

use std::io::Write;
use std::rc::Rc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use burstline_afpacket::Sender;
use burstline_port::{FaultInjector, FaultPlan, OpenOptions, PortTable, Source, Tracer};
use burstline_skip::without;
use burstline_testbed::{Bed, Frames};
use burstline_wire::files::{
    Direction, InterfaceDescription, PacketToWrite, PcapngEncoder, SectionDescription,
};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::common::live::{send, try_open, wait_for};
use crate::common::{Folder, Got, packets, pcap, pump, sink, source};
use crate::logs::logs;

/// Packets in each backend.
pub(crate) const PACKETS: u64 = 3000;

/// A source that can be reopened, with the same packets each time.
pub(crate) struct Backend {
    pub(crate) name: String,
    pub(crate) open: Box<dyn Fn() -> Box<dyn Source>>,
    /// Whether packets come on their own schedule: they are offered whatever the budget, and their
    /// times differ from one opening to the next.
    pub(crate) is_live: bool,
    /// Whether opening takes a second: slow backends are not in every test, and are opened rarely.
    pub(crate) is_slow: bool,
}

impl Backend {
    pub(crate) fn new(name: &str, open: impl Fn() -> Box<dyn Source> + 'static) -> Self {
        Self { name: name.to_owned(), open: Box::new(open), is_live: false, is_slow: false }
    }

    /// Returns the packets without fields that vary.
    pub(crate) fn comparable(&self, mut packets: Vec<Got>) -> Vec<Got> {
        if self.is_live {
            packets.iter_mut().for_each(|packet| packet.time_ns = 0);
        }
        // The sender's core chooses the queue, and it may move: the queues have no common order.
        if self.name.contains("queues=") {
            packets.sort_by(|one, next| one.bytes.cmp(&next.bytes));
        }
        packets
    }
}

pub(crate) fn options() -> OpenOptions {
    OpenOptions { hash: HashKind::FiveTuple, table: PortTable::new(), ..OpenOptions::default() }
}

/// Returns a plain pcapng with options and two interfaces, from the encoder alone.
fn pcapng() -> Vec<u8> {
    let mut encoder = PcapngEncoder::new(LinkType::ETHERNET, 262_144);
    let (mut file, mut place) = (Vec::new(), vec![0; 4096]);
    let bytes = encoder.section(&mut place, &SectionDescription::default()).unwrap();
    file.extend_from_slice(&place[..bytes]);
    for name in ["left", "right"] {
        let interface = InterfaceDescription::new(LinkType::ETHERNET, name);
        let bytes = encoder.interface(&mut place, &interface).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    for (number, (seconds, fraction, original_length, bytes)) in
        packets(PACKETS as u32).iter().enumerate()
    {
        let time_ns = u64::from(*seconds) * 1_000_000_000 + u64::from(*fraction);
        let is_odd = number % 2 == 1;
        let packet = PacketToWrite {
            original_length: *original_length,
            interface: is_odd.into(),
            direction: is_odd.then_some(Direction::Outbound),
            drops_before: (number % 13) as u64,
            ..PacketToWrite::new(bytes, time_ns)
        };
        let bytes = encoder.packet(&mut place, &packet).unwrap();
        file.extend_from_slice(&place[..bytes]);
    }
    file
}

/// Returns every source; the folder must outlive them.
pub(crate) fn sources(folder: &Folder) -> Vec<Backend> {
    let list = packets(PACKETS as u32);
    let classic = pcap(0xa1b2_c3d4, false, 1, &list);
    let half = classic.len() / 2;
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let files = [
        ("us.pcap", classic.clone()),
        ("ns-swapped.pcap", pcap(0xa1b2_3c4d, true, 1, &list)),
        ("raw.pcap", pcap(0xa1b2_3c4d, false, 101, &list)),
        ("two.pcapng", pcapng()),
        ("two-members.gz", [gzip(&classic[..half]), gzip(&classic[half..])].concat()),
        ("pcapng.gz", gzip(&pcapng())),
        (
            "frames.zst",
            [zstd(&classic[..half]), skippable.to_vec(), zstd(&classic[half..])].concat(),
        ),
    ];
    let mut backends = Vec::new();
    for (name, bytes) in files {
        let path = folder.file(name, &bytes);
        let address = format!("file:{}", path.display());
        backends.push(Backend::new(name, move || source(&address, &options()).unwrap()));
    }
    for (name, query) in [
        ("segmented", "segment=64k"),
        ("plain", "format=pcapng"),
        ("classic-ns", "format=pcap-ns"),
        ("classic", "format=pcap"),
    ] {
        let path = folder.path(name);
        let job = options();
        let from = folder.path("two.pcapng").display().to_string();
        let mut from = source(&format!("file:{from}"), &job).unwrap();
        let mut to = sink(&format!("file:{}?{query}", path.display()), &job).unwrap();
        assert_eq!(pump(&mut *from, &mut *to).unwrap(), PACKETS);
        to.finish().unwrap();
        let address = format!("file:{}", path.display());
        backends.push(Backend::new(name, move || source(&address, &options()).unwrap()));
    }
    for query in ["size=64", "size=imix&protocol=mix&ip=mix&vlan=5", "size=random:64-1518&seed=9"] {
        let address = format!("gen:?packets={PACKETS}&start=5&{query}");
        let name = address.clone();
        backends.push(Backend::new(&name, move || source(&address, &options()).unwrap()));
    }
    let inner = format!("file:{}", folder.path("two.pcapng").display());
    let address = inner.clone();
    backends.push(Backend::new("tracer", move || {
        Box::new(Tracer::new(source(&address, &options()).unwrap(), Box::new(std::io::sink())))
    }));
    for (name, drop, idle) in [("no faults", 0.0, 0.0), ("drops", 0.3, 0.0), ("idle", 0.1, 0.4)] {
        let address = inner.clone();
        backends.push(Backend::new(name, move || {
            let plan = FaultPlan { seed: 3, drop, idle, ..FaultPlan::default() };
            Box::new(FaultInjector::new(source(&address, &options()).unwrap(), plan))
        }));
    }
    backends.extend(logs(folder, &inner));
    backends.extend(cards());
    backends.extend(live());
    #[cfg(feature = "dpdk")]
    backends.extend(crate::devices::devices(folder));
    backends
}

/// Returns simulated cards that have taken all their packets from the wire.
fn cards() -> Vec<Backend> {
    let addresses = ["mode=writeback", "mode=inline&ring=64&fifo=1M", "mode=contiguous"];
    let cards = addresses.into_iter().map(|mode| {
        let wire = format!("gen:?packets={PACKETS}%26start=5%26size=64");
        let address = format!("nicsim:?{mode}&source={wire}");
        let opened = address.clone();
        let open = move || {
            let mut port = source(&opened, &options()).unwrap();
            wait_for(&*port, PACKETS);
            port.finish().unwrap();
            port
        };
        Backend { is_live: true, ..Backend::new(&address, open) }
    });
    cards.collect()
}

/// Returns live sources that have all their packets in their rings, and will get no more. Empty
/// without privileges.
fn live() -> Vec<Backend> {
    let Some(bed) = Bed::or_skip().map(Rc::new) else { return Vec::new() };
    let addresses =
        ["afpacket:v1?retire_ms=1", "xdp:v1?mode=native", "xdp:v1?mode=generic&frame=4096"];
    let live = addresses.into_iter().filter_map(|address| {
        if let Err(error) = try_open(&bed.far, address, options()) {
            assert!(error.to_string().contains("setcap"), "{error}");
            without(format!("{address}: {error}"));
            return None;
        }
        let bed = Rc::clone(&bed);
        let open = move || {
            let mut port = try_open(&bed.far, address, options()).unwrap();
            send(&bed, &Frames::new(PACKETS, 200));
            wait_for(&*port, PACKETS);
            port.finish().unwrap();
            port
        };
        Some(Backend { is_live: true, ..Backend::new(address, open) })
    });
    live.chain(taps(&bed)).collect()
}

/// How many TAP devices there were.
static TAPS: AtomicU64 = AtomicU64::new(1);

/// Returns TAP devices to which their host has sent all packets. A packet counts as offered when it
/// is taken, and it is available when the sending call returns.
fn taps(bed: &Rc<Bed>) -> Vec<Backend> {
    let addresses = ["tap:t1", "tap:t1?queues=3", "tap:t1?offloads=on&depth=8192"];
    let taps = addresses.into_iter().map(|address| {
        let bed = Rc::clone(bed);
        let open = move || {
            // A device of its own: a program started by another test may still hold queues of the
            // last one, and packets in them are not taken.
            let name = format!("t{}", TAPS.fetch_add(1, Relaxed)); // only a number
            let address = address.replace("t1", &name);
            let mut port = try_open(&bed.far, &address, options()).unwrap();
            bed.far.run(move || {
                let mut sender = Sender::open(&name, true).unwrap();
                assert_eq!(Frames::new(PACKETS, 200).send(&mut sender).unwrap(), PACKETS);
            });
            port.finish().unwrap();
            port
        };
        Backend { is_live: true, ..Backend::new(address, open) }
    });
    taps.collect()
}

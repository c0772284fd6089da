//! Identifies flows on the wire, independently of the code under test.
//!
//! A flow is defined by two addresses, the protocol and, if it has them, the ports, in either
//! direction. A later fragment has no ports: it belongs to the flow of its datagram's first
//! fragment.

use std::collections::{BTreeMap, HashMap};

use burstline_log::Scratch;
use burstline_port::{OpenOptions, PortState, open_source};

/// An address and a port; the port is 0 for protocols without ports.
type End = ([u8; 4], u16);

/// A flow: the protocol, and the smaller end first.
pub(crate) type Name = (u8, End, End);

/// Addresses, protocol and identification of a datagram.
type Datagram = ([u8; 4], [u8; 4], u8, u16);

/// Where a flow's packets were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Whereabouts {
    /// Packets by file.
    pub(crate) packets: BTreeMap<usize, u64>,
    /// Packets sent by the smaller end, and by the other.
    pub(crate) ways: [u64; 2],
    pub(crate) fragments: u64,
}

/// Reads the frames of a file, in order.
pub(crate) fn frames_of(path: &str) -> Vec<Vec<u8>> {
    let mut port = open_source(&path.parse().unwrap(), &OpenOptions::default()).unwrap();
    let (mut scratch, mut frames) = (Scratch::new(), Vec::new());
    loop {
        let lent = port.lend(&mut scratch, u64::MAX).unwrap();
        frames.extend(lent.burst.packets().map(|packet| packet.bytes().to_vec()));
        if lent.state == PortState::Ended {
            return frames;
        }
    }
}

/// One IPv4 packet. Source: RFC 791, section 3.1.
struct Ipv4 {
    datagram: Datagram,
    /// Whether the datagram is fragmented, and whether this is its first fragment.
    is_fragment: bool,
    is_first: bool,
    ports: [u16; 2],
}

impl Ipv4 {
    fn read(frame: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u16::from_be_bytes(*frame.get(at..)?.first_chunk()?));
        if word(12)? != 0x0800 {
            return None;
        }
        let address = |at: usize| frame.get(at..)?.first_chunk().copied();
        let (protocol, parts) = (*frame.get(23)?, word(20)?);
        let behind = 14 + usize::from(frame[14] & 15) * 4;
        let (is_fragment, is_first) = (parts & 0x3fff != 0, parts & 0x1fff == 0);
        let has_ports = matches!(protocol, 6 | 17) && is_first;
        let ports = if has_ports { [word(behind)?, word(behind + 2)?] } else { [0; 2] };
        let datagram = (address(26)?, address(30)?, protocol, word(18)?);
        Some(Self { datagram, is_fragment, is_first, ports })
    }

    /// Returns the flow by this packet's own headers, and whether the smaller end sent it.
    fn flow(&self) -> (Name, bool) {
        let (from, to, protocol, _) = self.datagram;
        let (from, to) = ((from, self.ports[0]), (to, self.ports[1]));
        ((protocol, from.min(to), from.max(to)), from <= to)
    }
}

/// Returns the IPv4 flows of some files, each a list of frames.
pub(crate) fn flows(files: &[Vec<Vec<u8>>]) -> HashMap<Name, Whereabouts> {
    let mut firsts = HashMap::new();
    for packet in files.iter().flatten().filter_map(|frame| Ipv4::read(frame)) {
        if packet.is_fragment && packet.is_first {
            firsts.insert(packet.datagram, packet.flow());
        }
    }
    let mut flows: HashMap<Name, Whereabouts> = HashMap::new();
    for (number, file) in files.iter().enumerate() {
        for packet in file.iter().filter_map(|frame| Ipv4::read(frame)) {
            let (name, is_lesser) = match packet.is_first {
                true => packet.flow(),
                false => firsts[&packet.datagram],
            };
            let flow = flows.entry(name).or_default();
            *flow.packets.entry(number).or_default() += 1;
            flow.ways[usize::from(!is_lesser)] += 1;
            flow.fragments += u64::from(packet.is_fragment);
        }
    }
    flows
}

/// Size of each frame of [`datagrams`].
pub(crate) const FRAME_BYTES: usize = 64;

/// Returns UDP datagrams between two ends that do not exist: `count` datagrams of each of `flows`
/// flows, from one of the ends. Every second one is in two fragments.
pub(crate) fn datagrams(flows: u16, count: u16, is_back: bool) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for number in 0..count {
        for flow in 0..flows {
            let id = number * flows + flow;
            match number % 2 {
                0 => frames.push(frame(flow, id, is_back, 0)),
                _ => frames.extend([0x2000, 4].map(|parts| frame(flow, id, is_back, parts))),
            }
        }
    }
    frames
}

/// `parts`: flags and offset of the fragment.
fn frame(flow: u16, id: u16, is_back: bool, parts: u16) -> Vec<u8> {
    let mut ends = [([10, 9, (flow >> 8) as u8, flow as u8], 4000 + flow), ([10, 8, 0, 1], 53)];
    if is_back {
        ends.reverse();
    }
    let [(from, from_port), (to, to_port)] = ends;
    // To an unused link address, so that no host answers.
    let mut frame = [[2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 8]].concat();
    let length = ((FRAME_BYTES - 14) as u16).to_be_bytes();
    frame.extend([0x08, 0, 0x45, 0, length[0], length[1]]);
    frame.extend([id, parts].map(u16::to_be_bytes).concat());
    frame.extend([64, 17, 0, 0]);
    frame.extend([from, to].concat());
    if parts & 0x1fff == 0 {
        frame.extend(
            [from_port, to_port, (FRAME_BYTES - 34) as u16, 0].map(u16::to_be_bytes).concat(),
        );
    }
    frame.resize(FRAME_BYTES, flow as u8);
    frame
}

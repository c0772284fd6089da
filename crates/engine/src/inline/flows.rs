//! A fixed-size table of the flows that a verdict has passed.
//!
//! ```text
//! hash --> set of 4: | key, hash, last used | ... |     the least recently used is replaced
//! ```
//!
//! The hash selects the set, and the whole key is compared, so flows with equal hashes stay
//! distinct. A flow that was silent for [`FLOW_IDLE_NS`], or that starts again with a SYN, needs a
//! new verdict. A tunnel is one flow.

use burstline_log::Packet;
use burstline_wire::flow::FlowKey;
use burstline_wire::headers::{self, Headers, LinkType, protocol};

/// The number of sets, a power of two, and of flows in each.
const SETS: usize = 4096;
const WAYS: usize = 4;
/// How long a silent flow is remembered, in ns.
const FLOW_IDLE_NS: u64 = 300_000_000_000;
/// Multiplier to mix the hash, whose bits may be uneven; the same as for a log's buckets.
const MIX: u32 = 0x9e37_79b1;
const SET_SHIFT: u32 = u32::BITS - SETS.trailing_zeros();

/// TCP flags. Source: RFC 9293, section 3.1.
const FLAGS_AT: usize = 13;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// The identity of a flow, the same for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flow {
    key: FlowKey,
    /// The VLAN ids of its tags, 12 bits each.
    tags: u64,
}

impl Flow {
    /// Returns the flow of a packet, or `None` if it is not IP.
    pub(super) fn of(link: LinkType, packet: &[u8]) -> Option<Self> {
        Self::parsed(&headers::parse(link, packet), packet)
    }

    fn parsed(headers: &Headers, packet: &[u8]) -> Option<Self> {
        let tags = headers.tags().iter().fold(0, |tags, tag| tags << 12 | u64::from(tag.id()));
        Some(Self { key: FlowKey::new(headers, packet)?.symmetric(), tags })
    }
}

#[derive(Clone, Copy)]
struct Known {
    flow: Flow,
    hash: u32,
    used_ns: u64,
}

/// The passed flows of one direction.
#[derive(Default)]
pub(super) struct Flows {
    /// Empty before the first flow.
    sets: Vec<[Option<Known>; WAYS]>,
    /// Counts of flows entered and of flows replaced.
    pub(super) entered: u64,
    pub(super) forgotten: u64,
}

impl Flows {
    /// Returns whether a packet's flow was passed. Cost: one load if no flow ever was; else a cache
    /// line, and a parse of the headers if a hash matches.
    #[inline]
    pub(super) fn passes(
        &mut self,
        packet: &Packet<'_>,
        now_ns: u64,
        link: impl FnOnce() -> LinkType,
    ) -> bool {
        let hash = packet.desc().hash();
        let Some(set) = self.sets.get_mut(set_of(hash)) else { return false };
        if set.iter().flatten().all(|known| known.hash != hash) {
            return false;
        }
        let bytes = packet.bytes();
        let headers = headers::parse(link(), bytes);
        let Some(flow) = Flow::parsed(&headers, bytes) else { return false };
        let is_it = |known: &Known| known.hash == hash && known.flow == flow;
        let Some(way) = set.iter_mut().find(|way| way.as_ref().is_some_and(is_it)) else {
            return false;
        };
        let is_idle = |known: &Known| now_ns.saturating_sub(known.used_ns) > FLOW_IDLE_NS;
        if way.as_ref().is_some_and(is_idle) || begins(&headers, bytes) {
            *way = None;
            return false;
        }
        if let Some(known) = way {
            known.used_ns = now_ns;
        }
        true
    }

    /// Adds a flow, whose later packets then pass.
    pub(super) fn enter(&mut self, flow: Flow, hash: u32, now_ns: u64) {
        if self.sets.is_empty() {
            self.sets = vec![[None; WAYS]; SETS];
        }
        let set = &mut self.sets[set_of(hash)];
        let is_it = |way: &Option<Known>| way.is_some_and(|known| known.flow == flow);
        let rested = |way: &Option<Known>| way.map_or(0, |known| known.used_ns.max(1));
        let at = set.iter().position(is_it);
        let oldest = (0..WAYS).min_by_key(|&at| rested(&set[at])).unwrap_or(0);
        let way = &mut set[at.unwrap_or(oldest)];
        self.entered += u64::from(at.is_none());
        self.forgotten += u64::from(at.is_none() && way.is_some());
        *way = Some(Known { flow, hash, used_ns: now_ns });
    }
}

#[inline]
fn set_of(hash: u32) -> usize {
    (hash.wrapping_mul(MIX) >> SET_SHIFT) as usize
}

/// Returns whether the packet opens a TCP connection.
fn begins(headers: &Headers, packet: &[u8]) -> bool {
    let is_tcp = headers.protocol == protocol::TCP && !headers.is_later_fragment();
    let flags = packet.get(headers.transport_offset as usize + FLAGS_AT);
    is_tcp && flags.is_some_and(|flags| flags & (SYN | ACK) == SYN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use burstline_log::{Meta, Scratch};

    /// Builds an IPv4 TCP packet from port `source`, with these flags.
    fn tcp(source: u16, flags: u8) -> Vec<u8> {
        let mut bytes = vec![0; 54];
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14..18].copy_from_slice(&[0x45, 0, 0, 40]);
        bytes[23] = 6;
        bytes[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
        bytes[34..36].copy_from_slice(&source.to_be_bytes());
        bytes[46] = 0x50;
        bytes[47] = flags;
        bytes
    }

    fn passes(flows: &mut Flows, bytes: &[u8], hash: u32, now_ns: u64) -> bool {
        let mut scratch = Scratch::new();
        let length = bytes.len() as u32;
        scratch.push(0, length, &Meta { hash, ..Meta::new(0, length, 0) });
        flows.passes(&scratch.burst(bytes, 0).packet(0), now_ns, || LinkType::ETHERNET)
    }

    #[test]
    fn the_whole_key_decides_and_a_syn_or_a_rest_ends_it() {
        let (mut flows, hash) = (Flows::default(), 77);
        let one = tcp(1000, ACK);
        assert!(!passes(&mut flows, &one, hash, 1), "there is none");
        flows.enter(Flow::of(LinkType::ETHERNET, &one).unwrap(), hash, 1);
        assert!(passes(&mut flows, &one, hash, 2));
        assert!(!passes(&mut flows, &tcp(1001, ACK), hash, 2), "another, whose hash is the same");
        assert!(passes(&mut flows, &tcp(1000, SYN | ACK), hash, 3));
        assert!(passes(&mut flows, &one, hash, 3 + FLOW_IDLE_NS));
        assert!(!passes(&mut flows, &one, hash, 4 + 2 * FLOW_IDLE_NS));
        flows.enter(Flow::of(LinkType::ETHERNET, &one).unwrap(), hash, 5);
        assert!(!passes(&mut flows, &tcp(1000, SYN), hash, 6), "a new connection");
        assert!(!passes(&mut flows, &one, hash, 6));
        let mut tagged = one.clone();
        tagged.splice(12..12, [0x81, 0, 0, 5]);
        flows.enter(Flow::of(LinkType::ETHERNET, &tagged).unwrap(), hash, 7);
        assert!(!passes(&mut flows, &one, hash, 8), "of another VLAN");
        assert!(passes(&mut flows, &tagged, hash, 8));
    }

    #[test]
    fn the_table_is_bounded_and_the_flow_that_rested_longest_gives_way() {
        let mut flows = Flows::default();
        let flow = |port| Flow::of(LinkType::ETHERNET, &tcp(port, ACK)).unwrap();
        for port in 0..WAYS as u16 {
            flows.enter(flow(port), 9, 10 + u64::from(port));
        }
        assert!(passes(&mut flows, &tcp(0, ACK), 9, 100));
        flows.enter(flow(99), 9, 101);
        assert_eq!((flows.entered, flows.forgotten), (5, 1));
        assert!(!passes(&mut flows, &tcp(1, ACK), 9, 102), "it rested longest");
        for port in [0, 2, 3, 99] {
            assert!(passes(&mut flows, &tcp(port, ACK), 9, 103), "{port}");
        }
        flows.enter(flow(99), 9, 104);
        assert_eq!((flows.entered, flows.forgotten), (5, 1), "it is there already");
        for port in 0..60_000 {
            flows.enter(flow(port), u32::from(port).wrapping_mul(0x0100_0193), 200);
        }
        assert!(flows.entered - flows.forgotten <= (SETS * WAYS) as u64);
    }
}

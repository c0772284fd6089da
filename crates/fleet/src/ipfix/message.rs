//! Encodes messages: a header, then sets of templates or of data.
//!
//! Source: RFC 7011, sections 3.1 to 3.4; element numbers: IANA's registry of IPFIX.

use std::net::IpAddr;

use burstline_flow::{EndReason, Made, Record};

/// Set ids of templates, and the ids of ours.
const TEMPLATES: u16 = 2;
const OPTIONS_TEMPLATES: u16 = 3;
const FLOW_IPV4: u16 = 256;
const FLOW_IPV6: u16 = 257;
const STATISTICS: u16 = 258;

const VERSION: u16 = 10;
const HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;

/// An element and its length in bytes.
struct Field {
    element: u16,
    bytes: u16,
}

const fn field(element: u16, bytes: u16) -> Field {
    Field { element, bytes }
}

/// The addresses, first.
const ENDS_IPV4: [Field; 2] = [field(8, 4), field(12, 4)];
const ENDS_IPV6: [Field; 2] = [field(27, 16), field(28, 16)];
/// ICMP type and code, after the addresses.
const ICMP_IPV4: Field = field(32, 2);
const ICMP_IPV6: Field = field(139, 2);

/// The remaining fields, in the order in which [`Messages::data`] writes them.
const REST: [Field; 14] = [
    field(7, 2),   // sourceTransportPort
    field(11, 2),  // destinationTransportPort
    field(4, 1),   // protocolIdentifier
    field(6, 1),   // tcpControlBits, reduced to the byte in use
    field(136, 1), // flowEndReason
    field(1, 8),   // octetDeltaCount
    field(2, 8),   // packetDeltaCount
    field(133, 8), // droppedPacketDeltaCount: lost by the port in the meantime
    field(152, 8), // flowStartMilliseconds
    field(153, 8), // flowEndMilliseconds
    field(58, 2),  // vlanId
    field(56, 6),  // sourceMacAddress
    field(80, 6),  // destinationMacAddress
    field(10, 4),  // ingressInterface
];

/// The scope of the statistics, then their fields, as [`Messages::statistics`] writes them.
const SCOPE: Field = field(149, 4); // observationDomainId
const SAYS: [Field; 6] = [
    field(41, 8),  // exportedMessageTotalCount
    field(40, 8),  // exportedOctetTotalCount
    field(42, 8),  // exportedFlowRecordTotalCount
    field(164, 8), // ignoredPacketTotalCount: packets without a flow
    field(165, 8), // notSentFlowTotalCount
    field(166, 8), // notSentPacketTotalCount
];

/// Most bytes of the data records of one flow record, with their set's header.
pub(super) const RECORD_BYTES_MOST: usize = SET_HEADER_BYTES + 2 * (32 + 2 + 65);

/// Totals sent and lost, for the statistics.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) messages: u64,
    pub(super) bytes: u64,
    pub(super) records: u64,
    pub(super) records_lost: u64,
    pub(super) packets_lost: u64,
}

/// Builds the messages of one observation domain.
#[derive(Debug)]
pub(super) struct Messages {
    domain: u32,
    /// Data records in all messages of this session so far.
    sequence: u32,
    bytes_most: usize,
    /// The current message, and its number of data records.
    message: Vec<u8>,
    data_records: u32,
    /// Start and kind of its last set.
    set: Option<Set>,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    at: usize,
    number: u16,
}

impl Messages {
    /// Creates messages with at most `bytes_most` bytes, in `[512, 65535]`.
    pub(super) fn new(domain: u32, bytes_most: usize) -> Self {
        assert!((512..=65535).contains(&bytes_most), "{bytes_most} bytes a message");
        let message = vec![0; HEADER_BYTES];
        Self { domain, sequence: 0, bytes_most, message, data_records: 0, set: None }
    }

    /// Starts a new session with sequence number 0.
    pub(super) fn restart(&mut self) {
        self.sequence = 0;
    }

    /// Returns whether another flow record fits.
    pub(super) fn has_room(&self) -> bool {
        self.message.len() + RECORD_BYTES_MOST <= self.bytes_most
    }

    /// Ends and returns the message. `now_s` is in seconds since 1970.
    pub(super) fn take(&mut self, now_s: u32) -> Vec<u8> {
        self.end_set();
        let mut message = std::mem::replace(&mut self.message, vec![0; HEADER_BYTES]);
        let length = message.len() as u16;
        message[..2].copy_from_slice(&VERSION.to_be_bytes());
        message[2..4].copy_from_slice(&length.to_be_bytes());
        message[4..8].copy_from_slice(&now_s.to_be_bytes());
        message[8..12].copy_from_slice(&self.sequence.to_be_bytes());
        message[12..16].copy_from_slice(&self.domain.to_be_bytes());
        self.sequence = self.sequence.wrapping_add(std::mem::take(&mut self.data_records));
        message
    }

    /// Returns a message with all templates, to be sent before the current one.
    pub(super) fn templates(&self, now_s: u32) -> Vec<u8> {
        let mut fresh = Self::new(self.domain, self.bytes_most);
        fresh.sequence = self.sequence;
        fresh.describe_all();
        fresh.take(now_s)
    }

    fn describe_all(&mut self) {
        self.begin_set(TEMPLATES);
        for (number, ends, icmp) in
            [(FLOW_IPV4, &ENDS_IPV4, &ICMP_IPV4), (FLOW_IPV6, &ENDS_IPV6, &ICMP_IPV6)]
        {
            let fields: Vec<&Field> = ends.iter().chain([icmp]).chain(&REST).collect();
            self.put(&number.to_be_bytes());
            self.put(&(fields.len() as u16).to_be_bytes());
            fields.into_iter().for_each(|field| self.describe(field));
        }
        self.begin_set(OPTIONS_TEMPLATES);
        self.put(&STATISTICS.to_be_bytes());
        self.put(&(1 + SAYS.len() as u16).to_be_bytes());
        self.put(&1_u16.to_be_bytes());
        self.describe(&SCOPE);
        SAYS.iter().for_each(|field| self.describe(field));
        self.end_set();
    }

    /// Adds the statistics of losses so far.
    pub(super) fn statistics(&mut self, made: &Made, totals: &Totals) {
        self.begin_set(STATISTICS);
        self.put(&self.domain.to_be_bytes());
        for number in [
            totals.messages,
            totals.bytes,
            totals.records,
            made.packets_without_flow,
            made.records_dropped + totals.records_lost,
            made.packets_dropped + totals.packets_lost,
        ] {
            self.put(&number.to_be_bytes());
        }
        self.data_records += 1;
        self.end_set();
    }

    /// Adds a flow record: the forward direction, and the reverse one if it has packets.
    pub(super) fn record(&mut self, record: &Record) {
        let (packets, bytes) = (record.packets_back, record.bytes_back);
        self.data(
            record,
            &Way {
                from: record.source(),
                to: record.destination(),
                packets: record.packets - packets,
                bytes: record.bytes - bytes,
                flags: record.tcp_flags,
                is_back: false,
            },
        );
        if packets > 0 {
            self.data(
                record,
                &Way {
                    from: record.destination(),
                    to: record.source(),
                    packets,
                    bytes,
                    flags: record.tcp_flags_back,
                    is_back: true,
                },
            );
        }
    }

    fn data(&mut self, record: &Record, way: &Way) {
        let number = if way.from.is_ipv4() { FLOW_IPV4 } else { FLOW_IPV6 };
        if self.set.is_none_or(|set| set.number != number) {
            self.begin_set(number);
        }
        for address in [way.from, way.to] {
            match address {
                IpAddr::V4(address) => self.put(&address.octets()),
                IpAddr::V6(address) => self.put(&address.octets()),
            }
        }
        self.put(&record.icmp.unwrap_or_default());
        let ports = record.key.ports.map_or((0, 0), |ports| (ports.source, ports.destination));
        let (from, to) = if way.is_back { (ports.1, ports.0) } else { ports };
        self.put(&from.to_be_bytes());
        self.put(&to.to_be_bytes());
        self.put(&[record.key.protocol, way.flags, end_reason(record.end)]);
        // A loss is reported once, not per direction.
        let losses = if way.is_back { 0 } else { record.losses };
        let (first_ms, last_ms) = (record.first_ns / 1_000_000, record.last_ns / 1_000_000);
        for number in [way.bytes, way.packets, losses, first_ms, last_ms] {
            self.put(&number.to_be_bytes());
        }
        self.put(&record.vlan.unwrap_or(0).to_be_bytes());
        let macs = record.macs.unwrap_or_default();
        let (to, from) = macs.split_at(6);
        let (from, to) = if way.is_back { (to, from) } else { (from, to) };
        self.put(from);
        self.put(to);
        self.put(&u32::from(record.port).to_be_bytes());
        self.data_records += 1;
    }

    fn describe(&mut self, field: &Field) {
        self.put(&field.element.to_be_bytes());
        self.put(&field.bytes.to_be_bytes());
    }

    fn put(&mut self, bytes: &[u8]) {
        self.message.extend_from_slice(bytes);
    }

    fn begin_set(&mut self, number: u16) {
        self.end_set();
        self.set = Some(Set { at: self.message.len(), number });
        self.put(&number.to_be_bytes());
        self.put(&[0; 2]);
    }

    fn end_set(&mut self) {
        let Some(Set { at, .. }) = self.set.take() else { return };
        let length = (self.message.len() - at) as u16;
        self.message[at + 2..at + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// One direction of a flow record.
struct Way {
    from: IpAddr,
    to: IpAddr,
    packets: u64,
    bytes: u64,
    flags: u8,
    is_back: bool,
}

/// Source: RFC 5102, section 5.11.3.
fn end_reason(reason: EndReason) -> u8 {
    match reason {
        EndReason::Idle => 1,
        EndReason::Active => 2,
        EndReason::Fin | EndReason::Rst => 3,
        EndReason::End => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn u16_at(message: &[u8], at: usize) -> u16 {
        u16::from_be_bytes([message[at], message[at + 1]])
    }

    /// Returns ids and lengths of the sets of a message, after checking its header.
    fn sets(message: &[u8]) -> Vec<(u16, usize)> {
        assert_eq!((u16_at(message, 0), usize::from(u16_at(message, 2))), (10, message.len()));
        let (mut sets, mut at) = (Vec::new(), HEADER_BYTES);
        while at < message.len() {
            let length = usize::from(u16_at(message, at + 2));
            sets.push((u16_at(message, at), length));
            at += length;
        }
        assert_eq!(at, message.len());
        sets
    }

    #[test]
    fn templates_are_as_long_as_the_records_they_describe() {
        let messages = Messages::new(7, 1400);
        let message = messages.templates(5);
        assert_eq!(sets(&message).iter().map(|set| set.0).collect::<Vec<_>>(), [2, 3]);
        let bytes = |fields: &[Field]| fields.iter().map(|field| field.bytes).sum::<u16>();
        let rest = bytes(&REST) + ICMP_IPV4.bytes;
        assert_eq!((bytes(&ENDS_IPV4) + rest, bytes(&ENDS_IPV6) + rest), (75, 99));
        assert_eq!(RECORD_BYTES_MOST, 4 + 2 * 99);
        let mut messages = Messages::new(7, 1400);
        messages.statistics(&Made::default(), &Totals::default());
        let length = usize::from(SCOPE.bytes + bytes(&SAYS));
        assert_eq!(sets(&messages.take(5)), [(258, 4 + length)]);
    }

    #[test]
    fn sequences_count_data_records_and_begin_anew() {
        let mut messages = Messages::new(7, 1400);
        for wanted in [0, 1, 2] {
            messages.statistics(&Made::default(), &Totals::default());
            let message = messages.take(5);
            assert_eq!(u32::from_be_bytes(message[8..12].try_into().unwrap()), wanted);
            assert_eq!(u32::from_be_bytes(message[12..16].try_into().unwrap()), 7);
            assert_eq!(messages.templates(5)[8..12], (wanted + 1).to_be_bytes());
        }
        messages.restart();
        assert_eq!(messages.templates(5)[8..12], [0; 4]);
    }
}

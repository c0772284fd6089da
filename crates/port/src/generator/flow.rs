//! One flow: its constant bytes, and partial sums for its checksums.
//!
//! ```text
//!  image: headers, or all of a short packet | zeros | mark: magic, check, stream | number, time
//!  patched, if lengths differ: lengths, IPv4 checksum, check          always: TCP/UDP checksum
//! ```
//!
//! Sums come from one complete packet, the model, whose checksums were computed in full. Checksums
//! of other packets follow from the model's: add the words that the packet has in addition,
//! subtract those that only the model has. In ones' complement sums, subtracting means adding the
//! complement.

use burstline_wire::checksum::{fold, sum};
use burstline_wire::mark::{self, Mark, Stream};

use super::headers::{Shape, complete, complete_transport, transport_checksum};

/// Bytes of a mark that are equal for all packets of a flow with the same length.
const HEAD_BYTES: usize = 8;

/// Offset of the number and the time in a mark.
pub(super) const NUMBER_AT: usize = HEAD_BYTES;

/// Packets up to this length are copied whole.
const IMAGE_MOST: usize = 256;

static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// The destination of a packet being built.
pub(super) trait Place {
    /// Writes `bytes` at offset `at`, within bounds.
    fn write(&mut self, at: usize, bytes: &[u8]);
}

impl Place for burstline_log::Slot<'_> {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        burstline_log::Room::write(self, at, bytes);
    }
}

impl Place for &mut [u8] {
    #[inline]
    fn write(&mut self, at: usize, bytes: &[u8]) {
        self[at..at + bytes.len()].copy_from_slice(bytes);
    }
}

/// A timestamp in the format of a mark.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    /// The upper 32 of its 48 bits.
    first: u64,
    last: u16,
    sum: u32,
}

/// The variable part of a packet's mark: its number, and its time.
#[derive(Clone, Copy)]
pub(super) struct Numbered<'a> {
    pub(super) sequence: u32,
    pub(super) moment: &'a Moment,
}

impl Moment {
    #[inline]
    pub(super) fn new(time_ns: u64) -> Self {
        let (first, last) = (time_ns >> 16 & 0xffff_ffff, time_ns as u16);
        Self { first, last, sum: (first >> 16) as u32 + (first as u32 & 0xffff) + u32::from(last) }
    }

    /// Returns the first 8 bytes: the number and the start of the time.
    #[inline]
    pub(super) fn first_bytes(&self, sequence: u32) -> [u8; 8] {
        (u64::from(sequence) << 32 | self.first).to_be_bytes()
    }

    #[inline]
    pub(super) fn last_bytes(&self) -> [u8; 2] {
        self.last.to_be_bytes()
    }

    #[inline]
    pub(super) fn sum_with(&self, sequence: u32) -> u32 {
        self.sum + (sequence >> 16) + (sequence & 0xffff)
    }
}

/// One flow.
pub(super) struct Flow {
    /// The packets' common prefix, in the arena of all flows.
    image_at: u32,
    image_bytes: u32,
    /// The length of every packet, without FCS; 0 if it is random.
    length: u32,
    pub(super) hash: u32,
    sums: Sums,
    head: [u8; HEAD_BYTES],
    shape: Shape,
    has_marks: bool,
}

/// Sums of words, without those that differ by packet. If the flow has one length, `transport`
/// includes it, and the other sums are unused.
#[derive(Clone, Copy, Default)]
struct Sums {
    outer: u32,
    network: u32,
    transport: u32,
    frame: u32,
}

/// Returns the term that removes `word` from a sum.
fn minus(word: u16) -> u32 {
    (!word).into()
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

impl Flow {
    /// Creates a flow of packets like `packet`, with TCP or UDP at `shape` up to the end. They have
    /// a mark if it fits.
    pub(super) fn fixed(packet: &mut Vec<u8>, shape: Shape, stream: Option<Stream>) -> Self {
        let at = mark::offset(packet.len()).filter(|at| *at >= usize::from(shape.payload_at));
        let mark_at = at.zip(stream);
        let mut head = [0; HEAD_BYTES];
        let mut transport = 0;
        if let Some((at, stream)) = mark_at {
            let check = Self::put_mark(packet, &shape, at, stream);
            head.copy_from_slice(&packet[at..at + HEAD_BYTES]);
            debug_assert_eq!(check, word(&head, 2));
            transport = minus(word(packet, shape.checksum_at()));
        }
        let sums = Sums { transport, ..Sums::default() };
        let has_marks = mark_at.is_some();
        let length = packet.len() as u32;
        // Zeros of long packets need no image, and the mark is written anyway.
        let payload = usize::from(shape.payload_at);
        let (zeros_end, rest) = match mark_at {
            Some((at, _)) => (at, at + mark::BYTES),
            None => (packet.len(), packet.len()),
        };
        let mut others = packet[payload..zeros_end].iter().chain(&packet[rest..]);
        if packet.len() > IMAGE_MOST && others.all(|byte| *byte == 0) {
            packet.truncate(payload);
        }
        Self { image_at: 0, image_bytes: 0, length, hash: 0, sums, head, shape, has_marks }
    }

    /// Creates a flow of identical packets.
    pub(super) fn verbatim(packet: &[u8]) -> Self {
        Self {
            image_at: 0,
            image_bytes: 0,
            length: packet.len() as u32,
            hash: 0,
            sums: Sums::default(),
            head: [0; HEAD_BYTES],
            shape: Shape {
                outer_at: 0,
                network_at: 0,
                transport_at: 0,
                payload_at: 0,
                is_ipv6: false,
                is_tcp: false,
            },
            has_marks: false,
        }
    }

    /// Creates a flow of any packet lengths, with these `headers`.
    pub(super) fn open(headers: &[u8], shape: Shape, stream: Option<Stream>) -> Self {
        let mut model = headers.to_vec();
        model.resize(headers.len() + mark::BYTES, 0);
        let (length, at) = (model.len(), headers.len());
        complete(&mut model, &shape);
        let mut sums = Sums::default();
        if let Some(stream) = stream {
            let check = Self::put_mark(&mut model, &shape, at, stream);
            sums.transport = minus(check);
        }
        let segment = (length - usize::from(shape.transport_at)) as u16;
        sums.transport += minus(word(&model, shape.checksum_at())) + minus(segment);
        sums.transport += if shape.is_tcp { 0 } else { minus(segment) };
        let without_total = |at: usize| minus(word(&model, at + 10)) + minus(word(&model, at + 2));
        if !shape.is_ipv6 {
            sums.network = without_total(shape.network_at.into());
        }
        if shape.outer_at > 0 {
            sums.outer = without_total(shape.outer_at.into());
        }
        let frame = i64::from(sum(&model)) - i64::from(shape.slope()) * length as i64;
        // Twice 0xffff, which is 0 here, so that subtracting a length does not go below 0.
        sums.frame = frame.rem_euclid(0xffff) as u32 + 2 * 0xffff;
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&model[at..at + HEAD_BYTES]);
        let has_marks = stream.is_some();
        Self { image_at: 0, image_bytes: 0, length: 0, hash: 0, sums, head, shape, has_marks }
    }

    /// Puts a mark into an otherwise complete packet: number 0, at time 0.
    fn put_mark(packet: &mut [u8], shape: &Shape, at: usize, stream: Stream) -> u16 {
        let mark = Mark { stream, sequence: 0, time_ns: 0 };
        let put = |packet: &mut [u8], check| {
            packet[at..at + mark::BYTES].copy_from_slice(&mark::encode(&mark, check));
            complete_transport(packet, shape);
        };
        put(packet, 0);
        let check = mark::check(sum(packet));
        put(packet, check);
        check
    }

    /// Stores the packets' common prefix in the arena.
    pub(super) fn store(&mut self, arena: &mut Vec<u8>, image: &[u8]) {
        (self.image_at, self.image_bytes) = (arena.len() as u32, image.len() as u32);
        arena.extend_from_slice(image);
    }

    /// Returns the length of every packet, without FCS, if it is fixed.
    #[inline]
    pub(super) fn length(&self) -> Option<u32> {
        (self.length > 0).then_some(self.length)
    }

    /// Whether a packet of `length` bytes has a mark.
    #[inline]
    pub(super) fn is_marked(&self, length: u32) -> bool {
        let least = u32::from(self.shape.payload_at) + mark::BYTES as u32;
        self.has_marks && (self.length > 0 || length >= least)
    }

    /// Returns the length of the shortest packet, without FCS.
    #[inline]
    pub(super) fn shortest(&self) -> u32 {
        self.length.max(self.shape.payload_at.into())
    }

    /// Builds packet number `sequence` of those with a mark. `place` has exactly `length` bytes.
    ///
    /// Cost: a copy of the image, zeros after it, some 30 additions.
    #[inline]
    pub(super) fn build(
        &self,
        arena: &[u8],
        place: &mut impl Place,
        length: usize,
        sequence: u32,
        moment: &Moment,
    ) {
        match self.length {
            0 => self.build_open(arena, place, length, Numbered { sequence, moment }),
            _ => self.build_fixed(arena, place, Numbered { sequence, moment }),
        }
    }

    /// Builds a packet of a flow with one length.
    #[inline]
    pub(super) fn build_fixed(&self, arena: &[u8], place: &mut impl Place, numbered: Numbered<'_>) {
        let length = self.length as usize;
        let image = self.image(arena);
        place.write(0, image);
        let is_whole = image.len() == length;
        if !self.has_marks {
            if !is_whole {
                place.write(image.len(), &ZEROS[..length - image.len()]);
            }
            return;
        }
        // The offset was validated when the flow was created.
        let at = (length - mark::BYTES) & !1;
        if !is_whole {
            self.put_rest(place, image.len(), at, length, &self.head);
        }
        let sum = self.sums.transport + self.put_moment(place, at, numbered);
        self.put_checksum(place, sum);
    }

    #[inline]
    fn build_open(
        &self,
        arena: &[u8],
        place: &mut impl Place,
        length: usize,
        numbered: Numbered<'_>,
    ) {
        let image = self.image(arena);
        place.write(0, image);
        let mut sum = self.sums.transport + self.patch_lengths(place, length);
        if !self.is_marked(length as u32) {
            place.write(image.len(), &ZEROS[..length - image.len()]);
            return self.put_checksum(place, sum + self.without_mark());
        }
        let at = (length - mark::BYTES) & !1;
        let slope = self.shape.slope() * length as i32;
        let check = mark::check(fold(self.sums.frame.wrapping_add_signed(slope)));
        let mut head = self.head;
        head[2..4].copy_from_slice(&check.to_be_bytes());
        self.put_rest(place, image.len(), at, length, &head);
        sum += u32::from(check) + self.put_moment(place, at, numbered);
        self.put_checksum(place, sum);
    }

    /// Returns the packets' common prefix.
    #[inline]
    pub(super) fn image<'a>(&self, arena: &'a [u8]) -> &'a [u8] {
        let at = self.image_at as usize;
        &arena[at..at + self.image_bytes as usize]
    }

    /// Writes the constant bytes after the image.
    #[inline]
    fn put_rest(
        &self,
        place: &mut impl Place,
        from: usize,
        mark_at: usize,
        length: usize,
        head: &[u8; HEAD_BYTES],
    ) {
        if mark_at > from {
            place.write(from, &ZEROS[..mark_at - from]);
        }
        place.write(mark_at, head);
        if mark_at + mark::BYTES < length {
            place.write(length - 1, &[0]);
        }
    }

    /// Writes the number and the time: 10 bytes. Returns their sum.
    #[inline]
    fn put_moment(
        &self,
        place: &mut impl Place,
        mark_at: usize,
        Numbered { sequence, moment }: Numbered<'_>,
    ) -> u32 {
        place.write(mark_at + NUMBER_AT, &moment.first_bytes(sequence));
        place.write(mark_at + NUMBER_AT + 8, &moment.last_bytes());
        moment.sum_with(sequence)
    }

    /// Returns the checksum's partial sum for a flow with one length, without number and time.
    pub(super) fn transport_sum(&self) -> u32 {
        self.sums.transport
    }

    pub(super) fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the correction of the TCP or UDP sum for a packet without room for a mark.
    fn without_mark(&self) -> u32 {
        match self.has_marks {
            false => 0,
            true => {
                minus(word(&self.head, 0)) + minus(word(&self.head, 4)) + minus(word(&self.head, 6))
            }
        }
    }

    #[inline]
    fn put_checksum(&self, place: &mut impl Place, sum: u32) {
        let checksum = transport_checksum(fold(sum).into(), self.shape.is_tcp);
        place.write(self.shape.checksum_at(), &checksum.to_be_bytes());
    }

    /// Writes the lengths and IPv4 checksums. Returns the lengths' part of TCP or UDP sums.
    #[inline]
    fn patch_lengths(&self, place: &mut impl Place, length: usize) -> u32 {
        let shape = &self.shape;
        let (network, transport) = (usize::from(shape.network_at), usize::from(shape.transport_at));
        let segment = length - transport;
        if shape.outer_at > 0 {
            let outer = usize::from(shape.outer_at);
            put_ipv4(place, outer, length - outer, self.sums.outer);
            place.write(outer + 24, &((length - outer - 20) as u16).to_be_bytes());
        }
        match shape.is_ipv6 {
            true => place.write(network + 4, &(segment as u16).to_be_bytes()),
            false => put_ipv4(place, network, length - network, self.sums.network),
        }
        if shape.is_tcp {
            return segment as u32;
        }
        place.write(transport + 4, &(segment as u16).to_be_bytes());
        2 * segment as u32
    }
}

#[inline]
fn put_ipv4(place: &mut impl Place, at: usize, total: usize, sum: u32) {
    place.write(at + 2, &(total as u16).to_be_bytes());
    place.write(at + 10, &(!fold(sum + total as u32)).to_be_bytes());
}

#[cfg(test)]
pub(super) mod tests {
    use burstline_wire::checksum::holds;
    use burstline_wire::headers::{LinkType, parse};

    use super::super::headers::headers;
    use super::super::recipe::{Content, Recipe};
    use super::*;

    /// Returns headers of every kind.
    pub(in super::super) fn kinds() -> Vec<(Vec<u8>, Shape)> {
        let mut kinds = Vec::new();
        for query in ["", "&vlan=7", "&vxlan=99", "&vxlan=99&vlan=7"] {
            let address = format!("gen:?protocol=mix&ip=mix&flows=4{query}").parse().unwrap();
            let Content::Made(pattern) = Recipe::parse(&address).unwrap().content else { panic!() };
            kinds.extend((0..4).map(|flow| headers(&pattern, &pattern.spec(flow))));
        }
        kinds
    }

    /// Creates a flow whose packets all have `length` bytes, and its arena.
    pub(in super::super) fn fixed(headers: &[u8], shape: Shape, length: usize) -> (Flow, Vec<u8>) {
        let mut model = headers.to_vec();
        model.resize(length, 0);
        complete(&mut model, &shape);
        let (mut flow, mut arena) =
            (Flow::fixed(&mut model, shape, Some(Stream::new(5, 77))), Vec::new());
        flow.store(&mut arena, &model);
        (flow, arena)
    }

    /// Tests both ways of building packets.
    #[test]
    fn lengths_checksums_and_marks_hold_for_every_kind_of_packet() {
        for (bytes, shape) in kinds() {
            for extra in [0, 1, 2, 17, 18, 19, 20, 21, 700, 1401] {
                let length = bytes.len() + extra;
                for time_ns in [0, 1_800_000_000_123_456_789, u64::MAX] {
                    check(&bytes, shape, length, time_ns);
                }
            }
        }
    }

    fn check(headers: &[u8], shape: Shape, length: usize, time_ns: u64) {
        let stream = Stream::new(5, 77);
        let (mut open, mut headers_only) = (Flow::open(headers, shape, Some(stream)), Vec::new());
        open.store(&mut headers_only, headers);
        let mut made = Vec::new();
        for (flow, arena) in [(open, headers_only), fixed(headers, shape, length)] {
            let (mut packet, sequence) = (vec![0xaa; length], 0xfedc_ba98);
            let moment = Moment::new(time_ns);
            flow.build(&arena, &mut &mut packet[..], length, sequence, &moment);
            let inner = &packet[usize::from(shape.network_at) - 14..];
            for part in [&packet, inner] {
                let parsed = parse(LinkType::ETHERNET, part);
                let is_tunnel = shape.outer_at > 0 && part.len() == packet.len();
                let expected = if is_tunnel { None } else { Some(true) };
                // A tag at the position of the inner frame's type is parsed as the type.
                if shape.outer_at > 0 || part.len() == packet.len() {
                    assert_eq!(holds(&parsed, part), expected, "{length} {shape:?} {part:x?}");
                }
            }
            let has_room = length >= headers.len() + mark::BYTES;
            let expected = Mark { stream, sequence, time_ns: time_ns & 0xffff_ffff_ffff };
            assert_eq!(mark::find(&packet), has_room.then_some(expected), "{length} {shape:?}");
            assert_eq!(mark::is_intact(&packet), has_room, "{length} {shape:?}");
            made.push(packet);
        }
        assert_eq!(made[0], made[1]);
    }
}

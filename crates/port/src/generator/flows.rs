//! All flows of a generator: from a pattern, or from the packets of a file.

use std::collections::BTreeMap;
use std::path::Path;

use burstline_log::{Meta, SCRATCH_PACKETS, Scratch, Writer};
use burstline_wire::checksum;
use burstline_wire::ethernet::FCS_BYTES;
use burstline_wire::hash::FlowHasher;
use burstline_wire::headers::{Headers, LinkType, Outcome, parse, protocol};
use burstline_wire::mark::Stream;

use super::flow::{Flow, Moment, Numbered, Place};
use super::headers::{Shape, complete, headers};
use super::line::Line;
use super::recipe::{Content, Pattern, Recipe};
use crate::address::escape;
use crate::{OpenOptions, PortError, PortState, Source, file};

/// Properties shared by all packets of a call: time, in ns since 1970, and interface.
#[derive(Clone, Copy)]
pub(super) struct Stamp {
    pub(super) time_ns: u64,
    pub(super) port: u8,
}

/// The maximum packets and bytes of a template.
const TEMPLATE_PACKETS: usize = 1 << 20;
const TEMPLATE_BYTES: usize = 1 << 30;

/// Maximum flows with lines: more would not fit into any cache, and take twice the memory.
const LINES_MOST: usize = 1 << 14;

/// The length of an Ethernet header.
const SHORTEST: usize = 14;

/// The flows of one generator.
pub(super) struct Flows {
    flows: Vec<Flow>,
    /// For each flow, the number of its next packet with a mark.
    sequences: Vec<u32>,
    /// For each flow, the line of its packets. Empty unless the packets of all flows fit a line and
    /// there are few enough flows.
    lines: Vec<Line>,
    arena: Vec<u8>,
    /// The longest packet, without FCS.
    longest: u32,
    /// A note about the template.
    pub(super) note: Option<String>,
}

/// The result of [`Flows::fill`].
#[derive(Clone, Copy)]
pub(super) struct Filled {
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

impl Flows {
    /// Creates the flows of run `run`.
    pub(super) fn new(recipe: &Recipe, run: u16, options: &OpenOptions) -> Result<Self, PortError> {
        let mut this = Self {
            flows: Vec::new(),
            sequences: Vec::new(),
            lines: Vec::new(),
            arena: Vec::new(),
            longest: 0,
            note: None,
        };
        let mut hasher = FlowHasher::new(options.hash);
        match &recipe.content {
            Content::Made(pattern) => this.make(recipe, pattern, run, &mut hasher),
            Content::Template(path) => this.load(recipe, path, run, options, &mut hasher)?,
        }
        this.sequences = vec![0; this.flows.len()];
        if this.flows.len() <= LINES_MOST {
            let lines = this.flows.iter().map(|flow| Line::of(flow, &this.arena));
            this.lines = lines.collect::<Option<_>>().unwrap_or_default();
        }
        Ok(this)
    }

    fn make(&mut self, recipe: &Recipe, pattern: &Pattern, run: u16, hasher: &mut FlowHasher) {
        let only = recipe.sizes.only().map(|size| (size - FCS_BYTES) as usize);
        for number in 0..pattern.flows {
            let (mut bytes, shape) = headers(pattern, &pattern.spec(number));
            let stream = recipe.has_marks.then_some(Stream::new(run, number));
            let mut flow = match only {
                None => Flow::open(&bytes, shape, stream),
                Some(length) => {
                    bytes.resize(length.max(bytes.len()), 0);
                    complete(&mut bytes, &shape);
                    Flow::fixed(&mut bytes, shape, stream)
                }
            };
            flow.store(&mut self.arena, &bytes);
            let length = flow.shortest() as usize;
            let mut packet = vec![0; length];
            flow.build(&self.arena, &mut &mut packet[..], length, 0, &Moment::new(0));
            flow.hash = hasher.hash(LinkType::ETHERNET, &packet);
            self.longest = self.longest.max(flow.shortest());
            self.flows.push(flow);
        }
        self.longest = self.longest.max(recipe.sizes.longest() - FCS_BYTES);
    }

    /// Makes flows of the packets of a file. A thread without rights reads them.
    fn load(
        &mut self,
        recipe: &Recipe,
        path: &Path,
        run: u16,
        options: &OpenOptions,
        hasher: &mut FlowHasher,
    ) -> Result<(), PortError> {
        let options = OpenOptions { files: options.files.clone(), ..OpenOptions::default() };
        let mut template = open_template(path, &options)?;
        file::without_rights(path, || {
            let packets = read_template(path, &mut *template, &options)?;
            self.add_template(recipe, packets, run, hasher);
            Ok(())
        })
    }

    fn add_template(
        &mut self,
        recipe: &Recipe,
        packets: Vec<(Vec<u8>, bool)>,
        run: u16,
        hasher: &mut FlowHasher,
    ) {
        let (all, mut marked) = (packets.len(), 0);
        for (number, (mut packet, is_whole)) in packets.into_iter().enumerate() {
            let found = parse(LinkType::ETHERNET, &packet);
            let shape = shape_of(&found, &packet).filter(|_| is_whole);
            let stream = recipe.has_marks.then_some(Stream::new(run, number as u32));
            let mut flow = match shape {
                Some(shape) => Flow::fixed(&mut packet, shape, stream),
                None => Flow::verbatim(&packet),
            };
            marked += usize::from(flow.is_marked(flow.shortest()));
            flow.store(&mut self.arena, &packet);
            flow.hash = hasher.hash(LinkType::ETHERNET, &packet);
            self.longest = self.longest.max(flow.shortest());
            self.flows.push(flow);
        }
        self.note = Some(format!("template: {marked} of {all} packets have room for a mark"));
    }

    /// Returns the number of flows, at least 1.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }

    #[inline]
    pub(super) fn flow(&self, number: u32) -> &Flow {
        &self.flows[number as usize]
    }

    /// Advances to the next packet of a flow. A packet without a mark has no number.
    #[inline]
    pub(super) fn advance(&mut self, number: u32, length: u32) {
        let is_marked = self.flows[number as usize].is_marked(length);
        let sequence = &mut self.sequences[number as usize];
        *sequence = sequence.wrapping_add(is_marked.into());
    }

    /// Builds a packet in a place of exactly its length.
    #[inline]
    pub(super) fn build(&self, number: u32, place: &mut impl Place, length: usize, time_ns: u64) {
        let (flow, sequence) = (&self.flows[number as usize], self.sequences[number as usize]);
        flow.build(&self.arena, place, length, sequence, &Moment::new(time_ns));
    }

    /// Whether every flow has a fixed length.
    pub(super) fn are_fixed(&self) -> bool {
        self.flows.iter().all(|flow| flow.length().is_some())
    }

    /// Builds packets of flows with fixed lengths, all with the same time, until the log is full or
    /// there are `count`. `flow_of` maps the packet's offset from the first one to its flow.
    #[inline]
    pub(super) fn fill(
        &mut self,
        writer: &mut Writer,
        count: u64,
        Stamp { time_ns, port }: Stamp,
        flow_of: impl Fn(u64) -> u32,
    ) -> Filled {
        if !self.lines.is_empty() {
            return self.fill_lines(writer, count, Stamp { time_ns, port }, flow_of);
        }
        let moment = Moment::new(time_ns);
        let mut filled = Filled { packets: 0, bytes: 0 };
        while filled.packets < count {
            let number = flow_of(filled.packets) as usize;
            let (flow, sequence) = (&self.flows[number], &mut self.sequences[number]);
            let length = flow.shortest();
            let Some(mut slot) = writer.reserve(length as usize) else { break };
            let numbered = Numbered { sequence: *sequence, moment: &moment };
            flow.build_fixed(&self.arena, &mut slot, numbered);
            *sequence = sequence.wrapping_add(1);
            let mut meta = Meta::new(time_ns, length, port);
            meta.hash = flow.hash;
            slot.commit(&meta);
            filled.packets += 1;
            filled.bytes += u64::from(length);
        }
        filled
    }

    /// As [`fill`](Self::fill), for flows that all have a line.
    #[inline]
    fn fill_lines(
        &mut self,
        writer: &mut Writer,
        count: u64,
        Stamp { time_ns, port }: Stamp,
        flow_of: impl Fn(u64) -> u32,
    ) -> Filled {
        let moment = Moment::new(time_ns);
        let mut filled = Filled { packets: 0, bytes: 0 };
        // Equal lengths, so that one bounds check covers both.
        let sequences = &mut self.sequences[..self.lines.len()];
        while filled.packets < count {
            let number = flow_of(filled.packets) as usize;
            let (line, sequence) = (&self.lines[number], &mut sequences[number]);
            let Some(mut slot) = writer.reserve(line.length() as usize) else { break };
            line.put(&mut slot, *sequence, &moment);
            *sequence = sequence.wrapping_add(1);
            let mut meta = Meta::new(time_ns, line.length(), port);
            meta.hash = line.hash;
            slot.commit(&meta);
            filled.packets += 1;
            filled.bytes += u64::from(line.length());
        }
        filled
    }

    /// Returns the length of the longest packet, without FCS.
    pub(super) fn longest(&self) -> usize {
        self.longest as usize
    }

    /// Returns the mean frame length, including FCS, for equally likely flows.
    pub(super) fn mean_frame_bytes(&self, recipe: &Recipe) -> f64 {
        let mut kinds: BTreeMap<(Option<u32>, u32), u32> = BTreeMap::new();
        for flow in &self.flows {
            *kinds.entry((flow.length(), flow.shortest())).or_default() += 1;
        }
        let mean = |(&(length, shortest), &flows): (&(Option<u32>, u32), &u32)| {
            f64::from(flows)
                * match length {
                    Some(length) => f64::from(length + FCS_BYTES),
                    None => recipe.sizes.mean(shortest + FCS_BYTES),
                }
        };
        kinds.iter().map(mean).sum::<f64>() / self.flows.len() as f64
    }
}

fn open_template(path: &Path, options: &OpenOptions) -> Result<Box<dyn Source>, PortError> {
    let target = escape(&path.to_string_lossy());
    file::open_source(&format!("file:{target}").parse()?, options)
}

/// Returns the packets of a file, and whether each is complete.
fn read_template(
    path: &Path,
    port: &mut dyn Source,
    options: &OpenOptions,
) -> Result<Vec<(Vec<u8>, bool)>, PortError> {
    let refuse = |reason: String| PortError::NotACapture { path: path.to_owned(), reason };
    let (mut scratch, mut packets, mut bytes) = (Scratch::new(), Vec::new(), 0);
    loop {
        let lent = port.lend(&mut scratch, SCRATCH_PACKETS as u64)?;
        for packet in lent.burst.packets() {
            let link = options.table.entries_from(packet.port().into()).first().map(|e| e.link);
            if link != Some(LinkType::ETHERNET) {
                return Err(refuse(
                    "a template needs Ethernet frames, but this one has others".to_owned(),
                ));
            }
            bytes += packet.length();
            if packets.len() == TEMPLATE_PACKETS || bytes > TEMPLATE_BYTES {
                return Err(refuse(format!(
                    "a template has at most {TEMPLATE_PACKETS} packets in {TEMPLATE_BYTES} bytes"
                )));
            }
            if packet.length() >= SHORTEST {
                let is_whole = packet.length() == packet.original_length();
                packets.push((packet.bytes().to_vec(), is_whole));
            }
        }
        match lent.state {
            PortState::Ended => break,
            PortState::Busy | PortState::Idle | PortState::Blocked => {}
        }
    }
    let account = port.account();
    if account.is_damaged {
        let what = account.notes.first().map_or("damaged", String::as_str);
        return Err(refuse(format!("a template must not be damaged: {what}")));
    }
    match packets.is_empty() {
        true => Err(refuse(
            "a template needs at least one Ethernet frame, but this one has none".to_owned(),
        )),
        false => Ok(packets),
    }
}

/// Returns the positions of mark and checksum, if TCP or UDP extends to the end of the packet.
fn shape_of(headers: &Headers, packet: &[u8]) -> Option<Shape> {
    let is_tcp = headers.protocol == protocol::TCP;
    let is_known = is_tcp || headers.protocol == protocol::UDP;
    let is_complete = headers.outcome == Outcome::Complete && headers.fragment.is_none();
    let is_ipv6 = headers.network == burstline_wire::headers::Network::Ipv6;
    let at = |offset: u32| u8::try_from(offset).ok();
    let shape = Shape {
        outer_at: 0,
        network_at: at(headers.network_offset)?,
        transport_at: at(headers.transport_offset)?,
        payload_at: at(headers.payload_offset)?,
        is_ipv6,
        is_tcp,
    };
    let reaches_end = headers.end as usize == packet.len();
    // A copy that always has a checksum: if it is correct, so are the lengths.
    let mut model = packet.to_vec();
    (is_known && is_complete && reaches_end).then(|| {
        super::headers::complete_transport(&mut model, &shape);
        checksum::holds(headers, &model).filter(|holds| *holds).map(|_| shape)
    })?
}

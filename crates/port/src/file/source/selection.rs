//! Selects packets of files, in addition to a filter: by time, flow and interface.
//!
//! A selection is first applied to the summary of a segment: a segment without wanted packets is
//! not read.

use burstline_wire::files::{SegmentAhead, Sketch, Trailer};
use burstline_wire::flow::{FlowMatcher, FlowQuery};
use burstline_wire::hash::HashKind;
use burstline_wire::headers::LinkType;

use super::catalogue::Summary;

/// Which packets of files are wanted. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The earliest wanted time, in ns since 1970.
    pub from_ns: Option<u64>,
    /// The first time after the wanted ones, in ns since 1970.
    pub to_ns: Option<u64>,
    /// The only wanted conversation: of the innermost packets of tunnels if packets get the hash
    /// [`HashKind::Inner`], else of the outermost.
    pub flow: Option<FlowQuery>,
    /// The name of the only wanted interface.
    pub interface: Option<String>,
    /// Whether the recording may still be in progress: a missing end is then not damage.
    pub may_be_open: bool,
}

impl Selection {
    /// Whether all packets are selected.
    pub fn is_all(&self) -> bool {
        *self == Self { may_be_open: self.may_be_open, ..Self::default() }
    }

    /// Whether any time from `earliest_ns` to `latest_ns`, inclusive, is wanted.
    pub(super) fn wants_times(&self, earliest_ns: u64, latest_ns: u64) -> bool {
        self.from_ns.is_none_or(|from_ns| latest_ns >= from_ns)
            && self.to_ns.is_none_or(|to_ns| earliest_ns < to_ns)
    }
}

/// Applies a selection to the packets of one file, and counts the skipped ones.
pub(super) struct Selector {
    selection: Selection,
    matcher: Option<FlowMatcher>,
    hash: Option<u32>,
    /// Whether there is anything to choose.
    pub(super) is_choosing: bool,
    /// Segments, or blocks of an index, that were skipped unread, and their packets.
    pub(super) passed: u64,
    pub(super) packets_passed: u64,
    /// Packets that were read but are unwanted.
    pub(super) unwanted: u64,
}

impl Selector {
    pub(super) fn new(selection: &Selection, hash: HashKind) -> Self {
        let (flow, is_inner) = (selection.flow, hash == HashKind::Inner);
        let matcher = if is_inner { FlowMatcher::of_innermost } else { FlowMatcher::new };
        Self {
            selection: selection.clone(),
            matcher: flow.map(matcher),
            // Sketches and indexes do not have the flows inside of tunnels.
            hash: flow.filter(|_| !is_inner).and_then(|flow| flow.five_tuple_hash()),
            is_choosing: !selection.is_all(),
            passed: 0,
            packets_passed: 0,
            unwanted: 0,
        }
    }

    /// Returns the name of the only wanted interface, if any.
    pub(super) fn interface(&self) -> Option<&str> {
        self.selection.interface.as_deref()
    }

    /// Whether a packet is wanted; counts it if it is not.
    pub(super) fn wants(
        &mut self,
        link: LinkType,
        time_ns: u64,
        is_of_interface: bool,
        packet: &[u8],
    ) -> bool {
        let is_wanted = is_of_interface
            && self.selection.wants_times(time_ns, time_ns)
            && self.matcher.as_mut().is_none_or(|matcher| matcher.matches(link, packet));
        self.unwanted += u64::from(!is_wanted);
        is_wanted
    }

    /// Whether a segment may contain a wanted packet.
    pub(super) fn wants_segment(
        &self,
        trailer: &Trailer,
        summary: &dyn Fn() -> Option<Vec<u8>>,
    ) -> bool {
        if !self.selection.wants_times(trailer.earliest_ns, trailer.latest_ns) {
            return false;
        }
        match self.hash.filter(|_| trailer.hash_kind == HashKind::FiveTuple) {
            Some(hash) => {
                summary().is_none_or(|bytes| SegmentAhead::may_hold(trailer, &bytes, hash))
            }
            None => true,
        }
    }

    /// Whether a file may contain a wanted packet, according to its folder's catalogue.
    pub(super) fn wants_file(&self, file: &Summary) -> bool {
        let [earliest_ns, latest_ns] = file.times_ns;
        file.packets > 0
            && self.selection.wants_times(earliest_ns, latest_ns)
            && self.hash.is_none_or(|hash| Sketch::may_hold(&file.sketch, hash))
    }

    /// Whether a block of an index may contain one, given its times and its sorted flow hashes.
    pub(super) fn wants_block(&self, times_ns: [u64; 2], hashes: &[u32]) -> bool {
        self.selection.wants_times(times_ns[0], times_ns[1])
            && self.hash.is_none_or(|hash| hashes.binary_search(&hash).is_ok())
    }
}

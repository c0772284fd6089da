//! Builds the burst that an end gets: packets in place, or copies if some of them change.

use burstline_log::{Burst, SCRATCH_PACKETS, Scratch};

use crate::TagChange;
use crate::edit::append;
use crate::plan::Copied;
use crate::table::RuleTable;

/// Alignment of changed packets, in bytes.
const ALIGNMENT: usize = 16;

/// Reusable buffers for the bursts of one end after another.
#[derive(Debug, Default)]
pub struct Outgoing {
    scratch: Scratch,
    bytes: Vec<u8>,
    bytes_copied: u64,
}

impl Outgoing {
    /// Returns the number of bytes copied because packets changed.
    pub fn bytes_copied(&self) -> u64 {
        self.bytes_copied
    }

    /// Passes the packets of `burst` that `copies` lists to `send`, changed as `copies` says. Uses
    /// several bursts for more than [`SCRATCH_PACKETS`] packets. Returns the first error of `send`.
    ///
    /// Cost: nothing if the packets are consecutive and unchanged, a desc per packet if they are
    /// unchanged, else a copy of each packet.
    pub fn send<E>(
        &mut self,
        burst: &Burst<'_>,
        copies: &[Copied],
        rules: &RuleTable,
        mut send: impl FnMut(&Burst<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut outcome = Ok(());
        for copies in copies.chunks(SCRATCH_PACKETS) {
            let sent = match shape(copies) {
                Shape::Run => {
                    let (_, rest) = burst.split_at(copies[0].packet.into());
                    send(&rest.split_at(copies.len()).0)
                }
                Shape::Some if burst.len() <= SCRATCH_PACKETS => {
                    send(&select(&mut self.scratch, burst, copies))
                }
                Shape::Some | Shape::Changed => send(&self.change(burst, copies, rules)),
            };
            // Send the other packets too, so that the sink accounts for them.
            outcome = outcome.and(sent);
        }
        outcome
    }

    fn change(&mut self, burst: &Burst<'_>, copies: &[Copied], rules: &RuleTable) -> Burst<'_> {
        self.bytes.clear();
        self.scratch.clear();
        for copy in copies {
            let packet = burst.packet(copy.packet.into());
            let start = self.bytes.len();
            append(packet.bytes(), copy.tag, &mut self.bytes);
            if let Some(fields) = rules.fields(copy.sets) {
                fields.apply(&mut self.bytes[start..]);
            }
            let length = self.bytes.len() - start;
            let mut meta = packet.meta();
            let grown = length as u32 + meta.original_length;
            meta.original_length = grown.saturating_sub(packet.length() as u32);
            self.scratch.push(start as u32, length as u32, &meta);
            self.bytes_copied += length as u64;
            self.bytes.resize(self.bytes.len().next_multiple_of(ALIGNMENT), 0);
        }
        self.scratch.burst(&self.bytes, 0)
    }
}

fn select<'a>(scratch: &'a mut Scratch, burst: &Burst<'a>, copies: &[Copied]) -> Burst<'a> {
    let (mut index, mut wanted) = (0, copies.iter().peekable());
    scratch.select(burst, 0, |packet| {
        let is_it = wanted.next_if(|copy| copy.packet == index).is_some();
        index += 1;
        is_it.then(|| (u32::MAX, packet.meta()))
    })
}

enum Shape {
    /// Consecutive packets, unchanged.
    Run,
    /// A selection of packets, unchanged, each once.
    Some,
    /// Some packets change, or are sent twice.
    Changed,
}

fn shape(copies: &[Copied]) -> Shape {
    let is_changed = |copy: &Copied| copy.sets != 0 || copy.tag != TagChange::Keep;
    if copies.iter().any(is_changed) {
        return Shape::Changed;
    }
    let pairs = || copies.windows(2).map(|pair| (pair[0].packet, pair[1].packet));
    if pairs().all(|(one, next)| one + 1 == next) {
        Shape::Run
    } else if pairs().all(|(one, next)| one < next) {
        Shape::Some
    } else {
        Shape::Changed
    }
}

//! Implements `receive` by lending.

use burstline_log::{Appended, Meta, Packet, Scratch, Writer};

use crate::{Lent, PortAccount, PortError, PortState, Received, Source};

/// A packet that did not fit into the log.
pub(super) struct Held {
    pub(super) bytes: Vec<u8>,
    pub(super) meta: Meta,
}

impl Held {
    pub(super) fn new(bytes: &[u8], meta: Meta) -> Self {
        Self { bytes: bytes.to_vec(), meta }
    }

    /// Lends the packet as a burst of one.
    pub(super) fn lend<'a>(&'a self, scratch: &'a mut Scratch, first_packet: u64) -> Lent<'a> {
        scratch.clear();
        scratch.push(0, self.bytes.len() as u32, &self.meta);
        Lent::new(scratch.burst(&self.bytes, first_packet), PortState::Busy)
    }
}

/// [`Source::receive`] for a source that only has [`lend`](Source::lend): takes one packet at a
/// time and appends it. It holds at most one packet, which did not fit into the log. A job either
/// receives from a source or borrows from it, so nothing is held when a source lends.
///
/// Cost: an indirect call and a copy per packet; 16 KiB from the first packet on.
#[derive(Default)]
pub struct Copying {
    scratch: Option<Scratch>,
    pub(super) held: Option<Held>,
    /// Counts of copied and truncated packets.
    account: PortAccount,
}

impl Copying {
    /// Copies up to `budget` packets of `source` into the log. `kept_in` returns the source's field
    /// of this type.
    ///
    /// # Errors
    /// Errors of the source.
    pub fn receive<S: Source>(
        source: &mut S,
        kept_in: fn(&mut S) -> &mut Self,
        writer: &mut Writer,
        budget: u64,
    ) -> Result<Received, PortError> {
        // Moved out, because the source is borrowed while it lends.
        let mut copying = std::mem::take(kept_in(source));
        let received = copying.receive_seen(source, writer, budget, |_| {});
        *kept_in(source) = copying;
        received
    }

    /// As [`receive`](Self::receive), for a value already separate from its source. Passes each
    /// packet taken to `see`.
    pub(super) fn receive_seen(
        &mut self,
        source: &mut (impl Source + ?Sized),
        writer: &mut Writer,
        budget: u64,
        mut see: impl FnMut(&Packet<'_>),
    ) -> Result<Received, PortError> {
        let mut packets = 0;
        let mut state = if budget == 0 { PortState::Blocked } else { PortState::Busy };
        while packets < budget {
            if let Some(held) = self.held.take() {
                if !append(writer, &held.bytes, &held.meta, &mut self.account) {
                    self.held = Some(held);
                    return Ok(Received { packets, state: PortState::Blocked });
                }
                packets += 1;
                continue;
            }
            let scratch = self.scratch.get_or_insert_with(Scratch::new);
            let lent = match source.lend(scratch, 1) {
                Ok(lent) => lent,
                // The source will repeat the error.
                Err(_) if packets > 0 => break,
                Err(error) => return Err(error),
            };
            state = lent.state;
            let Some(packet) = lent.burst.packets().next() else { break };
            see(&packet);
            let meta = packet.meta();
            if !append(writer, packet.bytes(), &meta, &mut self.account) {
                self.held = Some(Held::new(packet.bytes(), meta));
                return Ok(Received { packets, state: PortState::Blocked });
            }
            packets += 1;
            if state != PortState::Busy {
                break;
            }
        }
        Ok(Received { packets, state })
    }

    /// Adds the packets that it copied, truncated and holds to the account of its source.
    pub fn add_to(&self, account: &mut PortAccount) {
        account.in_flight += u64::from(self.held.is_some());
        account.truncated += self.account.truncated;
        account.bytes_copied += self.account.bytes_copied;
    }
}

/// Appends and counts a packet; `false` if the log had no room.
pub(super) fn append(
    writer: &mut Writer,
    bytes: &[u8],
    meta: &Meta,
    account: &mut PortAccount,
) -> bool {
    match writer.append(bytes, meta) {
        Appended::Full => return false,
        Appended::Whole => {}
        Appended::Truncated => {
            account.truncated += u64::from(bytes.len() == meta.original_length as usize);
        }
    }
    account.bytes_copied += bytes.len().min(writer.max_packet_bytes()) as u64;
    true
}

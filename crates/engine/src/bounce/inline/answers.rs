//! Answers to the senders of rejected packets: they leave by the port that the packets came in by.

use burstline_log::{Meta, Scratch};
use burstline_port::{Address, OpenOptions, PortError, Sink, open_sink};
use burstline_wire::answer::append_refusal;

/// The way back to senders. Answers are nobody's packets: they are in no ledger, and counted here.
pub(super) struct Answers {
    /// `None` where packets come from no interface, or the way back is broken.
    sink: Option<Box<dyn Sink>>,
    bytes: Vec<u8>,
    scratch: Scratch,
    pub(super) sent: u64,
    /// Why there is no way back any more.
    pub(super) fault: Option<String>,
}

impl Answers {
    /// To the port that packets come from. A port that takes an interface's queues for itself has
    /// no second end for us: its senders are not told.
    pub(super) fn open(from: &Address, options: &OpenOptions) -> Result<Self, PortError> {
        let has_way = from.leads_to_interface() && !from.takes_away();
        let back = from.to_string();
        let back = back.split_once('?').map_or(&*back, |(port, _)| port);
        let sink = match has_way {
            true => Some(open_sink(&back.parse().map_err(PortError::from)?, options)?),
            false => None,
        };
        let (bytes, scratch) = (Vec::new(), Scratch::new());
        Ok(Self { sink, bytes, scratch, sent: 0, fault: None })
    }

    /// Answers the sender of a rejected packet, if the packet is one that gets an answer. An answer
    /// that cannot be sent harms no packet.
    pub(super) fn tell(&mut self, packet: &[u8]) {
        let Some(sink) = &mut self.sink else { return };
        self.bytes.clear();
        if !append_refusal(packet, &mut self.bytes) {
            return;
        }
        let length = self.bytes.len() as u32;
        self.scratch.clear();
        self.scratch.push(0, length, &Meta::new(0, length, 0));
        let sent = sink.transmit(&self.scratch.burst(&self.bytes, 0));
        match sent.and_then(|sent| sink.flush().map(|()| sent)) {
            Ok(sent) => self.sent += sent,
            Err(error) => self.lose(&error),
        }
    }

    /// Ends it.
    pub(super) fn finish(&mut self) {
        if let Some(Err(error)) = self.sink.as_mut().map(|sink| sink.finish()) {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &PortError) {
        self.sink = None;
        self.fault = Some(format!("senders of rejected packets are not told: {error}"));
    }
}

//! Sends answers to the senders of rejected packets, through the port that received the packets.

use burstline_log::{Meta, Scratch};
use burstline_port::{Address, OpenOptions, PortError, Sink, open_way_back};
use burstline_wire::answer::append_refusal;

use super::outlet::Onward;

/// The way back to senders, and the number of answers sent.
pub(crate) struct Answers {
    back: Back,
    bytes: Vec<u8>,
    scratch: Scratch,
    pub(super) sent: u64,
    /// Why the way back no longer works, if it failed.
    pub(super) fault: Option<String>,
}

/// How answers are sent.
enum Back {
    /// Through a dedicated sink. The answers are in no ledger.
    Own(Box<dyn Sink>),
    /// Through the port that packets come from, which counts them.
    Port,
    /// Packets come from no interface, or the way back is broken.
    None,
}

impl Answers {
    /// Sends answers through the receiving port, using the [`Onward`] that forwards packets.
    pub(crate) fn by_the_port() -> Self {
        Self::new(Back::Port)
    }

    fn new(back: Back) -> Self {
        Self { back, bytes: Vec::new(), scratch: Scratch::new(), sent: 0, fault: None }
    }

    /// Opens a sink on the port that packets come from. A port that takes over an interface's
    /// queues cannot be opened twice, so its senders get no answers.
    ///
    /// With `is_both`, the crossing in the other direction may hold the port's only sink. Then
    /// senders get no answers either, and the account says so.
    pub(crate) fn open(
        from: &Address,
        is_both: bool,
        options: &OpenOptions,
    ) -> Result<Self, PortError> {
        if !from.leads_to_interface() || from.takes_away() {
            return Ok(Self::new(Back::None));
        }
        match open_way_back(from, options) {
            Ok(sink) => Ok(Self::new(Back::Own(sink))),
            Err(error @ PortError::DeviceTaken { .. }) if is_both => {
                let mut none = Self::new(Back::None);
                none.lose(&error);
                Ok(none)
            }
            Err(error) => Err(error),
        }
    }

    /// Answers the sender of a rejected packet, if packets of this kind get an answer. A failure to
    /// send the answer does not affect any packet.
    pub(super) fn tell(&mut self, packet: &[u8], onward: &mut dyn Onward) {
        if matches!(self.back, Back::None) {
            return;
        }
        self.bytes.clear();
        if !append_refusal(packet, &mut self.bytes) {
            return;
        }
        let length = self.bytes.len() as u32;
        self.scratch.clear();
        self.scratch.push(0, length, &Meta::new(0, length, 0));
        let answer = self.scratch.burst(&self.bytes, 0);
        let sent = match &mut self.back {
            Back::Own(sink) => sink.transmit(&answer).and_then(|sent| sink.flush().map(|()| sent)),
            Back::Port => onward.answer(&answer),
            Back::None => Ok(0),
        };
        match sent {
            Ok(sent) => self.sent += sent,
            Err(error) => self.lose(&error),
        }
    }

    /// Finishes the sink for answers.
    pub(super) fn finish(&mut self) {
        if let Back::Own(sink) = &mut self.back
            && let Err(error) = sink.finish()
        {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &PortError) {
        self.back = Back::None;
        self.fault = Some(format!("senders of rejected packets get no answer: {error}"));
    }
}

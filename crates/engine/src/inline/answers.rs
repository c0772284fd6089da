//! Answers to the senders of rejected packets: they leave by the port that the packets came in by.

use burstline_log::{Meta, Scratch};
use burstline_port::{Address, OpenOptions, PortError, Sink, open_way_back};
use burstline_wire::answer::append_refusal;

use super::outlet::Onward;

/// The way back to senders, and how many answers went there.
pub(crate) struct Answers {
    back: Back,
    bytes: Vec<u8>,
    scratch: Scratch,
    pub(super) sent: u64,
    /// Why there is no way back any more.
    pub(super) fault: Option<String>,
}

/// Where answers leave.
enum Back {
    /// By a sink for them alone. They are nobody's packets: they are in no ledger.
    Own(Box<dyn Sink>),
    /// By the port that packets come from, which counts what it sends.
    Port,
    /// Packets come from no interface, or the way back is broken.
    None,
}

impl Answers {
    /// By the port that packets come from, which the one who hands them on has.
    pub(crate) fn by_the_port() -> Self {
        Self::new(Back::Port)
    }

    fn new(back: Back) -> Self {
        Self { back, bytes: Vec::new(), scratch: Scratch::new(), sent: 0, fault: None }
    }

    /// To the port that packets come from. A port that takes an interface's queues for itself has
    /// no second end for us: its senders are not told.
    ///
    /// With `is_both` a crossing the other way may have its only sink. Then they are not told
    /// either, and the account says so.
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

    /// Answers the sender of a rejected packet, if the packet is one that gets an answer. An answer
    /// that cannot be sent harms no packet.
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

    /// Ends it.
    pub(super) fn finish(&mut self) {
        if let Back::Own(sink) = &mut self.back
            && let Err(error) = sink.finish()
        {
            self.lose(&error);
        }
    }

    fn lose(&mut self, error: &PortError) {
        self.back = Back::None;
        self.fault = Some(format!("senders of rejected packets are not told: {error}"));
    }
}

//! A bounce between two simulated cards: packets stay where the first has written them.
//!
//! ```text
//!  rings   device A -> buffer -> driver: descriptor of A's ring to B's -> device B -> buffer back
//!  log     device A -> segment ---- driver: "up to packet n" ----------> device B reads the log
//! ```
//!
//! Nothing is copied in any mode. What B takes late waits in A's ring or log, and then in A's FIFO;
//! beyond that it is A's loss.

use std::sync::Arc;

use burstline_nicsim::pcie::DESCRIPTOR_BYTES;
use burstline_nicsim::{
    Assembly, Card, LogTransmitter, Mode, Part, Receiver, Room, Sending, Transmit, Transmitter,
};
use burstline_sys::clock;
use burstline_wire::headers::LinkType;

use super::settings::Plug;
use super::wire::{Cable, FarEnd};
use super::{bus_notes, only_sends};
use crate::live::Wait;
use crate::{
    Address, Capabilities, Carried, Crossing, Loss, OpenOptions, Port, PortAccount, PortError,
    PortInfo, PortState, Received, TimestampSource, Treatment,
};

/// The most packets of a call: few enough to be in the cache from ring to ring.
const BATCH: u64 = 256;

/// Descriptors that go back to the first card at a time, at least, while packets come.
const POSTED: u32 = 32;

/// How long an exit that stands still is waited for at the end, in ns.
const WAIT_NS: u64 = 1_000_000_000;

/// Opens the way from one card to another, and with `is_both` also the way back.
pub(crate) fn open_crossings(
    ends: [&Address; 2],
    is_both: bool,
    treatment: &Treatment,
    options: &OpenOptions,
) -> Result<Vec<Box<dyn Crossing>>, PortError> {
    let plugs = [Plug::parse(ends[0])?, Plug::parse(ends[1])?];
    check(ends, &plugs, treatment)?;
    check_ways(ends, &plugs, is_both)?;
    if !is_both {
        only_sends(ends[1])?;
    }
    let receives = [true, is_both];
    let room = |at: usize| {
        let settings = &plugs[at].settings;
        Room::create(settings, receives[at], false)
            .map_err(|error| plugs[at].failed(ends[at], error))
    };
    let rooms = [room(0)?, room(1)?];
    let sending = |other: &Room, is_wanted: bool, at: usize| -> Result<Sending, PortError> {
        if !is_wanted {
            return Ok(Sending::Nothing);
        }
        match (other.memory(), other.reader()) {
            (Some(memory), _) => Ok(Sending::Lying(Arc::clone(memory))),
            (None, Some(reader)) => {
                let reader = reader.map_err(|error| plugs[at].failed(ends[at], error.into()))?;
                Ok(Sending::Log(Box::new(reader)))
            }
            (None, None) => Ok(Sending::Nothing),
        }
    };
    // Card 0 sends what comes in by card 1, and the other way round.
    let sendings = [sending(&rooms[1], is_both, 0)?, sending(&rooms[0], true, 1)?];
    let mut cards = Vec::new();
    for (at, (room, sending)) in rooms.into_iter().zip(sendings).enumerate() {
        let (plug, address) = (&plugs[at], ends[at]);
        let name = address.to_string();
        let port = options.table.add_for(&name, &name, LinkType::ETHERNET)?;
        let (cable, far) = match receives[at] {
            true => Cable::open(plug, options)?,
            false => Cable::sending(plug, options)?,
        };
        let trace = plug.trace(options)?;
        let end = (Box::new(cable) as Box<_>, sending);
        let assembly = Assembly::new(room, end, port, trace.as_ref());
        let (card, receivers, transmit) =
            assembly.start().map_err(|error| plug.failed(address, error))?;
        let card = Plugged { card: Arc::new(card), far };
        cards.push((card, receivers.into_iter().next(), transmit));
    }
    let names = [ends[0].to_string(), ends[1].to_string()];
    Ok(pair(cards, &names, plugs[0].settings.mode, treatment))
}

/// A card, and what came of its cable.
#[derive(Clone)]
struct Plugged {
    card: Arc<Card>,
    far: Arc<FarEnd>,
}

/// Joins the receiving end of each card with the sending end of the other.
fn pair(
    cards: Vec<(Plugged, Option<Receiver>, Transmit)>,
    names: &[String; 2],
    mode: Mode,
    treatment: &Treatment,
) -> Vec<Box<dyn Crossing>> {
    let (mut entries, mut exits) = (Vec::new(), Vec::new());
    for (card, receiver, transmit) in cards {
        entries.push((card.clone(), receiver));
        exits.push((card, transmit));
    }
    exits.reverse();
    let is_both = entries.iter().all(|(_, receiver)| receiver.is_some());
    let ways = entries.into_iter().zip(exits).enumerate();
    let crossing = |(at, (entry, exit)): (usize, ((Plugged, Option<_>), (Plugged, _)))| {
        let ((entry, receiver), (exit, transmit)) = (entry, exit);
        let name = format!("{} > {}", names[at], names[1 - at]);
        let (way, receiver) = (Way::new(transmit)?, receiver?);
        // What came of a cable is told once: by the way that its frames take.
        let mut fars = vec![entry.far];
        if !is_both {
            fars.push(exit.far);
        }
        let cards = ([entry.card, exit.card], fars);
        let crossing = CardCrossing::new(name, mode, (receiver, way), cards, treatment);
        Some(Box::new(crossing) as Box<dyn Crossing>)
    };
    ways.filter_map(crossing).collect()
}

fn check(ends: [&Address; 2], plugs: &[Plug; 2], treatment: &Treatment) -> Result<(), PortError> {
    let [first, second] = plugs.each_ref().map(|plug| &plug.settings);
    if first.mode != second.mode {
        let reason = format!("the other card has mode={}: both need the same", first.mode);
        return Err(ends[1].bad_value("mode", second.mode.name(), reason).into());
    }
    for (address, settings) in ends.iter().zip([first, second]) {
        if settings.queues > 1 {
            let reason = "a bounce between cards goes by one queue";
            return Err(address.bad_value("queues", &settings.queues.to_string(), reason).into());
        }
    }
    if first.mode == Mode::Contiguous && !treatment.writes_nothing() {
        let reason = "packets of a log cannot be rewritten where they lie: mode=inline can";
        return Err(ends[0].bad_value("mode", first.mode.name(), reason).into());
    }
    Ok(())
}

/// Fails where a packet may be longer than what the card that it leaves by sends, or have more
/// parts than that card's ring, which would hold it up for ever.
fn check_ways(ends: [&Address; 2], plugs: &[Plug; 2], is_both: bool) -> Result<(), PortError> {
    for (end, plug) in ends.iter().zip(plugs) {
        plug.settings.check().map_err(|error| plug.failed(end, error))?;
    }
    let ways = [(0, 1), (1, 0)];
    for (from, to) in ways.into_iter().take(1 + usize::from(is_both)) {
        let (entry, exit) = (&plugs[from].settings, &plugs[to].settings);
        if entry.longest > exit.longest {
            let reason = format!("a packet of {} has up to {} bytes", ends[from], entry.longest);
            return Err(ends[to].bad_value("mtu", &exit.longest.to_string(), reason).into());
        }
        let in_front = match entry.mode {
            Mode::Writeback => 0,
            Mode::Inline => DESCRIPTOR_BYTES as usize,
            Mode::Contiguous => continue,
        };
        let parts = (entry.longest + in_front).div_ceil(entry.buffer as usize);
        if parts > exit.ring as usize {
            let reason = format!("a packet of {} has up to {parts} parts", ends[from]);
            return Err(ends[to].bad_value("ring", &exit.ring.to_string(), reason).into());
        }
    }
    Ok(())
}

/// How packets leave.
enum Way {
    Ring(Transmitter),
    Log(Box<LogTransmitter>),
}

impl Way {
    fn new(transmit: Transmit) -> Option<Self> {
        match transmit {
            Transmit::Nothing => None,
            Transmit::Ring(ring) => Some(Self::Ring(ring)),
            Transmit::Log(log) => Some(Self::Log(log)),
        }
    }
}

/// One direction.
struct CardCrossing {
    info: PortInfo,
    mode: Mode,
    receiver: Receiver,
    way: Way,
    /// Entry and exit, until it is closed; and what their buses had carried then.
    cards: Option<[Arc<Card>; 2]>,
    bus: Vec<String>,
    fars: Vec<Arc<FarEnd>>,
    treatment: Treatment,
    /// Parts of a packet that is not whole yet.
    parts: Vec<Part>,
    /// Packets given to the exit, and their bytes; of rings, those that it has sent.
    given: u64,
    sent: u64,
    bytes: u64,
    account: PortAccount,
    /// What the exit's bus had carried by itself is the other direction's, too.
    is_over: bool,
}

impl CardCrossing {
    fn new(
        name: String,
        mode: Mode,
        (receiver, way): (Receiver, Way),
        (cards, fars): ([Arc<Card>; 2], Vec<Arc<FarEnd>>),
        treatment: &Treatment,
    ) -> Self {
        let capabilities = Capabilities { can_drain: true, ..Capabilities::default() };
        let timestamps = TimestampSource::Mixed;
        Self {
            info: PortInfo { name, capabilities, timestamps },
            mode,
            receiver,
            way,
            cards: Some(cards),
            bus: Vec::new(),
            fars,
            treatment: *treatment,
            parts: Vec::new(),
            given: 0,
            sent: 0,
            bytes: 0,
            account: PortAccount::default(),
            is_over: false,
        }
    }

    /// By log: lets the exit send what has arrived.
    fn pass_log(&mut self, budget: u64) -> u64 {
        let Self { receiver, way, treatment, .. } = self;
        let burst = receiver.lend(budget.min(BATCH));
        let packets = burst.len() as u64;
        for packet in burst.packets() {
            treatment.read(packet.bytes());
            self.bytes += packet.length() as u64;
        }
        self.given += packets;
        if let Way::Log(log) = way {
            log.allow(packets);
            self.sent = self.given - log.in_flight();
        }
        packets
    }

    /// By rings: what the exit has sent goes back, what has arrived goes on.
    fn pass_ring(&mut self, budget: u64) -> u64 {
        self.take_back();
        let Self { receiver, way, treatment, parts, .. } = self;
        let (Way::Ring(exit), Some(entry)) = (way, receiver.scattered()) else { return 0 };
        let (mut packets, mut too_short) = (0, 0);
        while packets < budget.min(BATCH) {
            while parts.last().is_none_or(|part| !part.is_last()) {
                let Some(part) = entry.next_part() else { break };
                parts.push(part);
            }
            let is_whole = parts.last().is_some_and(Part::is_last);
            let wanted = parts.len() as u32;
            if !is_whole || exit.room(wanted) < wanted {
                break;
            }
            let is_dropped = treatment.apply(entry.bytes_mut(&mut parts[0])).is_err();
            too_short += u64::from(is_dropped);
            let total = parts.iter().map(|part| u32::from(part.length())).sum();
            for part in parts.drain(..) {
                match is_dropped {
                    true => exit.pass_over(part),
                    false => exit.put(part, total),
                }
            }
            self.given += u64::from(!is_dropped);
            packets += 1;
        }
        exit.ring();
        receiver.count(packets);
        if too_short > 0 {
            self.account.lost.add(Loss::TooShort, too_short);
        }
        packets
    }

    /// Gives buffers that the exit has sent back to the entry.
    fn take_back(&mut self) {
        let Self { receiver, way, .. } = self;
        let (Way::Ring(exit), Some(entry)) = (way, receiver.scattered()) else { return };
        exit.reap();
        while let Some((part, was_sent)) = exit.take_back() {
            if was_sent {
                self.bytes += u64::from(part.length());
                self.sent += u64::from(part.is_last());
            }
            entry.return_part(part);
        }
        entry.post(POSTED);
    }

    /// Fails if one of the cards has died: nothing comes by it, or nothing leaves.
    fn check(&self) -> Result<(), PortError> {
        let Some(cards) = &self.cards else { return Ok(()) };
        match cards.iter().any(|card| card.is_dead()) {
            true => Err(PortError::CardDied { port: self.info.name.clone() }),
            false => Ok(()),
        }
    }

    #[cold]
    fn state_when_empty(&mut self) -> PortState {
        if self.given > self.sent || !self.parts.is_empty() {
            return PortState::Blocked;
        }
        if let Some(entry) = self.receiver.scattered() {
            entry.post(1);
            entry.look();
        }
        if self.receiver.is_over() { PortState::Ended } else { PortState::Idle }
    }

    /// What of the exit is still to be sent.
    fn in_exit(&self) -> u64 {
        self.given - self.sent
    }

    /// What both buses have carried.
    fn bus(&self) -> Vec<String> {
        let Some([entry, exit]) = &self.cards else { return self.bus.clone() };
        bus_notes(&entry.bus_account().and(&exit.bus_account()), entry.bus(), self.mode)
    }
}

impl Port for CardCrossing {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn finish(&mut self) -> Result<(), PortError> {
        self.receiver.stop();
        Ok(())
    }

    fn account(&self) -> PortAccount {
        let (mut account, counts) = (self.account.clone(), super::source::counts(&self.receiver));
        account.offered = counts.arrived;
        super::source::add_losses(&mut account, &counts);
        let in_exit = if self.is_over { 0 } else { self.in_exit() };
        account.in_flight = self.receiver.in_flight(&counts) + in_exit;
        account.note(|| "no packet is copied: it is sent from where it was received".to_owned());
        self.fars.iter().for_each(|far| far.enter_into(&mut account));
        for note in self.bus() {
            account.note(|| format!("both cards: {note}"));
        }
        account
    }
}

impl Crossing for CardCrossing {
    /// No system call.
    fn pass(&mut self, budget: u64) -> Result<Received, PortError> {
        if budget == 0 {
            return Ok(Received { packets: 0, state: PortState::Blocked });
        }
        let packets = match self.mode {
            Mode::Contiguous => self.pass_log(budget),
            Mode::Writeback | Mode::Inline => self.pass_ring(budget),
        };
        if packets > 0 {
            return Ok(Received { packets, state: PortState::Busy });
        }
        let state = self.state_when_empty();
        // What is dead can have work that will not be done, or none that was.
        if state != PortState::Idle || self.receiver.is_over() {
            self.check()?;
        }
        Ok(Received { packets, state })
    }

    fn close(&mut self) -> Result<(), PortError> {
        let mut wait = Wait::new(WAIT_NS);
        while self.in_exit() > 0 && wait.pause(self.sent, clock::monotonic_ns()) {
            match &self.way {
                Way::Log(log) => self.sent = self.given - log.in_flight(),
                Way::Ring(_) => self.take_back(),
            }
        }
        if self.in_exit() > 0 {
            self.account.lost.add(Loss::TxRingFull, self.in_exit());
        }
        self.is_over = true;
        self.bus = self.bus();
        // The threads of cards that no other way uses end, and with them what is plugged in.
        self.cards = None;
        Ok(())
    }

    fn carried(&self) -> Carried {
        Carried { packets: self.sent, bytes: self.bytes }
    }

    fn treatment(&self) -> Treatment {
        self.treatment
    }
}

//! The vocabulary of the ledger: each loss has one name, one kind and one sentence, defined here.

mod fill;
mod remedy;

use std::fmt;

use burstline_log::{Appended, Meta, Writer};

pub use fill::{RingFill, RingKind};

/// The kind of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossKind {
    /// A source had no room.
    Miss,
    /// We discarded it by choice.
    Drop,
    /// A lossy reader was lapped.
    Overrun,
    /// A sink had no room.
    Full,
    /// The user did not request it: named and counted like the others, but not a failure.
    Choice,
}

impl LossKind {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Miss => "miss",
            Self::Drop => "drop",
            Self::Overrun => "overrun",
            Self::Full => "full",
            Self::Choice => "choice",
        }
    }
}

/// Where a packet was lost: which count of a pcapng file's Interface Statistics Block includes it.
///
/// Source: draft-ietf-opsawg-pcapng, section 4.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossPlace {
    /// On the interface, or at the ring that it fills for us: `isb_ifdrop`. This includes libpcap's
    /// `ps_drop`, as in files that dumpcap writes.
    Interface,
    /// After that ring, in the host or in this program: `isb_osdrop`.
    Host,
    /// Not lost: the user did not request it, so `isb_filteraccept` is lower by it.
    Nowhere,
}

macro_rules! losses {
    ($($(#[doc = $help:literal])+ $variant:ident = $name:literal, $kind:ident, $place:ident;)+) => {
        /// Why packets were not delivered. Names, kinds, places and help texts come from this one
        /// table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Loss {
            $($(#[doc = $help])+ $variant,)+
        }

        impl Loss {
            /// Every cause, in definition order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name in reports and in `--json`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns its kind.
            pub fn kind(self) -> LossKind {
                match self { $(Self::$variant => LossKind::$kind),+ }
            }

            /// Returns where it happens: which count of a recording includes it.
            pub fn place(self) -> LossPlace {
                match self { $(Self::$variant => LossPlace::$place),+ }
            }

            /// Whether the user did not request such packets, so that it is not a failure.
            pub fn is_choice(self) -> bool {
                self.kind() == LossKind::Choice
            }

            /// Returns its meaning, in one sentence.
            pub fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($help),+)),+ }
            }
        }
    };
}

losses! {
    /// The source could not wait and the log had no room.
    LogFull = "log_full", Miss, Host;
    /// The kernel's ring was full, because packets were not taken out fast enough.
    RxRingFull = "rx_ring_full", Miss, Interface;
    /// The kernel had no free frame of the UMEM, because packets were not given back fast enough.
    FillRingEmpty = "fill_ring_empty", Miss, Interface;
    /// The packet is longer than a frame, and the kernel or the driver cannot use several.
    FrameTooSmall = "frame_too_small", Miss, Interface;
    /// The card's own buffer was full: the driver gave it no room in memory fast enough.
    FifoOverflow = "fifo_overflow", Miss, Interface;
    /// The packet was on the card when the card restarted, or came before it was ready again.
    DeviceReset = "device_reset", Miss, Interface;
    /// The device had no room for it, according to its own counter.
    DeviceMissed = "imissed", Miss, Interface;
    /// The device found it damaged, according to its own counter.
    DeviceErrors = "ierrors", Miss, Interface;
    /// No mbuf was free for it, because packets were not given back fast enough.
    NoMbuf = "rx_nombuf", Miss, Interface;
    /// The kernel or a peer described a buffer that cannot hold it.
    BadDescriptor = "bad_descriptor", Drop, Host;
    /// The checksum of its segment in the recording does not match.
    Corrupt = "corrupt", Drop, Host;
    /// Its segment is missing from the recording: the numbers of the packets around it have a gap.
    MissingSegments = "missing_segments", Miss, Host;
    /// The fault injector dropped it.
    Injected = "injected", Drop, Host;
    /// The file takes one link type, and the packet has another.
    LinkMismatch = "link_mismatch", Drop, Host;
    /// The packet is longer than the sink accepts: a file's segment, a frame, the interface's MTU.
    TooLong = "too_long", Drop, Host;
    /// The packet is shorter than an Ethernet header.
    TooShort = "too_short", Drop, Host;
    /// Its source is a group address or 0, which no station sends.
    BadSource = "bad_source", Drop, Host;
    /// Its source address is not allowed at this port: security=, or a static address elsewhere.
    PortSecurity = "port_security", Drop, Host;
    /// The port flooded more than storm= allows.
    StormLimited = "storm_limited", Drop, Host;
    /// It exceeded the meter of a rule.
    Metered = "metered", Drop, Host;
    /// No verdict came for it within the deadline of --inline.
    VerdictLate = "verdict_late", Drop, Host;
    /// No worker was attached to give it a verdict: none had started yet, or it had left.
    NoVerdict = "no_verdict", Drop, Host;
    /// Too many packets waited for a verdict, and it was the oldest.
    VerdictNoRoom = "verdict_no_room", Drop, Host;
    /// Its verdict was not a known value, or its replacement was out of bounds.
    VerdictInvalid = "verdict_invalid", Drop, Host;
    /// The rule of --shed does not apply to its link type; its source ended there.
    Unjudged = "unjudged", Drop, Host;
    /// The reader was too slow, and the writer took the segment back.
    ReaderOverrun = "reader_overrun", Overrun, Host;
    /// The file system had no room left for it: full, a quota, a limit on file sizes, --min-free.
    DiskFull = "disk_full", Full, Host;
    /// Writing it failed, or syncing it to the disk: it may not be there.
    WriteError = "write_error", Full, Host;
    /// The reader of the pipe has closed it.
    PipeClosed = "pipe_closed", Full, Host;
    /// The reader of the pipe took nothing for 1 s at exit.
    PipeFull = "pipe_full", Full, Host;
    /// The device took packets too slowly: its ring was full, or not empty at the end.
    TxRingFull = "tx_ring_full", Full, Host;
    /// The interface was down or gone before the packet was sent.
    LinkDown = "link_down", Full, Host;
    /// The driver dropped it instead of sending it: no carrier, or no room at the other end.
    TxRefused = "tx_refused", Full, Host;
    /// The kernel found something wrong with it, and did not send it.
    TxRejected = "tx_rejected", Drop, Host;
    /// The device took it, and never confirmed that it was sent.
    Unconfirmed = "unconfirmed", Full, Host;
    /// The filter rejected it.
    Filtered = "filtered", Choice, Nowhere;
    /// Left to the host: the XDP program passed it on.
    Passed = "passed", Choice, Nowhere;
    /// The port of the switch does not carry its VLAN.
    VlanFiltered = "vlan_filtered", Choice, Nowhere;
    /// Its destination is an address that switches do not forward: 01:80:c2:00:00:00 to 0f.
    LinkLocal = "link_local", Choice, Nowhere;
    /// Its destination is at the port that it came from.
    SamePort = "same_port", Choice, Nowhere;
    /// Source and destination are in one isolation group.
    Isolated = "isolated", Choice, Nowhere;
    /// No other port carries its VLAN.
    NoDestination = "no_destination", Choice, Nowhere;
    /// Its flow had already passed the bytes that --cutoff allows.
    CutOff = "cut_off", Choice, Nowhere;
    /// A rule dropped it: --shed, or a program's rule.
    Shed = "shed", Choice, Nowhere;
    /// A reader's verdict dropped it.
    DroppedByVerdict = "dropped_by_verdict", Choice, Nowhere;
    /// A reader's verdict rejected it; its sender may have been sent an answer.
    RejectedByVerdict = "rejected_by_verdict", Choice, Nowhere;
    /// Aged out before a trigger.
    Expired = "expired", Choice, Nowhere;
    /// It came after the last file that -W allows was full.
    AfterLastFile = "after_last_file", Choice, Nowhere;
    /// No --map names its interface.
    Unmapped = "unmapped", Choice, Nowhere;
    /// It came on a queue that xdp: did not know when it was opened, and went to the host.
    QueueAdded = "queue_added", Miss, Interface;
    /// It came while the card's link was down.
    CardLinkDown = "card_link_down", Miss, Interface;
    /// It is longer than the card accepts.
    CardTooLong = "card_too_long", Miss, Interface;
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Counts by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses(Vec<(Loss, u64)>);

impl Losses {
    /// Adds `packets` to a cause. Adding 0 makes the cause appear in reports.
    pub fn add(&mut self, cause: Loss, packets: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, count)) => *count += packets,
            None => self.0.push((cause, packets)),
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        for &(cause, packets) in &other.0 {
            self.add(cause, packets);
        }
    }

    /// Returns the count of one cause.
    pub fn of(&self, cause: Loss) -> u64 {
        self.0.iter().find(|(known, _)| *known == cause).map_or(0, |&(_, packets)| packets)
    }

    /// Returns the sum over all causes, as used to balance a ledger.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|&(_, packets)| packets).sum()
    }

    /// Returns the sum over the causes of kind [`Choice`](LossKind::Choice): packets left out on
    /// request.
    pub fn unwanted(&self) -> u64 {
        let unwanted = self.iter().filter(|(cause, _)| cause.is_choice());
        unwanted.map(|(_, packets)| packets).sum()
    }

    /// Returns the sum over all other causes, which are worth a warning.
    pub fn missing(&self) -> u64 {
        self.total() - self.unwanted()
    }

    /// Returns the sum over the causes of one place.
    pub fn at(&self, place: LossPlace) -> u64 {
        let there = self.iter().filter(|(cause, _)| cause.place() == place);
        there.map(|(_, packets)| packets).sum()
    }

    /// Iterates over the causes that were counted.
    pub fn iter(&self) -> impl Iterator<Item = (Loss, u64)> + '_ {
        self.0.iter().copied()
    }
}

/// The account of a port. All counts are since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortAccount {
    /// Packets that reached a source, or that a sink was given.
    pub offered: u64,
    /// Packets that a source lost before delivery, or that a sink could not take.
    pub lost: Losses,
    /// Packets that the port holds: offered, but neither delivered nor lost.
    pub in_flight: u64,
    /// Packets delivered truncated, because the file or the snapshot length cut them.
    pub truncated: u64,
    /// How often the writer of a log was stopped or died. Packets that passed before the next one
    /// came belong to no writer, and are in no sum.
    pub writer_down: u64,
    /// Fragments hashed without the first one of their datagram: they did not follow their flow.
    pub fragments_unmatched: u64,
    /// Bytes copied for delivery, 0 on a zero-copy path.
    pub bytes_copied: u64,
    /// Notes for the report: damage with its position, adaptations. Bounded; see `notes_omitted`.
    pub notes: Vec<String>,
    /// The notes that explain how the port works, which a short report leaves out.
    pub hints: Vec<String>,
    /// Events while the port was open, in order: to be reported immediately. Bounded; the last one
    /// says so.
    pub events: Vec<String>,
    /// Bytes of the queue in front of a live source, which the kernel or a card fills; 0 if none.
    pub ring_bytes: u64,
    /// Fill levels of a live source's rings, if they can be read without a system call.
    pub rings: Vec<RingFill>,
    /// The file that a sink is writing.
    pub file: Option<String>,
    /// What stops working because of this port, and the remedy: known when it is open, and to be
    /// reported immediately. A report lists them among its notes.
    pub warnings: Vec<String>,
    /// Notes beyond the bound.
    pub notes_omitted: u64,
    /// Whether some of the input could not be understood: the job then ends with exit code 1.
    pub is_damaged: bool,
}

impl PortAccount {
    /// The maximum number of notes kept.
    pub const MAX_NOTES: usize = 100;

    /// The maximum number of events kept. Each look at the account copies them.
    pub const MAX_EVENTS: usize = 1000;

    /// Counts a packet of `length` bytes that was copied into a log. False if the log had no room;
    /// then nothing is counted.
    #[inline]
    pub(crate) fn copied(
        &mut self,
        appended: Appended,
        length: usize,
        meta: &Meta,
        writer: &Writer,
    ) -> bool {
        match appended {
            Appended::Whole => self.bytes_copied += length as u64,
            Appended::Truncated => {
                self.bytes_copied += writer.max_packet_bytes() as u64;
                // A packet that was truncated before is already counted.
                self.truncated += u64::from(length == meta.original_length as usize);
            }
            Appended::Full => return false,
        }
        true
    }

    /// Adds a note on how the port works: see [`hints`](Self::hints).
    pub fn hint(&mut self, text: impl FnOnce() -> String) {
        let text = text();
        self.hints.push(text.clone());
        self.note(|| text);
    }

    /// Adds a note on something that has just happened: see [`events`](Self::events).
    pub fn event(&mut self, text: impl FnOnce() -> String) {
        let text = text();
        self.news(|| text.clone());
        self.note(|| text);
    }

    /// As [`event`](Self::event), without a note: the report says the same in other words.
    pub fn news(&mut self, text: impl FnOnce() -> String) {
        match Self::MAX_EVENTS.saturating_sub(self.events.len()) {
            0 => {}
            1 => {
                let (most, last) = (Self::MAX_EVENTS, text());
                let last =
                    format!("{last}; later events of this port are not reported, {most} were");
                self.events.push(last);
            }
            _ => self.events.push(text()),
        }
    }

    /// Adds a note, or only counts it after [`MAX_NOTES`](Self::MAX_NOTES) notes.
    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.notes.len() < Self::MAX_NOTES {
            self.notes.push(text());
        } else {
            self.notes_omitted += 1;
        }
    }

    /// Adds the account of a part of this port, such as one of its files.
    pub fn add(&mut self, part: Self) {
        self.add_counts(&part);
        part.notes.into_iter().for_each(|note| self.note(|| note));
    }

    /// As [`add`](Self::add), without the notes.
    pub fn add_counts(&mut self, part: &Self) {
        self.offered += part.offered;
        self.lost.merge(&part.lost);
        self.in_flight += part.in_flight;
        self.truncated += part.truncated;
        self.writer_down += part.writer_down;
        self.fragments_unmatched += part.fragments_unmatched;
        self.bytes_copied += part.bytes_copied;
        self.notes_omitted += part.notes_omitted;
        self.is_damaged |= part.is_damaged;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_asked_for_is_named_and_no_failure() {
        let mut losses = Losses::default();
        for (cause, packets) in [(Loss::Filtered, 5), (Loss::Passed, 7), (Loss::RxRingFull, 2)] {
            losses.add(cause, packets);
        }
        assert_eq!((losses.total(), losses.unwanted(), losses.missing()), (14, 12, 2));
        let places = [LossPlace::Interface, LossPlace::Host, LossPlace::Nowhere];
        assert_eq!(places.map(|place| losses.at(place)), [2, 0, 12]);
        let is_nowhere = |cause: &&Loss| cause.place() == LossPlace::Nowhere;
        assert!(Loss::ALL.iter().all(|cause| cause.is_choice() == is_nowhere(&cause)));
        let choices = Loss::ALL.iter().filter(|cause| cause.is_choice());
        assert!(choices.eq(&[
            Loss::Filtered,
            Loss::Passed,
            Loss::VlanFiltered,
            Loss::LinkLocal,
            Loss::SamePort,
            Loss::Isolated,
            Loss::NoDestination,
            Loss::CutOff,
            Loss::Shed,
            Loss::DroppedByVerdict,
            Loss::RejectedByVerdict,
            Loss::Expired,
            Loss::AfterLastFile,
            Loss::Unmapped
        ]));
    }

    #[test]
    fn the_last_event_says_that_no_more_are_reported() {
        let mut account = PortAccount::default();
        (0..2000).for_each(|number| account.event(|| format!("v0 is down: {number}")));
        assert_eq!(account.events.len(), PortAccount::MAX_EVENTS);
        assert_eq!(account.events[998], "v0 is down: 998");
        let last = "v0 is down: 999; later events of this port are not reported, 1000 were";
        assert_eq!(account.events[999], last);
        assert_eq!((account.notes.len(), account.notes_omitted), (PortAccount::MAX_NOTES, 1900));
    }
}

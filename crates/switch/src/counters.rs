//! Counters of the frames of an end.

/// Why a frame was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It is shorter than an Ethernet header.
    TooShort,
    /// The port does not carry its VLAN.
    Vlan,
    /// Its source is a group address, or 0: no station sends such frames.
    BadSource,
    /// Its source may not send on this port.
    Security,
    /// Its destination is an address that switches must not forward.
    LinkLocal,
    /// A rule dropped it.
    Rule,
    /// It exceeded a meter.
    Metered,
    /// It exceeded the flood limit of its port.
    Storm,
    /// Its destination is at the port it came from.
    SamePort,
    /// Source and destination are in one isolation group.
    Isolated,
    /// No end can take it.
    NoDestination,
}

impl Cause {
    /// All causes, in order.
    pub const ALL: [Self; 11] = [
        Self::TooShort,
        Self::Vlan,
        Self::BadSource,
        Self::Security,
        Self::LinkLocal,
        Self::Rule,
        Self::Metered,
        Self::Storm,
        Self::SamePort,
        Self::Isolated,
        Self::NoDestination,
    ];
}

/// Counters of one end, since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received frames.
    pub frames_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames forwarded to one end, or to the ends that a rule names.
    pub forwarded: u64,
    /// Frames flooded to every end of their VLAN.
    pub flooded: u64,
    /// Copies made of the flooded frames.
    pub flood_copies: u64,
    /// Bytes of the forwarded and flooded frames, as received.
    pub bytes_switched: u64,
    /// Dropped frames, by cause.
    pub dropped: [u64; Cause::ALL.len()],
    /// Copies of frames to send through this end.
    pub copies_out: u64,
    /// Mirror copies for this end.
    pub mirrored: u64,
}

impl Counters {
    /// Returns the number of frames dropped for this cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Returns the number of frames forwarded or flooded.
    pub fn switched(&self) -> u64 {
        self.forwarded + self.flooded
    }

    /// Returns whether each received frame is counted once (W1).
    pub fn closes(&self) -> bool {
        let dropped: u64 = self.dropped.iter().sum();
        self.frames_in == self.switched() + dropped
    }

    pub(crate) fn drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }
}

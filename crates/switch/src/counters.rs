//! What became of the frames of an end.

/// Why a frame went nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// It is shorter than an Ethernet header.
    TooShort,
    /// The port does not carry its VLAN.
    Vlan,
    /// Its source is a group address, or 0: no station sends such frames.
    BadSource,
    /// Its source may not send by this port.
    Security,
    /// Its destination is one that switches keep to themselves.
    LinkLocal,
    /// A rule drops it.
    Rule,
    /// It exceeds a meter.
    Metered,
    /// It exceeds what may be flooded from its port.
    Storm,
    /// Its destination is where it came from.
    SamePort,
    /// Source and destination are of one isolation group.
    Isolated,
    /// There is no end that it could go to.
    NoDestination,
}

impl Cause {
    /// All of them, in order.
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

/// Counts of one end, since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that came in.
    pub frames_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames that went to one end, or to those that a rule names.
    pub forwarded: u64,
    /// Frames that went to every end of their VLAN.
    pub flooded: u64,
    /// Copies that were made of the flooded frames.
    pub flood_copies: u64,
    /// Bytes of the frames that were forwarded and flooded, as they came.
    pub bytes_switched: u64,
    /// Frames that went nowhere, by cause.
    pub dropped: [u64; Cause::ALL.len()],
    /// Copies of frames that were to leave here.
    pub copies_out: u64,
    /// Copies that mirrors have made for this end.
    pub mirrored: u64,
}

impl Counters {
    /// Frames that went nowhere for this cause.
    pub fn of(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Frames that went somewhere.
    pub fn switched(&self) -> u64 {
        self.forwarded + self.flooded
    }

    /// Whether each frame that came in is counted once (W1).
    pub fn closes(&self) -> bool {
        let dropped: u64 = self.dropped.iter().sum();
        self.frames_in == self.switched() + dropped
    }

    pub(crate) fn drop(&mut self, cause: Cause) {
        self.dropped[cause as usize] += 1;
    }
}

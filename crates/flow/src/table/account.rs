//! What a table has counted, and why packets have no record.

/// Why a packet has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlow {
    /// It is not IP: ARP, LLC and so on, or of a link that is not parsed.
    NoIp,
    /// Its link or IP header is cut off or contradicts itself.
    Malformed,
    /// The table has no room for another conversation.
    TableFull,
}

impl NoFlow {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NoIp, Self::Malformed, Self::TableFull];

    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoIp => "no_ip",
            Self::Malformed => "malformed",
            Self::TableFull => "table_full",
        }
    }
}

/// What a table has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Packets looked at.
    pub packets: u64,
    /// Records given out.
    pub records: u64,
    /// Packets of these.
    pub packets_in_records: u64,
    /// Packets without a record, in the order of [`NoFlow::ALL`].
    pub without_flow: [u64; 3],
    /// The most conversations open at a time.
    pub open_most: u64,
}

impl TableCounts {
    /// Packets without a record.
    #[must_use]
    pub fn packets_without_flow(&self) -> u64 {
        self.without_flow.iter().sum()
    }

    /// Adds another table's.
    pub fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.records += other.records;
        self.packets_in_records += other.packets_in_records;
        self.open_most += other.open_most;
        for (sum, count) in self.without_flow.iter_mut().zip(other.without_flow) {
            *sum += count;
        }
    }
}

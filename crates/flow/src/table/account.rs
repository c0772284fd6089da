//! The counts of a table, and the reasons why packets have no record.

/// Why a packet has no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoFlow {
    /// Not IP: ARP, LLC and so on, or a link type that is not parsed.
    NoIp,
    /// The link or IP header is truncated or malformed.
    Malformed,
    /// The table has no room for a new conversation.
    TableFull,
}

impl NoFlow {
    /// All reasons.
    pub const ALL: [Self; 3] = [Self::NoIp, Self::Malformed, Self::TableFull];

    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::NoIp => "no_ip",
            Self::Malformed => "malformed",
            Self::TableFull => "table_full",
        }
    }
}

/// The counts of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableCounts {
    /// Packets seen.
    pub packets: u64,
    /// Records returned.
    pub records: u64,
    /// Packets of these records.
    pub packets_in_records: u64,
    /// Packets without a record, in the order of [`NoFlow::ALL`].
    pub without_flow: [u64; 3],
    /// The most conversations open at the same time.
    pub open_most: u64,
}

impl TableCounts {
    /// Returns the packets without a record.
    #[must_use]
    pub fn packets_without_flow(&self) -> u64 {
        self.without_flow.iter().sum()
    }

    /// Adds the counts of another table.
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

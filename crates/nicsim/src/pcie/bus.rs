//! A bus and the cost of its transactions in each direction.

use std::ops::AddAssign;

use super::Link;

/// Header of a memory write or a read request with a 64-bit address, in bytes.
/// Source: PCI Express Base Specification 5.0, 2.2.7 (4 double words).
const REQUEST_HEADER: u64 = 16;
/// Header of a completion, in bytes. Source: as above, 2.2.9 (3 double words).
const COMPLETION_HEADER: u64 = 12;
/// Bytes that the link and physical layers add to a TLP. With 8b/10b: sequence number 2, LCRC 4,
/// start and end 2. With 128b/130b: a start token of 4 that includes the sequence number, and LCRC
/// 4. Source: as above, 3.6.2 and 4.2.2.
const FRAMING: u64 = 8;
/// Payloads are whole double words (bytes).
const WORD: u64 = 4;

/// Direction of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the device to the host.
    Up,
    /// From the host to the device.
    Down,
}

/// Cost of some transactions in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Packets of the transaction layer.
    pub tlps: u64,
    /// Payload bytes.
    pub payload: u64,
    /// Bytes of padding to double words.
    pub padding: u64,
    /// Bytes of TLP headers.
    pub header: u64,
    /// Bytes of sequence numbers, checksums, start and end.
    pub framing: u64,
}

impl Cost {
    fn new(tlps: u64, payload: u64, header: u64) -> Self {
        let padding = payload.next_multiple_of(WORD) - payload;
        Self { tlps, payload, padding, header: tlps * header, framing: tlps * FRAMING }
    }

    /// Returns all bytes on the link.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.payload + self.padding + self.header + self.framing
    }

    /// Returns the cost of this many equal transactions.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self {
            tlps: self.tlps * count,
            payload: self.payload * count,
            padding: self.padding * count,
            header: self.header * count,
            framing: self.framing * count,
        }
    }
}

impl AddAssign for Cost {
    fn add_assign(&mut self, more: Self) {
        self.tlps += more.tlps;
        self.payload += more.payload;
        self.padding += more.padding;
        self.header += more.header;
        self.framing += more.framing;
    }
}

/// The parameters of a bus.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bus {
    /// Generation and lanes.
    pub link: Link,
    /// The most payload of a TLP, in bytes.
    pub max_payload: u64,
    /// The most bytes that a read request asks for.
    pub max_request: u64,
    /// Boundary at which completions may be split, in bytes (the read completion boundary).
    pub boundary: u64,
    /// Share of the link for acknowledgements and flow control. The default is what Neugebauer et
    /// al. use for 3.0x8 (57.88 of 62.96 Gbit/s are left). Source: Understanding PCIe performance
    /// for end host networking, SIGCOMM 2018, section 3.
    pub link_layer_share: f64,
}

/// An invalid bus parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} of {bytes} bytes: must be a power of two from 128 to 4096")]
pub struct BusError {
    /// Name of the parameter.
    pub what: &'static str,
    /// The requested value.
    pub bytes: u64,
}

impl Bus {
    /// Creates a bus with a max payload and a max read request in bytes, each a power of two in
    /// `[128, 4096]`.
    ///
    /// # Errors
    /// One of them is invalid. Source: PCI Express Base Specification 5.0, 7.5.3.4.
    pub fn new(link: Link, max_payload: u64, max_request: u64) -> Result<Self, BusError> {
        for (what, bytes) in [("a max payload", max_payload), ("a max read request", max_request)] {
            if !bytes.is_power_of_two() || !(128..=4096).contains(&bytes) {
                return Err(BusError { what, bytes });
            }
        }
        let link_layer_share = 1.0 - 57.88 / 62.96;
        Ok(Self { link, max_payload, max_request, boundary: 64, link_layer_share })
    }

    /// Returns the TLP bytes per second in each direction.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.link.bits_per_s() / 8.0 * (1.0 - self.link_layer_share)
    }

    /// Returns the cost of a write of `bytes` to memory or to a register, which has no reply.
    ///
    /// Cost: a few instructions; no division.
    #[inline]
    #[must_use]
    pub fn write(&self, bytes: u64) -> Cost {
        Cost::new(self.tlps(bytes, self.max_payload), bytes, REQUEST_HEADER)
    }

    /// Returns the cost of a read of `bytes`: the requests, and the completions in reverse.
    #[inline]
    #[must_use]
    pub fn read(&self, bytes: u64) -> (Cost, Cost) {
        let requests = self.tlps(bytes, self.max_request);
        let completions = self.tlps(bytes, self.max_payload);
        let asked = Cost { payload: 0, padding: 0, ..Cost::new(requests, 0, REQUEST_HEADER) };
        (asked, Cost::new(completions, bytes, COMPLETION_HEADER))
    }

    /// Returns the number of TLPs for this many bytes, each at most `most`: a power of two.
    #[inline]
    fn tlps(&self, bytes: u64, most: u64) -> u64 {
        (bytes + most - 1) >> most.trailing_zeros()
    }
}

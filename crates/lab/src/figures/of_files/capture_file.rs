//! A capture file of plausible traffic, created once and deleted at the end.
//!
//! The mean size is 350 bytes: half of the packets are short (acknowledgements, queries), a third
//! medium, the rest near the maximum. Headers are complete Ethernet, IPv4 and TCP or UDP of a few
//! thousand flows; payloads are zero.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::files::{PacketToWrite, PcapNsEncoder};
use burstline_wire::headers::LinkType;

const MAX_BYTES: usize = 1514;
const HEADERS_BYTES: usize = 54;
pub(crate) const FLOWS: u64 = 4096;

/// A file in the folder for temporary files. Its data is in the page cache, as is usual for capture
/// files that people count.
pub(crate) struct CaptureFile {
    path: PathBuf,
    bytes: u64,
    /// Deletes the file on drop.
    _folder: TemporaryFolder,
}

impl CaptureFile {
    /// Writes `packets` packets. The same `seed` gives the same file.
    pub(crate) fn create(packets: u64, seed: u64) -> Result<Self, String> {
        let folder =
            TemporaryFolder::create("burstline-bench-").map_err(|error| error.to_string())?;
        let path = folder.path().join("bench.pcap");
        // Created before writing, so that an error also deletes the file.
        let mut file = Self { path, bytes: 0, _folder: folder };
        file.bytes = File::create(&file.path)
            .and_then(|out| write(out, packets, seed, Flows::Steady))
            .map_err(|error| format!("{}: {error}", file.path.display()))?;
        Ok(file)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// xorshift64*. Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", 2016.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    /// Returns a number in `[from, to)`.
    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.next() % (to - from)
    }

    /// Returns the length of a packet, 350 bytes on average.
    fn length(&mut self) -> usize {
        let length = match self.between(0, 100) {
            0..50 => self.between(60, 90),
            50..85 => self.between(100, 577),
            _ => self.between(1086, MAX_BYTES as u64 + 1),
        };
        length as usize
    }
}

/// The lifetime of a file's flows; [`FLOWS`] are alive at a time.
#[derive(Clone, Copy)]
pub(crate) enum Flows {
    /// From the first packet to the last.
    Steady,
    /// After this many packets the oldest flow ends and a new one begins.
    Turning(u64),
}

impl Flows {
    /// Returns the oldest flow that is alive at this packet.
    pub(crate) fn oldest(self, number: u64) -> u64 {
        match self {
            Self::Steady => 0,
            Self::Turning(packets) => number / packets,
        }
    }
}

/// Writes a capture of `packets` packets and returns its size. The same `seed` gives the same file.
pub(crate) fn write(out: impl Write, packets: u64, seed: u64, flows: Flows) -> io::Result<u64> {
    let mut random = Random(seed | 1);
    let mut out = BufWriter::with_capacity(1 << 20, out);
    let encoder = PcapNsEncoder::new(LinkType::ETHERNET, 65_535);
    let mut record = [0_u8; MAX_BYTES + 64];
    let header = encoder.header(&mut record);
    out.write_all(&record[..header])?;
    let mut bytes = header as u64;
    let mut packet = [0_u8; MAX_BYTES];
    for number in 0..packets {
        let oldest = flows.oldest(number);
        let (length, flow) = (random.length(), random.between(oldest, oldest + FLOWS));
        headers(&mut packet, length, flow, number as u16);
        let time_ns = 1_700_000_000_000_000_000 + number * 1000;
        let to_write = PacketToWrite::new(&packet[..length], time_ns);
        let record_bytes = encoder.packet(&mut record, &to_write).map_err(io::Error::other)?;
        out.write_all(&record[..record_bytes])?;
        bytes += record_bytes as u64;
    }
    out.into_inner().map_err(|error| error.into_error())?;
    Ok(bytes)
}

/// Returns source, destination and source port of a flow. It uses TCP unless its number is a
/// multiple of 4. The destination port is 443.
pub(crate) fn flow_ends(flow: u64) -> FlowEnds {
    FlowEnds {
        source: Ipv4Addr::new(10, 1, (flow >> 8) as u8, flow as u8),
        destination: Ipv4Addr::new(10, 2, 0, (flow % 251) as u8),
        source_port: 1024 + flow as u16,
    }
}

/// The ends of a flow. All go to port 443.
pub(crate) struct FlowEnds {
    pub(crate) source: Ipv4Addr,
    pub(crate) destination: Ipv4Addr,
    pub(crate) source_port: u16,
}

/// Writes Ethernet, IPv4 and TCP or UDP headers. Source: RFC 791, 768, 9293.
fn headers(packet: &mut [u8; MAX_BYTES], length: usize, flow: u64, identification: u16) {
    let is_tcp = !flow.is_multiple_of(4);
    packet[..HEADERS_BYTES].fill(0);
    packet[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    let total = (length - 14) as u16;
    packet[14] = 0x45;
    packet[16..18].copy_from_slice(&total.to_be_bytes());
    packet[18..20].copy_from_slice(&identification.to_be_bytes());
    packet[20] = 0x40; // do not fragment
    packet[22] = 64;
    packet[23] = if is_tcp { 6 } else { 17 };
    let FlowEnds { source, destination, source_port } = flow_ends(flow);
    packet[26..30].copy_from_slice(&source.octets());
    packet[30..34].copy_from_slice(&destination.octets());
    let sum: u32 = packet[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1])).sum();
    let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
    packet[24..26].copy_from_slice(&folded.to_be_bytes());
    packet[34..36].copy_from_slice(&source_port.to_be_bytes());
    packet[36..38].copy_from_slice(&443_u16.to_be_bytes());
    match is_tcp {
        true => (packet[46], packet[47]) = (0x50, 0x10), // five words, ACK
        false => packet[38..40].copy_from_slice(&(total - 20).to_be_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_average_350_bytes_and_the_file_goes_with_the_value() {
        let mut random = Random(7);
        let mean = (0..100_000).map(|_| random.length()).sum::<usize>() as f64 / 1e5;
        assert!((345.0..355.0).contains(&mean), "{mean}");
        let file = CaptureFile::create(100, 7).unwrap();
        assert_eq!(std::fs::metadata(file.path()).unwrap().len(), file.bytes());
        let path = file.path().to_owned();
        drop(file);
        assert!(!path.exists());
    }

    #[test]
    fn ip_headers_sum_to_all_ones() {
        let mut packet = [0_u8; MAX_BYTES];
        for flow in 0..64 {
            headers(&mut packet, 400, flow, 9);
            let words = packet[14..34].chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1]));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
        }
    }
}

//! Programs that send packets: trafgen and tcpreplay. They report too late that they send, so
//! callers watch a counter at the cable's other end.

use super::{FILE, Launch, Memory, Ready};
use crate::live::{Need, udp_frame, with_all};

/// Required to end either one with all its processes.
const UNSHARE: Need = Need { program: "unshare", package: "util-linux" };

/// A program that sends the packets of a file over v1, in a loop.
#[derive(Clone, Copy, Debug)]
pub struct Generator {
    /// The command name.
    pub program: &'static str,
    /// Required programs.
    pub needs: &'static [Need],
    arguments: &'static str,
    file: fn(&[u8]) -> Vec<u8>,
}

/// `trafgen` of the netsniff-ng tools. It runs on the first core, whatever its arguments say.
pub const TRAFGEN: Generator = Generator {
    program: "trafgen",
    needs: &[Need { program: "trafgen", package: "netsniff-ng" }, UNSHARE],
    arguments: "-o v1 -i $FILE -P 1",
    file: |packet| {
        let bytes: Vec<String> = packet.iter().map(|byte| format!("{byte:#04x}")).collect();
        format!("{{ {} }}\n", bytes.join(", ")).into_bytes()
    },
};

/// `tcpreplay`, with a file that it keeps in memory.
pub const TCPREPLAY: Generator = Generator {
    program: "tcpreplay",
    needs: &[Need { program: "tcpreplay", package: "tcpreplay" }, UNSHARE],
    arguments: "-i v1 --topspeed --preload-pcap --loop=0 $FILE",
    file: |packet| pcap(std::iter::repeat_n(packet, 1000)),
};

impl Generator {
    /// Returns the file with which it sends a UDP packet of this many bytes without FCS.
    pub fn file(&self, bytes: usize) -> Vec<u8> {
        (self.file)(&udp_frame(bytes))
    }
}

impl Launch for Generator {
    fn command(&self, _: Memory) -> String {
        debug_assert!(self.arguments.contains(FILE), "{}", self.arguments);
        with_all(&format!("{} {}", self.program, self.arguments))
    }

    fn ready(&self) -> Ready {
        Ready::at_once()
    }
}

/// Returns a pcap file of these packets, 1 us apart.
/// Source: pcap-savefile(5), little-endian, Ethernet.
pub(crate) fn pcap<'a>(packets: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let words =
        |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
    let mut file = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1]);
    for (time_us, packet) in (0_u32..).zip(packets) {
        let (seconds, length) = (1_700_000_000 + time_us / 1_000_000, packet.len() as u32);
        file.extend(words(&[seconds, time_us % 1_000_000, length, length]));
        file.extend(packet);
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_header_and_records() {
        let file = pcap(std::iter::repeat_n(&[7; 60][..], 3));
        assert_eq!(file.len(), 24 + 3 * (16 + 60));
        assert_eq!(&file[..8], &[0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(&file[32..40], &[60, 0, 0, 0, 60, 0, 0, 0]);
    }

    #[test]
    fn trafgen_is_given_bytes_in_braces() {
        let file = String::from_utf8(TRAFGEN.file(60)).unwrap();
        assert!(file.starts_with("{ 0x") && file.ends_with(" }\n"), "{file}");
        assert_eq!(file.matches("0x").count(), 60);
    }
}

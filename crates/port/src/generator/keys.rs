//! The keys of `gen:`, which are also the flags of `generate`.

use super::rate::BURST_MOST;
use crate::Key;

/// The maximum number of flows: a mark can distinguish this many.
pub(super) const MAX_FLOWS: u32 = 1 << 20;

const ALL: std::ops::RangeInclusive<u64> = 0..=u64::MAX;

/// Every key, in the order of help texts.
pub const GENERATOR_KEYS: &[Key] = &[
    Key::number("packets", ALL, "How many packets [default: no limit]"),
    Key::text(
        "size",
        "SIZE",
        "Frame lengths: 64 to 65535, a list 64,128,1518 (repeat a length for more of it), a range \
         random:64-1518, or imix (7 of 64, 4 of 594, 1 of 1518), dma (random 64 to 1518), \
         article (random 68 to 256), rfc2544 (64,128,256,512,768,1024,1280,1518), jumbo (9018). A \
         frame whose headers need more is longer [default: 64]",
    ),
    Key::words(
        "size-basis",
        "fcs|no-fcs",
        "Whether sizes include the FCS, as in RFC 2544: a frame of 64 then has 60 bytes here",
    )
    .or("fcs"),
    Key::text(
        "rate",
        "RATE",
        "500, 10k, 14.88M packets/s; 9.5Gbit/s of line rate (FCS, preamble and gap included); 50% \
         of --link; max. A bit rate is converted by the mean length; packets are evenly spaced",
    )
    .or("max"),
    Key::text("link", "RATE", "The rate of 100%, e.g. 10Gbit, which is also the limit of any rate"),
    Key::number(
        "burst",
        1..=BURST_MOST,
        "Send N packets at once, then wait until the next are due",
    )
    .or("1"),
    Key::switch("pace", "Whether to wait until packets are due [default: yes if there is a rate]"),
    Key::number(
        "flows",
        1..=MAX_FLOWS as u64,
        "How many flows [default: as many as the lists of addresses, ports and VLANs combine to, \
         or 16]",
    ),
    Key::words(
        "order",
        "random|cycle",
        "How the next flow is chosen [default: random, or cycle for a template]",
    ),
    Key::number("seed", ALL, "The seed: the same seed gives the same flows and sizes").or("1"),
    Key::number(
        "start",
        ALL,
        "Time of the first packet, in ns since 1970, instead of the clock: two runs are then \
         identical, byte for byte",
    )
    .shaped("NS"),
    Key::words("protocol", "udp|tcp|mix", "The protocol in the IP packets").or("udp"),
    Key::words("ip", "4|6|mix", "The IP version [default: 4, or the version of the addresses]"),
    Key::text(
        "src",
        "LIST",
        "Source addresses: 10.0.0.1, 10.0.0.1-10.0.3.255, 10.0.0.0/24, several with commas; IPv4 \
         or IPv6 [default: from 198.18.0.1 or 2001:2:0:1::1]",
    ),
    Key::text(
        "dst",
        "LIST",
        "Destination addresses, likewise [default: from 198.19.0.1, 2001:2:0:2::1]",
    ),
    Key::text(
        "sport",
        "LIST",
        "Source ports: 1024, 1024-2047, several with commas [default: from 1024]",
    ),
    Key::text("dport", "LIST", "Destination ports, likewise [default: 7]"),
    Key::text("vlan", "LIST", "VLANs, 0 to 4094, likewise [default: no tag]"),
    Key::text("src-mac", "MAC", "Source of the Ethernet header").or("02:00:00:00:00:01"),
    Key::text("dst-mac", "MAC", "Destination of the Ethernet header").or("02:00:00:00:00:02"),
    Key::number(
        "vxlan",
        0..=(1 << 24) - 1,
        "Wrap each frame in VXLAN of this VNI over IPv4, 50 bytes more; a VLAN is then outside",
    )
    .shaped("VNI"),
    Key::text("outer-src", "ADDRESS", "Source address around VXLAN [default: 198.18.255.255]"),
    Key::text("outer-dst", "ADDRESS", "Destination address around VXLAN [default: 198.19.255.255]"),
    Key::text(
        "template",
        "FILE",
        "Send the packets of a capture file repeatedly, each as one flow; TCP and UDP packets \
         with room get a mark and a new checksum",
    ),
    Key::switch(
        "mark",
        "Whether each packet with enough room ends with an 18-byte mark: sequence number, time \
         and checksum, for count --verify",
    )
    .or("yes"),
];

//! The keys of `gen:`: the one list from which addresses, flags and help texts come.

/// One thing that can be asked of a generator.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorKey {
    /// As in `gen:?NAME=VALUE`, and as a flag with `-` for `_`.
    pub name: &'static str,
    /// What the value looks like.
    pub value: &'static str,
    /// What it is, in a sentence or two.
    pub help: &'static str,
}

const fn key(name: &'static str, value: &'static str, help: &'static str) -> GeneratorKey {
    GeneratorKey { name, value, help }
}

/// Every key, in the order of help texts.
pub const GENERATOR_KEYS: &[GeneratorKey] = &[
    key("packets", "N", "How many packets; without it there is no end"),
    key(
        "size",
        "SIZE",
        "Frame lengths: 64 to 65535, a list 64,128,1518 (each as often as it is there), a range \
         random:64-1518, or imix (7 of 64, 4 of 594, 1 of 1518), dma (random 64 to 1518), \
         article (random 68 to 256), rfc2544 (64,128,256,512,768,1024,1280,1518), jumbo (9018). A \
         frame whose headers need more is longer",
    ),
    key(
        "size-basis",
        "fcs|no-fcs",
        "Whether sizes include the FCS, as in RFC 2544 [default: fcs]: then 64 has 60 bytes here",
    ),
    key(
        "rate",
        "RATE",
        "500, 10k, 14.88M packets/s; 9.5Gbit/s of line rate (FCS, preamble and gap included); 50% \
         of --link; max [default: max]. Bits are made packets by the mean length, evenly apart",
    ),
    key("link", "RATE", "What 100% is, 10Gbit for example, and what no rate may exceed"),
    key("burst", "B", "Send B packets at once, and then wait until the next B are due"),
    key(
        "pace",
        "yes|no",
        "Whether to wait until packets are due [default: yes if there is a rate]",
    ),
    key(
        "flows",
        "N",
        "How many flows, 1 to 1048576 [default: as many as the lists of addresses, ports and VLANs \
         combine to, or 16]",
    ),
    key("order", "random|cycle", "Which flow is next [default: random; cycle for a template]"),
    key(
        "seed",
        "N",
        "Where chance begins: the same flows and sizes for the same seed [default: 1]",
    ),
    key(
        "start",
        "NS",
        "Time of the first packet, in ns since 1970, instead of the clock: two runs are then the \
         same byte for byte",
    ),
    key("protocol", "udp|tcp|mix", "What is in the IP packets [default: udp]"),
    key("ip", "4|6|mix", "Which IP [default: 4, or that of the addresses]"),
    key(
        "src",
        "LIST",
        "Source addresses: 10.0.0.1, 10.0.0.1-10.0.3.255, 10.0.0.0/24, several with commas; IPv4 \
         or IPv6 [default: from 198.18.0.1 or 2001:2:0:1::1]",
    ),
    key("dst", "LIST", "Destination addresses, likewise [default: from 198.19.0.1, 2001:2:0:2::1]"),
    key("sport", "LIST", "Source ports: 1024, 1024-2047, several with commas [default: from 1024]"),
    key("dport", "LIST", "Destination ports, likewise [default: 7]"),
    key("vlan", "LIST", "VLANs, 0 to 4094, likewise [default: no tag]"),
    key("src-mac", "MAC", "Source of the Ethernet header [default: 02:00:00:00:00:01]"),
    key("dst-mac", "MAC", "Destination of the Ethernet header [default: 02:00:00:00:00:02]"),
    key(
        "vxlan",
        "VNI",
        "Put each frame into VXLAN over IPv4, 50 bytes more; a VLAN is then outside",
    ),
    key("outer-src", "ADDRESS", "Source address around VXLAN [default: 198.18.255.255]"),
    key("outer-dst", "ADDRESS", "Destination address around VXLAN [default: 198.19.255.255]"),
    key(
        "template",
        "FILE",
        "Send the packets of a capture file, over and over, each a flow; those of TCP and UDP with \
         room for it get a mark and a new checksum",
    ),
    key(
        "mark",
        "yes|no",
        "Whether the last 18 bytes of each packet with room for them are a mark with sequence \
         number, time and checksum, for count --verify [default: yes]",
    ),
];

/// The names of all keys.
pub(super) fn names() -> Vec<&'static str> {
    GENERATOR_KEYS.iter().map(|key| key.name).collect()
}

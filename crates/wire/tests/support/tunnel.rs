//! Builds packets within packets, from the inside out, on top of `headers`.
#![allow(dead_code)] // Each test crate uses a part.

use burstline_wire::headers::{Fragment, LinkType, ether_type, protocol};
use burstline_wire::tunnel::{self, Tunnel};
use proptest::prelude::*;

use crate::headers_build::{Addresses, ethernet, ip, transport};

/// Returns the label before every pseudowire with or without a control word.
pub(crate) fn pseudowire_label(has_word: bool) -> u32 {
    if has_word { 98 } else { 99 }
}

/// A way to carry a packet, with all variations of its header.
#[derive(Clone, Debug)]
pub(crate) enum Carrier {
    /// Labels above the bottom one, and the bottom one.
    Mpls(Vec<u32>, u32),
    /// Whether there is a control word.
    Pseudowire(Vec<u32>, bool),
    Pppoe,
    PppoeMpls(Vec<u32>),
    IpInIp,
    Gre(GreFields),
    GreMpls(GreFields, Vec<u32>),
    ErspanI,
    ErspanII,
    /// Whether there is a subheader, and whether the frame type is IP.
    ErspanIII(bool, bool),
    /// The port, and flags in addition to the mandatory one.
    Vxlan(u16, u8),
    /// Whether it announces its payload.
    Gpe(bool),
    GpeMpls(Vec<u32>),
    /// Words of options, and whether they are critical.
    Geneve(u8, bool),
    /// Whether there is a sequence number, and the words of each extension header.
    Gtp(bool, Vec<u8>),
}

/// Which optional fields a GRE header has, and how many source routes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GreFields {
    pub(crate) has_checksum: bool,
    pub(crate) has_key: bool,
    pub(crate) has_sequence: bool,
    pub(crate) routes: Option<u8>,
}

/// A packet and its first header: Ethernet, IPv4 or IPv6.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) link: LinkType,
    pub(crate) bytes: Vec<u8>,
}

impl Packet {
    pub(crate) fn ip(addresses: Addresses, protocol: u8, payload: &[u8]) -> Self {
        Self::fragment(addresses, protocol, None, payload)
    }

    pub(crate) fn fragment(
        addresses: Addresses,
        protocol: u8,
        fragment: Option<Fragment>,
        payload: &[u8],
    ) -> Self {
        let link = match addresses {
            Addresses::V4(..) => LinkType::IPV4,
            Addresses::V6(..) => LinkType::IPV6,
        };
        Self { link, bytes: ip(addresses, protocol, fragment, payload) }
    }

    /// Returns the packet of a flow.
    pub(crate) fn flow(addresses: Addresses, protocol: u8, ports: (u16, u16)) -> Self {
        Self::ip(addresses, protocol, &transport(protocol, ports, &[7; 18]))
    }

    pub(crate) fn ether_type(&self) -> u16 {
        match self.link {
            LinkType::IPV4 => ether_type::IPV4,
            LinkType::IPV6 => ether_type::IPV6,
            _ => ether_type::ETHERNET_BRIDGING,
        }
    }

    /// Returns the packet with an Ethernet header, added if it has none.
    pub(crate) fn framed(self) -> Self {
        if self.link == LinkType::ETHERNET {
            return self;
        }
        let bytes = ethernet(&[], self.ether_type(), &self.bytes);
        Self { link: LinkType::ETHERNET, bytes }
    }

    fn has_no_link(&self) -> bool {
        self.link != LinkType::ETHERNET
    }
}

impl Carrier {
    /// Returns the parser's name for it.
    pub(crate) fn tunnel(&self) -> Tunnel {
        match self {
            Self::Mpls(..) | Self::Pseudowire(..) => Tunnel::Mpls,
            Self::Pppoe | Self::PppoeMpls(..) => Tunnel::Pppoe,
            Self::IpInIp => Tunnel::IpInIp,
            Self::Gre(_) | Self::GreMpls(..) => Tunnel::Gre,
            Self::ErspanI | Self::ErspanII | Self::ErspanIII(..) => Tunnel::Erspan,
            Self::Vxlan(..) => Tunnel::Vxlan,
            Self::Gpe(_) | Self::GpeMpls(_) => Tunnel::VxlanGpe,
            Self::Geneve(..) => Tunnel::Geneve,
            Self::Gtp(..) => Tunnel::Gtp,
        }
    }

    /// Returns the packet as this carrier takes it: some take only IP, some only frames.
    pub(crate) fn prepared(&self, packet: Packet) -> Option<Packet> {
        match self {
            Self::Pseudowire(..)
            | Self::ErspanI
            | Self::ErspanII
            | Self::ErspanIII(_, false)
            | Self::Vxlan(..)
            | Self::Gpe(false) => Some(packet.framed()),
            Self::Gre(_) | Self::Gpe(true) | Self::Geneve(..) => Some(packet),
            _ => packet.has_no_link().then_some(packet),
        }
    }

    /// Returns `packet` carried between the two ends of the tunnel. `packet` has been prepared.
    pub(crate) fn carry(&self, ends: Addresses, entropy: u16, packet: &Packet) -> Packet {
        let bytes = &packet.bytes[..];
        let frame = |ether_type, payload: &[u8]| Packet {
            link: LinkType::ETHERNET,
            bytes: ethernet(&[], ether_type, payload),
        };
        let udp = |port, payload: &[u8]| {
            Packet::ip(ends, protocol::UDP, &transport(protocol::UDP, (entropy, port), payload))
        };
        match self {
            Self::Mpls(labels, bottom) => {
                frame(ether_type::MPLS, &[&stack(labels, *bottom)[..], bytes].concat())
            }
            Self::Pseudowire(labels, has_word) => {
                let word: &[u8] = if *has_word { &[0, 0, 0, 9] } else { &[] };
                frame(
                    ether_type::MPLS,
                    &[&stack(labels, pseudowire_label(*has_word)), word, bytes].concat(),
                )
            }
            Self::Pppoe => frame(ether_type::PPPOE_SESSION, &pppoe(packet.ether_type(), bytes)),
            Self::PppoeMpls(labels) => {
                let inner = [&stack(labels, 77)[..], bytes].concat();
                frame(ether_type::PPPOE_SESSION, &pppoe(ether_type::MPLS, &inner))
            }
            Self::IpInIp => Packet::ip(ends, ip_protocol(packet), bytes),
            Self::Gre(fields) => {
                Packet::ip(ends, protocol::GRE, &fields.header(packet.ether_type(), bytes))
            }
            Self::GreMpls(fields, labels) => {
                let inner = [&stack(labels, 66)[..], bytes].concat();
                Packet::ip(ends, protocol::GRE, &fields.header(ether_type::MPLS, &inner))
            }
            Self::ErspanI | Self::ErspanII | Self::ErspanIII(..) => {
                Packet::ip(ends, protocol::GRE, &self.erspan(bytes))
            }
            Self::Vxlan(port, flags) => {
                udp(*port, &[&[flags | 0x08, 0, 0, 0, 0, 0, 42, 0], bytes].concat())
            }
            Self::Gpe(says) => {
                let next = if *says { gpe_next(packet.ether_type()) } else { 0 };
                let flags = if *says { 0x0c } else { 0x08 };
                let header = [flags, 0, 0, next, 0, 0, 42, 0];
                udp(tunnel::VXLAN_GPE_PORT, &[&header, bytes].concat())
            }
            Self::GpeMpls(labels) => {
                let header = [0x0c, 0, 0, 5, 0, 0, 42, 0];
                udp(tunnel::VXLAN_GPE_PORT, &[&header, &stack(labels, 55)[..], bytes].concat())
            }
            Self::Geneve(words, is_critical) => {
                let header = geneve(*words, *is_critical, packet.ether_type());
                udp(tunnel::GENEVE_PORT, &[&header, bytes].concat())
            }
            Self::Gtp(has_sequence, extensions) => {
                udp(tunnel::GTP_PORT, &gtp(*has_sequence, extensions, bytes))
            }
        }
    }

    fn erspan(&self, bytes: &[u8]) -> Vec<u8> {
        let numbered = GreFields { has_sequence: true, ..GreFields::default() };
        match self {
            Self::ErspanI => GreFields::default().header(ether_type::ERSPAN, bytes),
            Self::ErspanII => {
                let header = [0x10, 1, 0, 7, 0, 0, 0, 3];
                numbered.header(ether_type::ERSPAN, &[&header, bytes].concat())
            }
            Self::ErspanIII(has_subheader, is_ip) => {
                let frame_type = if *is_ip { 2 << 2 } else { 0 };
                let mut header =
                    vec![0x20, 1, 0, 7, 1, 2, 3, 4, 0, 0, frame_type, u8::from(*has_subheader)];
                header.resize(if *has_subheader { 20 } else { 12 }, 0);
                numbered.header(ether_type::ERSPAN_III, &[&header, bytes].concat())
            }
            _ => unreachable!("no ERSPAN"),
        }
    }
}

impl GreFields {
    pub(crate) fn header(self, protocol: u16, payload: &[u8]) -> Vec<u8> {
        let flag = |is_set, flag: u16| if is_set { flag } else { 0 };
        let flags = flag(self.has_checksum, 0x8000)
            | flag(self.routes.is_some(), 0x4000)
            | flag(self.has_key, 0x2000)
            | flag(self.has_sequence, 0x1000);
        let mut header = [flags.to_be_bytes(), protocol.to_be_bytes()].concat();
        let words = [self.has_checksum || self.routes.is_some(), self.has_key, self.has_sequence];
        header.extend(words.iter().filter(|is_there| **is_there).flat_map(|_| [0, 0, 0, 5]));
        if let Some(routes) = self.routes {
            // Each with one IPv4 address of the source route.
            header.extend((0..routes).flat_map(|hop| [0x08, 0, 0, 4, 10, 9, 9, hop]));
            header.extend([0; 4]);
        }
        header.extend(payload);
        header
    }
}

fn ip_protocol(packet: &Packet) -> u8 {
    if packet.link == LinkType::IPV4 { protocol::IPV4 } else { protocol::IPV6 }
}

fn gpe_next(ether_type: u16) -> u8 {
    match ether_type {
        ether_type::IPV4 => 1,
        ether_type::IPV6 => 2,
        _ => 3,
    }
}

/// Returns a label stack with time to live 64.
pub(crate) fn stack(above: &[u32], bottom: u32) -> Vec<u8> {
    let entry =
        |label: u32, is_bottom| (label << 12 | u32::from(is_bottom) << 8 | 64).to_be_bytes();
    let above = above.iter().map(|label| entry(*label, false));
    above.chain([entry(bottom, true)]).flatten().collect()
}

fn pppoe(ether_type: u16, payload: &[u8]) -> Vec<u8> {
    let protocol: u16 = match ether_type {
        ether_type::IPV4 => 0x0021,
        ether_type::IPV6 => 0x0057,
        _ => 0x0281,
    };
    let mut bytes = vec![0x11, 0, 0, 7];
    bytes.extend((payload.len() as u16 + 2).to_be_bytes());
    bytes.extend(protocol.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Returns a header whose only option fills all words, if any; an option's header is one word.
fn geneve(words: u8, is_critical: bool, ether_type: u16) -> Vec<u8> {
    let mut header = vec![words, u8::from(is_critical) << 6];
    header.extend(ether_type.to_be_bytes());
    header.extend([0, 0, 42, 0]);
    let mut left = words;
    while left > 0 {
        let data = (left - 1).min(31);
        header.extend([0xff, 0xf0, if is_critical { 0x80 } else { 0 }, data]);
        header.resize(header.len() + usize::from(data) * 4, 1);
        left -= data + 1;
    }
    header
}

fn gtp(has_sequence: bool, extensions: &[u8], payload: &[u8]) -> Vec<u8> {
    // A PDCP PDU number: an extension header that every reader skips by length.
    const PDCP: u8 = 0xc0;
    let mut rest = Vec::new();
    if has_sequence || !extensions.is_empty() {
        rest.extend([0, 5, 0, if extensions.is_empty() { 0 } else { PDCP }]);
    }
    for (index, words) in extensions.iter().enumerate() {
        rest.push(*words);
        rest.resize(rest.len() + usize::from(*words) * 4 - 2, 3);
        rest.push(if index + 1 == extensions.len() { 0 } else { PDCP });
    }
    rest.extend(payload);
    let flags = 0x30 | u8::from(!extensions.is_empty()) << 2 | u8::from(has_sequence) << 1;
    let mut bytes = vec![flags, 255];
    bytes.extend((rest.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0, 8]);
    bytes.extend(rest);
    bytes
}

/// Returns every carrier in its simplest form.
pub(crate) fn carriers() -> Vec<Carrier> {
    let fields = GreFields::default();
    vec![
        Carrier::Mpls(vec![], 16),
        Carrier::Pseudowire(vec![], true),
        Carrier::Pseudowire(vec![17], false),
        Carrier::Pppoe,
        Carrier::PppoeMpls(vec![]),
        Carrier::IpInIp,
        Carrier::Gre(fields),
        Carrier::GreMpls(fields, vec![]),
        Carrier::ErspanI,
        Carrier::ErspanII,
        Carrier::ErspanIII(false, false),
        Carrier::ErspanIII(true, false),
        Carrier::ErspanIII(true, true),
        Carrier::Vxlan(tunnel::VXLAN_PORT, 0),
        Carrier::Vxlan(tunnel::VXLAN_PORT_LINUX, 0),
        Carrier::Gpe(false),
        Carrier::Gpe(true),
        Carrier::GpeMpls(vec![]),
        Carrier::Geneve(0, false),
        Carrier::Geneve(7, true),
        Carrier::Gtp(false, vec![]),
        Carrier::Gtp(true, vec![1, 2]),
    ]
}

pub(crate) fn any_carrier() -> impl Strategy<Value = Carrier> {
    let labels = || prop::collection::vec(0u32..1 << 20, 0..5);
    let fields = || {
        let routes = prop::option::weighted(0.2, 0u8..4);
        (any::<[bool; 3]>(), routes).prop_map(|(has, routes)| {
            let [has_checksum, has_key, has_sequence] = has;
            GreFields { has_checksum, has_key, has_sequence, routes }
        })
    };
    prop_oneof![
        (labels(), 16u32..1 << 20).prop_map(|(labels, bottom)| Carrier::Mpls(labels, bottom)),
        (labels(), any::<bool>()).prop_map(|(labels, word)| Carrier::Pseudowire(labels, word)),
        Just(Carrier::Pppoe),
        labels().prop_map(Carrier::PppoeMpls),
        Just(Carrier::IpInIp),
        fields().prop_map(Carrier::Gre),
        (fields(), labels()).prop_map(|(fields, labels)| Carrier::GreMpls(fields, labels)),
        Just(Carrier::ErspanI),
        Just(Carrier::ErspanII),
        any::<(bool, bool)>().prop_map(|(subheader, ip)| Carrier::ErspanIII(subheader, ip)),
        (prop::sample::select(vec![tunnel::VXLAN_PORT, tunnel::VXLAN_PORT_LINUX]), any::<u8>())
            .prop_map(|(port, flags)| Carrier::Vxlan(port, flags)),
        any::<bool>().prop_map(Carrier::Gpe),
        labels().prop_map(Carrier::GpeMpls),
        (0u8..64, any::<bool>()).prop_map(|(words, critical)| Carrier::Geneve(words, critical)),
        (any::<bool>(), prop::collection::vec(1u8..5, 0..4))
            .prop_map(|(sequence, extensions)| Carrier::Gtp(sequence, extensions)),
    ]
}

pub(crate) fn any_addresses() -> impl Strategy<Value = Addresses> {
    prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| Addresses::V4(a, b)),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| Addresses::V6(a, b)),
    ]
}

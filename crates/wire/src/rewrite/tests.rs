use proptest::prelude::*;

use super::*;
use crate::checksum;

fn rewrite(rules: &[&str]) -> Rewrite {
    Rewrite::new(rules.iter().map(|rule| rule.parse().unwrap()))
}

fn rewritten(rules: &[&str], packet: &[u8]) -> Vec<u8> {
    // After other bytes, as in a burst.
    let mut out = vec![9];
    rewrite(rules).append(LinkType::ETHERNET, packet, &mut out);
    assert_eq!(out[0], 9);
    out.split_off(1)
}

/// UDP from 198.18.0.1 to 198.19.0.1; its checksums are from another program.
const UDP: [u8; 46] = [
    2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0xae, 0xa5,
    198, 18, 0, 1, 198, 19, 0, 1, 4, 0, 0, 7, 0, 12, 0x6b, 0xa1, 1, 2, 3, 4,
];

fn holds(packet: &[u8]) -> Option<bool> {
    checksum::holds(&parse(LinkType::ETHERNET, packet), packet)
}

#[test]
fn addresses_change_with_their_checksums_and_nothing_else() {
    let changed = rewritten(&["ip=198.18.0.0/15=10.2.0.0/15"], &UDP);
    assert_eq!(changed[26..34], [10, 2, 0, 1, 10, 3, 0, 1]);
    assert_eq!(holds(&changed), Some(true));
    assert_eq!((&changed[..24], &changed[42..]), (&UDP[..24], &UDP[42..]));
    let source = rewritten(&["src-ip=0.0.0.0/0=10.0.0.0/0", "dst-ip=198.19.0.1=10.0.0.9"], &UDP);
    assert_eq!(source[26..34], [198, 18, 0, 1, 10, 0, 0, 9], "no bits are replaced by /0");
    assert_eq!(holds(&source), Some(true));
    assert_eq!(rewritten(&["ip=198.20.0.0/16=10.2.0.0/16"], &UDP), UDP);
}

#[test]
fn a_header_that_is_cut_off_in_its_options_changes_in_its_address_and_checksum_only() {
    for protocol in [6, 17] {
        let mut packet = UDP[..36].to_vec();
        (packet[14], packet[23]) = (0x46, protocol);
        let changed = rewritten(&["ip=198.18.0.0/16=10.2.0.0/16"], &packet);
        assert_eq!(changed[26..30], [10, 2, 0, 1]);
        assert_ne!(changed[24..26], packet[24..26]);
        assert_eq!((&changed[..24], &changed[30..]), (&packet[..24], &packet[30..]));
    }
}

#[test]
fn a_wrong_checksum_stays_wrong_unless_all_are_renewed() {
    let mut wrong = UDP;
    wrong[40] ^= 1;
    let map = "ip=198.18.0.0/16=10.2.0.0/16";
    assert_eq!(holds(&rewritten(&[map], &wrong)), Some(false));
    assert_eq!(holds(&rewritten(&[map, "checksums"], &wrong)), Some(true));
    let mut without = UDP;
    without[40..42].fill(0);
    assert_eq!(rewritten(&[map], &without)[40..42], [0, 0], "UDP that has none");
}

#[test]
fn ipv6_is_mapped_and_its_checksum_is_kept() {
    let mut packet = vec![0; 12];
    packet.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 12, 58, 64]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend([128, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4]);
    let good = rewritten(&["checksums"], &packet);
    assert_ne!(good[56..58], [0, 0]);
    let map = "ip=2001:db8:1::/48=fd00:2:3::/48";
    let mapped = rewritten(&[map], &good);
    assert_eq!(mapped[38..44], [0xfd, 0, 0, 2, 0, 3]);
    assert_eq!(mapped, rewritten(&[map, "checksums"], &packet), "updated as computed");
}

#[test]
fn link_addresses_and_tags() {
    let changed = rewritten(&["src-mac=a:b:c:d:e:f", "dst-mac=00:11:22:33:44:55"], &UDP);
    assert_eq!(changed[..12], [0, 0x11, 0x22, 0x33, 0x44, 0x55, 10, 11, 12, 13, 14, 15]);
    assert_eq!(changed[12..], UDP[12..]);
    let tagged = rewritten(&["vlan=7"], &UDP);
    assert_eq!(tagged[12..18], [0x81, 0, 0, 7, 8, 0]);
    let mut urgent = tagged.clone();
    urgent[14] |= 0xe0;
    let other = rewritten(&["vlan=4095", "ip=198.18.0.1=10.0.0.1"], &urgent);
    assert_eq!(other[14..16], [0xef, 0xff], "the priority stays");
    assert_eq!(holds(&other), Some(true));
    assert_eq!(rewritten(&["vlan=strip"], &tagged), UDP);
    assert_eq!(rewritten(&["vlan=strip"], &UDP), UDP);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    for (rule, word) in [
        ("mac=1", "expected src-mac=MAC"),
        ("checksums=1", "expected src-mac=MAC"),
        ("src-mac=1:2:3:4:5", "link address"),
        ("dst-mac=1:2:3:4:5:+6", "link address"),
        ("vlan=4096", "0 to 4095"),
        ("ip=10.0.0.0/8", "OLD/BITS"),
        ("ip=10.0.0.0/8=10.0.0.0/9", "one kind and size"),
        ("ip=10.0.0.0/33=10.0.0.0/33", "one kind"),
        ("src-ip=10.0.0.1=::1", "one kind"),
    ] {
        let error = rule.parse::<Rule>().unwrap_err().to_string();
        assert!(error.contains(word), "{rule}: {error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_rewritten_and_come_back(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        is_ip in any::<bool>(),
    ) {
        let mut packet = bytes;
        if is_ip && packet.len() > 34 {
            packet[12..14].copy_from_slice(&[8, 0]);
            packet[14] = 0x45 + (packet[15] & 7);
        }
        let there = rewritten(&["ip=0.0.0.0/1=128.0.0.0/1", "vlan=9"], &packet);
        if packet.len() >= 14 && ![0x8100, 0x88a8, 0x9100]
            .contains(&u16::from_be_bytes([packet[12], packet[13]]))
        {
            prop_assert_eq!(there.len(), packet.len() + 4);
            prop_assert_eq!(rewritten(&["vlan=strip"], &there).len(), packet.len());
        }
        rewritten(&["checksums", "vlan=strip", "ip=::/0=::/0"], &packet);
    }
}

//! The inputs that the fuzzer begins with reach each block type of pcapng and each variant of pcap.

use std::collections::BTreeSet;
use std::fs;

use crate::build::{Order, decode};
use burstline_wire::files::FileKind;

/// Block types that the decoder knows, and one that it does not: a journal entry of systemd.
const BLOCK_TYPES: [u32; 13] =
    [0x0A0D_0D0A, 1, 2, 3, 4, 5, 6, 9, 10, 0x0BAD, 0x4000_0BAD, 0x8000_0001, 0x8000_0002];

/// Magic numbers of pcap: microseconds, nanoseconds, Kuznetzov's patch.
const MAGICS: [u32; 3] = [0xA1B2_C3D4, 0xA1B2_3C4D, 0xA1B2_CD34];

/// The numbers that a sound file has, as read in its byte order: of each block, or of the file.
fn numbers(file: &[u8]) -> (Order, Vec<u32>) {
    let word = |order, at: usize| {
        let bytes: [u8; 4] = *file[at..].first_chunk().unwrap();
        if order == Order::Little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    };
    let order_of = |is_big: bool| if is_big { Order::Big } else { Order::Little };
    if let FileKind::Pcap { swapped, .. } = FileKind::detect(file) {
        return (order_of(swapped), vec![word(order_of(swapped), 0)]);
    }
    let order = order_of(word(Order::Big, 8) == 0x1A2B_3C4D);
    let (mut types, mut at) = (Vec::new(), 0);
    while at < file.len() {
        types.push(word(order, at));
        at += word(order, at + 4) as usize;
    }
    (order, types)
}

#[test]
fn each_block_type_and_each_variant_is_in_the_corpus_and_is_decoded() {
    let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/files_decode");
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(corpus).unwrap() {
        // The first byte says how the file is shown.
        let input = fs::read(entry.unwrap().path()).unwrap();
        let decoded = decode(&input[1..]);
        if decoded.damage.is_empty() && !decoded.packets.is_empty() {
            let (order, numbers) = numbers(&input[1..]);
            found.extend(numbers.into_iter().map(|number| (order == Order::Big, number)));
        }
    }
    let wanted = BLOCK_TYPES.into_iter().chain(MAGICS);
    let wanted = wanted.flat_map(|number| [(false, number), (true, number)]);
    let missing: Vec<_> = wanted.filter(|number| !found.contains(number)).collect();
    assert!(missing.is_empty(), "none of the corpus, big-endian or not: {missing:x?}");
}

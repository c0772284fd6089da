use super::*;
use crate::Mode;

fn bus(link: &str) -> Bus {
    Bus::new(link.parse().unwrap(), 256, 512).unwrap()
}

/// The paper's rule, a TLP at a time: "TLP header plus the 64-byte packet is less than 128 bytes
/// but it needs to be filled to 128 bytes"; "descriptor 16 bytes plus the TLP header is less than
/// 64, which needs to be aligned, therefore the transmission length is 64 bytes".
fn by_the_paper(mut bytes: u64) -> u64 {
    let mut sum = 0;
    while bytes > 0 {
        let payload = bytes.min(256);
        let mut tlp = payload + 20;
        while !tlp.is_multiple_of(64) {
            tlp += 1;
        }
        sum += tlp;
        bytes -= payload;
    }
    sum
}

#[test]
fn the_papers_arithmetic_at_every_length() {
    let rules = PaperRules::default();
    for length in 60..=1514 {
        // Before: the packet, and separately the descriptor's 16 bytes (64 on the bus).
        let before = by_the_paper(length) + 64;
        // After: the same 16 bytes before the packet, in one transfer.
        let after = by_the_paper(16 + length);
        assert_eq!(rules.upload(Mode::Writeback, length), before as f64, "{length}");
        assert_eq!(rules.upload(Mode::Inline, length), after as f64, "{length}");
        // Never more: the metadata takes 16 bytes of a TLP's padding, or a separate TLP of 64.
        assert!(after <= before, "{length}");
    }
}

#[test]
fn the_papers_own_figures() {
    let rules = PaperRules::default();
    for length in [60, 64] {
        assert_eq!(rules.upload(Mode::Writeback, length), 192.0);
        assert_eq!(rules.upload(Mode::Inline, length), 128.0);
        assert!((rules.saved_percent(Mode::Inline, length) - 33.333).abs() < 0.001);
    }
    // 20 + 16 + n <= 128 up to n = 92: a third is saved. 20 + n <= 128 up to n = 108: the packet
    // alone takes 128 (+ 64), and 192 with its metadata: nothing is saved.
    let saved = |length| rules.saved_percent(Mode::Inline, length);
    assert!((60..=92).all(|length| saved(length) > 33.3));
    assert!((93..=108).all(|length| saved(length) == 0.0));
    assert_eq!(saved(109), 25.0);
    assert_eq!(saved(128), 25.0);
    // Multiples of the max payload fill their TLPs, and the metadata needs one more.
    assert!([256, 512, 768, 1024, 1280].into_iter().all(|length| saved(length) == 0.0));
    assert!((saved(1500) - 100.0 * 64.0 / 1920.0).abs() < 1e-9);
}

#[test]
fn the_saving_is_a_sawtooth() {
    let rules = PaperRules::default();
    let saved = |length| rules.saved_percent(Mode::Inline, length) > 0.0;
    let turns = (61..=1514).filter(|&length| saved(length) != saved(length - 1)).count();
    // In each 64 bytes 16 lengths just miss a boundary: the saving disappears and comes back.
    assert!(turns > 40, "{turns}");
    // So do the 16 lengths in each 256 for which the metadata needs one more TLP.
    let without = (60..60 + 1280).filter(|&length| !saved(length)).count();
    assert_eq!(without, 1280 / 64 * 16 + 1280 / 256 * 16);
}

#[test]
fn other_headers_move_the_teeth_and_keep_the_first_figure() {
    for header in [12, 16, 20, 24, 28] {
        let rules = PaperRules { header, ..PaperRules::default() };
        assert_eq!(rules.upload(Mode::Writeback, 64), 192.0, "{header}");
        assert_eq!(rules.upload(Mode::Inline, 64), 128.0, "{header}");
        let last = 128 - 16 - header;
        assert!(rules.saved_percent(Mode::Inline, last) > 33.3);
        assert_eq!(rules.saved_percent(Mode::Inline, last + 1), 0.0);
    }
}

#[test]
fn links_carry_what_their_generation_says() {
    // 2.0x8: 8 lanes of 5 GT/s by 8b/10b. 3.0x8: 8 of 8 GT/s by 128b/130b.
    let gigabits = |text: &str| text.parse::<Link>().unwrap().bits_per_s() / 1e9;
    assert_eq!(gigabits("2.0x8"), 32.0);
    assert!((gigabits("3.0x8") - 63.01).abs() < 0.01);
    assert!((gigabits("5.0x16") - 504.1).abs() < 0.1);
    assert_eq!("4.0x16".parse::<Link>().unwrap().to_string(), "4.0x16");
    for wrong in ["", "3.0", "6.0x8", "3.0x3", "x8", "3.0x", "3.1x8", "-1x8", "3.0x8x8"] {
        assert!(wrong.parse::<Link>().is_err(), "{wrong}");
    }
    let link = "3.0x8".parse().unwrap();
    for (payload, request) in [(0, 512), (64, 512), (257, 512), (8192, 512), (256, 0), (256, 100)] {
        assert!(Bus::new(link, payload, request).is_err(), "{payload} {request}");
    }
}

/// Computes each transaction by hand from the sizes of its parts.
#[test]
fn transactions_have_headers_framing_and_padding() {
    let bus = bus("3.0x8");
    // A write of 60 bytes: one TLP, header 16, framing 8.
    assert_eq!(bus.write(60).bytes(), 84);
    // 61 bytes need 16 double words.
    let odd = bus.write(61);
    assert_eq!((odd.padding, odd.bytes()), (3, 88));
    // 257 bytes are two TLPs.
    assert_eq!((bus.write(256).tlps, bus.write(257).tlps), (1, 2));
    assert_eq!(bus.write(0).bytes(), 0);
    // A read of 1,024 bytes: two requests of 512, four completions of 256.
    let (asked, came) = bus.read(1024);
    assert_eq!((asked.tlps, asked.bytes()), (2, 2 * 24));
    assert_eq!((came.tlps, came.bytes()), (4, 1024 + 4 * 20));
}

#[test]
fn no_mode_leaves_out_what_it_does() {
    let (bus, batch) = (bus("3.0x8"), Batch::default());
    let has = |mode, work, kind| {
        batch.entries(&bus, mode, work, 60).iter().any(|entry| entry.kind == kind)
    };
    for work in [Work::Receive, Work::Transmit, Work::Forward] {
        assert!(has(Mode::Writeback, work, Kind::WriteBack));
        assert!(!has(Mode::Inline, work, Kind::WriteBack));
        assert!(!has(Mode::Contiguous, work, Kind::WriteBack));
    }
    // 60 bytes: packet 84, descriptor 40 up; the share of a request is 24 / 32.
    let (up, _) = batch.bytes_a_packet(&bus, Mode::Writeback, Work::Receive, 60);
    assert_eq!(up, 84.0 + 40.0 + 24.0 / 32.0);
    // In front of the packet: 76 bytes in one TLP.
    let (up, _) = batch.bytes_a_packet(&bus, Mode::Inline, Work::Receive, 60);
    assert_eq!(up, 100.0 + 24.0 / 32.0);
    // Contiguous: 80 bytes each, in TLPs of 256; one pointer of 8 bytes, one request.
    let (up, _) = batch.bytes_a_packet(&bus, Mode::Contiguous, Work::Receive, 60);
    assert_eq!(up, (2560.0 + 10.0 * 24.0 + 32.0 + 24.0) / 32.0);
}

#[test]
fn a_hundred_gigabits_need_contiguous_packets_on_sixteen_lanes() {
    let (slot, batch) = (bus("3.0x16"), Batch::default());
    let line = EthernetRate(100e9).packets_per_s(60);
    assert!((line / 1e6 - 148.81).abs() < 0.01);
    let pps = |bus: &Bus, mode| ceiling(bus, &batch, mode, Work::Receive, 60).packets_per_s;
    assert!(pps(&slot, Mode::Contiguous) > line);
    assert!(pps(&slot, Mode::Inline) < line && pps(&slot, Mode::Writeback) < line);
    assert!(pps(&bus("3.0x8"), Mode::Contiguous) < line, "not on eight lanes");
    // The paper's card: 20 Gbit/s of 64-byte frames both ways do not fit through 2.0x8 with
    // write-back.
    let forward = ceiling(&bus("2.0x8"), &batch, Mode::Writeback, Work::Forward, 60);
    assert!(forward.packets_per_s < EthernetRate(20e9).packets_per_s(60), "{forward:?}");
}

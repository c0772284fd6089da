//! extract: interfaces by name, and conversations in tunnels.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use crate::archive::recording;
use crate::support::sharing::{pcap_header, pcap_record};
use crate::support::{Directory, regular, run_json, run_with_code};

#[test]
fn a_name_that_no_interface_has_is_told_with_those_that_there_are() {
    let directory = Directory::new("unknown-port");
    let load = regular(&directory, "load.pcap", 100, 128);
    let file = recording(&directory, "x.pcapng", &load, &[]);
    let question = ["extract", &file, &load, "--port", "eth7"];
    let none = run_json(&question, 0);
    assert_eq!((&none["delivered"], &none["offered"]), (&0.into(), &200.into()), "{none}");
    let told = "--port eth7: no interface is called so; what was read has load.pcap";
    assert!(none["notes"].to_string().contains(told), "{none}");
    assert!(run_with_code(&question, 0).stdout.contains(told));
    let is_told = |question: &[&str]| run_json(question, 0)["notes"].to_string().contains(told);
    assert!(!is_told(&["extract", &file, "--port", "load.pcap"]));
    // It has the interface, but no packet of this time.
    assert!(!is_told(&["extract", &file, "--port", "load.pcap", "--from", "+9s"]));
}

/// Returns the packets of a [`regular`] file, each within IPv4 from 192.0.2.1 to 192.0.2.2.
fn tunnelled(directory: &Directory, packets: u32) -> String {
    let plain = fs::read(regular(directory, "plain.pcap", packets, 128)).unwrap();
    let mut pcap = pcap_header();
    for record in plain[24..].chunks_exact(16 + 128) {
        let word = |at: usize| u32::from_le_bytes(*record[at..].first_chunk().unwrap());
        let (header, inner) = record[16..].split_at(14);
        let mut packet = [header, &[0x45, 0, 0, 134, 0, 0, 0, 0, 64, 4, 0, 0]].concat();
        packet.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        packet.extend(inner);
        pcap.extend(pcap_record(word(0), word(4) / 1000, &packet));
    }
    fs::create_dir(directory.file("set")).unwrap();
    let file = directory.file("set/tunnel.pcap");
    fs::write(&file, pcap).unwrap();
    // Old enough for the catalogue of its folder.
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    File::options().append(true).open(&file).unwrap().set_modified(long_ago).unwrap();
    file
}

/// Sketches, indexes and catalogues have the flows around tunnels only. None of them may hide an
/// answer.
#[test]
fn a_conversation_in_a_tunnel_is_found_if_it_is_asked_for() {
    let directory = Directory::new("inner");
    let plain = tunnelled(&directory, 8000);
    let segmented = recording(&directory, "x.pcapng", &plain, &[]);
    let indexed = directory.file("indexed.pcap");
    fs::copy(&plain, &indexed).unwrap();
    run_with_code(&["index", &indexed], 0);
    let inner = ["--flow", "10.0.0.1:53,10.0.1.7:999,udp"];
    let outer = ["--flow", "192.0.2.1,192.0.2.2,4"];
    for file in [&plain, &segmented, &indexed, &directory.file("set")] {
        let found = |question: &[&str]| {
            let report = run_json(&[&["extract", file.as_str()][..], question].concat(), 0);
            assert_eq!(report["offered"], 8000, "{report}");
            (report["delivered"].as_u64(), report["notes"].to_string())
        };
        let (packets, notes) = found(&inner);
        assert_eq!(packets, Some(0), "{file}");
        assert!(notes.contains("add --inner"), "{notes}");
        assert_eq!(found(&[&inner[..], &["--inner"]].concat()).0, Some(200), "{file}");
        let (packets, notes) = found(&outer);
        assert_eq!(packets, Some(8000), "{file}");
        assert!(!notes.contains("add --inner"), "{notes}");
        assert_eq!(found(&[&outer[..], &["--inner"]].concat()).0, Some(0), "{file}");
    }
}

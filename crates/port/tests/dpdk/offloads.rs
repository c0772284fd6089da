//! Work done by the device: it is requested, refused if unsupported, and reported.

use burstline_port::{OpenOptions, TimestampSource, open_sources};

use crate::alone;
use crate::common::{
    Folder, Got, drain_by_lending, drain_by_receiving, open_file, source, write_pcap,
};

/// Returns the first note of each port of an address.
fn noted(address: &str) -> Vec<String> {
    let ports = open_sources(&address.parse().unwrap(), &OpenOptions::default());
    let ports = ports.unwrap_or_else(|error| panic!("{address}: {error}"));
    ports.iter().map(|port| port.account().notes.first().cloned().unwrap_or_default()).collect()
}

#[test]
fn how_packets_are_spread_is_what_was_asked_for_and_what_the_driver_says() {
    let _alone = alone();
    for (address, said) in [
        // This driver starts with Microsoft's key, and takes another on request.
        ("dpdk:net_null60?rss=on", &["rss of ip tcp udp by our key"][..]),
        ("dpdk:net_null61?queues=2&rss=symmetric", &["rss of ip tcp udp by our key", ""]),
        ("dpdk:net_null62?queues=2", &["rss of ip tcp udp by the driver's key", ""]),
        ("dpdk:net_null63?queues=2&rss=off", &["none", ""]),
        ("dpdk:net_null64", &["none"]),
        // A device without support is not refused either, unless the offload is requested by name.
        ("dpdk:net_ring65?queues=2", &["segmented send", ""]),
    ] {
        let (device, _) = address.strip_prefix("dpdk:").unwrap().split_at("net_null".len());
        let expected = said.iter().map(|said| match *said {
            "" => String::new(),
            said => format!("offloads of {device}: {said}"),
        });
        let notes = noted(address);
        assert!(notes.iter().cloned().eq(expected), "{address}: {notes:?}");
    }
}

#[test]
fn who_cannot_is_refused_in_a_line_with_the_mend() {
    let _alone = alone();
    for (address, said) in [
        ("dpdk:net_ring66?rss=on", "by a hash: net_ring cannot: leave out rss="),
        ("dpdk:net_ring66?queues=2&rss=symmetric", "leave out rss="),
        ("dpdk:net_null66?timestamps=device", "net_null cannot: leave out timestamps=device"),
    ] {
        let error = source(address, &OpenOptions::default()).err().unwrap().to_string();
        assert!(error.contains(said) && !error.contains('\n'), "{address}: {error}");
    }
    // A refused device is closed: it opens with other settings.
    drop(source("dpdk:net_ring66", &OpenOptions::default()).unwrap());
}

#[test]
fn the_pcap_driver_tells_when_packets_came() {
    let _alone = alone();
    let (folder, options) = (Folder::new(), OpenOptions::default());
    let file = folder.path("timed.pcap");
    // The first packets come at 5 s, the others some microseconds later.
    let load = "gen:?packets=500&start=5000000000&rate=70000&pace=no&size=random:64-1518";
    write_pcap(load, &file);
    let microseconds = |got: &Got| got.time_ns / 1_000 * 1_000;
    let written: Vec<u64> =
        drain_by_lending(&mut *open_file(&file), u64::MAX).iter().map(microseconds).collect();
    assert!(written.len() == 500 && written[0] >= 5_000_000_000 && written[0] < written[499]);
    for (number, clock, source_of_times, is_same) in
        [(70, "device", TimestampSource::Device, true), (71, "poll", TimestampSource::Poll, false)]
    {
        for (offset, is_lent) in [(0, true), (10, false)] {
            let device = format!("net_pcap{},rx_pcap={}", number + offset, file.display());
            let address = format!("dpdk:{device}?pool=2047&timestamps={clock}");
            let mut port = source(&address, &options).unwrap();
            assert_eq!(port.info().timestamps, source_of_times);
            port.finish().unwrap();
            let got = match is_lent {
                true => drain_by_lending(&mut *port, u64::MAX),
                false => drain_by_receiving(&mut *port, 100, 64 << 10, 4),
            };
            let told = got.iter().map(|got| got.time_ns);
            assert_eq!((told.eq(written.iter().copied()), got.len()), (is_same, 500), "{address}");
        }
    }
}

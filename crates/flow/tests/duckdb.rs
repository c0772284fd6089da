//! DuckDB reads exactly the values that were written to a tree.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use burstline_flow::{
    Batch, BootId, EndReason, Made, Origin, Place, PortName, Record, RecordSink, SensorName,
    TreeSink,
};
use burstline_skip::skip;
use burstline_sys::temporary::TemporaryFolder;
use burstline_wire::flow::{FlowKey, IpVersion};
use burstline_wire::headers::Ports;

/// More than a row group, so that two are written.
const RECORDS: u64 = 150_000;
const BASE_NS: u64 = 1_700_000_000_000_000_000;

/// Returns a record of any kind: values that repeat, values that do not, and missing values.
fn record(number: u64) -> Record {
    // Odd, so that neighbours differ in all bits. Source: Knuth, "The Art of Computer Programming",
    // volume 3, section 6.4.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let version = if mixed.is_multiple_of(3) { IpVersion::V6 } else { IpVersion::V4 };
    let mut source = [0; 16];
    source[8..].copy_from_slice(&mixed.to_be_bytes());
    if version == IpVersion::V4 {
        source[..12].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    }
    let destination = [source[0]; 16];
    let ports = Ports { source: (mixed >> 20) as u16, destination: (number % 7) as u16 };
    let macs = [2, 0, 0, 0, 0, (number % 5) as u8, 2, 1, 0, 0, (number >> 8) as u8, number as u8];
    Record {
        key: FlowKey {
            version,
            protocol: if mixed.is_multiple_of(2) { 6 } else { 17 },
            source,
            destination,
            ports: (!mixed.is_multiple_of(11)).then_some(ports),
        },
        icmp: None,
        vlan: (number.is_multiple_of(4)).then_some((number % 4096) as u16),
        tunnel: None,
        macs: (!number.is_multiple_of(1000)).then_some(macs),
        port: 0,
        first_ns: BASE_NS + number * 1000,
        last_ns: BASE_NS + number * 1000 + mixed % 1_000_000_000,
        packets: 1 + mixed % 100_000,
        packets_back: mixed % 2,
        bytes: mixed >> 24,
        bytes_back: 0,
        tcp_flags: mixed as u8,
        tcp_flags_back: 0,
        rtt_ns: (mixed.is_multiple_of(5)).then_some(mixed % 1_000_000),
        retransmissions: (number / 70_000) as u32,
        end: EndReason::ALL[(mixed % 5) as usize],
        losses: number / 1000,
        place: Place {
            file: (number.is_multiple_of(2)).then_some((number % 3) as u16),
            segment: (number > 1000).then_some((number / 100) as u32),
            number: number + 1,
        },
    }
}

fn mac(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
}

/// Returns the row that DuckDB should print.
fn row(record: &Record) -> String {
    let text = |value: Option<String>| value.unwrap_or_else(|| "None".to_owned());
    let number = |value: Option<u64>| text(value.map(|value| value.to_string()));
    let Place { file, segment, number: at } = record.place;
    [
        record.flow_id().to_string(),
        record.first_ns.to_string(),
        record.last_ns.to_string(),
        record.source().to_string(),
        record.destination().to_string(),
        number(record.key.ports.map(|ports| ports.source.into())),
        number(record.key.ports.map(|ports| ports.destination.into())),
        record.key.protocol.to_string(),
        number(record.vlan.map(u64::from)),
        text(record.macs.map(|macs| mac(&macs[6..]))),
        text(record.macs.map(|macs| mac(&macs[..6]))),
        record.packets.to_string(),
        record.packets_back.to_string(),
        record.bytes.to_string(),
        record.tcp_flags.to_string(),
        number(record.rtt_ns),
        record.retransmissions.to_string(),
        record.end.name().to_owned(),
        record.losses.to_string(),
        text(file.map(|file| format!("/{file}.pcap"))),
        number(segment.map(u64::from)),
        at.to_string(),
    ]
    .join(" ")
}

#[test]
fn what_duckdb_reads_is_what_was_written() {
    let home = std::env::var("HOME").unwrap_or_default();
    let installed = PathBuf::from(format!("{home}/.local/share/burstline/query/bin/python"));
    let python = std::env::var_os("BURSTLINE_PYTHON").map_or(installed, PathBuf::from);
    let folder = TemporaryFolder::create("burstline-duckdb-").unwrap();
    let files = (0..3).map(|file| format!("/{file}.pcap")).collect();
    let ports = vec![PortName { name: "a".to_owned(), files }];
    let origin = Origin { sensor: SensorName::new("s").unwrap(), boot: BootId::default(), ports };
    let (mut sink, _) = TreeSink::open(folder.path(), origin, Duration::from_secs(600)).unwrap();
    let all: Vec<u64> = (0..RECORDS).collect();
    for (number, part) in (0..).zip(all.chunks(500)) {
        // Within a batch they are in the order in which they end, not by time.
        let records = part.iter().rev().map(|&number| record(number)).collect();
        sink.write(&Batch { number, records });
    }
    sink.finish(&Made::default());
    assert_eq!(sink.account().records, RECORDS);
    let program = format!(
        "import duckdb\n\
         rows = duckdb.sql(\"\"\"SELECT flow_id, first_ns, last_ns, src_ip, dst_ip, src_port, \
         dst_port, protocol, vlan, src_mac, dst_mac, packets, packets_back, bytes, tcp_flags, \
         rtt_ns, retransmissions, end_reason, losses, file, segment, packet_number \
         FROM read_parquet('{}/**/*.parquet') ORDER BY first_ns\"\"\")\n\
         for row in rows.fetchall(): print(*row)",
        folder.path().display()
    );
    let output = Command::new(&python).args(["-c", &program]).stdin(Stdio::null()).output();
    let Ok(output) = output else { return skip("DuckDB is not installed: scripts/setup query") };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("No module named 'duckdb'") {
        return skip("DuckDB is not installed: scripts/setup query");
    }
    assert!(output.status.success(), "{said}");
    let read = String::from_utf8(output.stdout).unwrap();
    assert_eq!(read.lines().count() as u64, RECORDS);
    for (number, line) in (0..).zip(read.lines()) {
        assert_eq!(line, row(&record(number)), "{number}");
    }
}

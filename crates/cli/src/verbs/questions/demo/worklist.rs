//! Prints a burst of a log as a table, read back from memory.

use std::fmt::Write;

use burstline_log::{Burst, Log, LogConfig, Packet, ReaderConfig};
use burstline_port::{OpenOptions, open_source};
use burstline_wire::flow::FlowKey;
use burstline_wire::hash::HashKind;
use burstline_wire::headers::{self, LinkType};

use crate::failure::Failure;
use crate::words::count_text;

/// Number of rows shown.
const ROWS: usize = 14;
const DESC_BYTES: usize = size_of::<burstline_log::Desc>();

/// Receives packets from `address` into a log and describes the first burst.
pub(super) fn text(address: &str) -> Result<String, Failure> {
    let options = OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() };
    let config = LogConfig {
        name: "demo-burst".to_owned(),
        bytes: 1 << 20,
        max_readers: 1,
        hash_kind: HashKind::FiveTuple.code().into(),
        ..LogConfig::default()
    };
    let fail = |error: &dyn std::error::Error| Failure::new(error.to_string());
    let mut source = open_source(&address.parse()?, &options).map_err(|error| fail(&error))?;
    let (log, mut writer) = Log::create(config).map_err(|error| fail(&error))?;
    let mut reader = log.attach(ReaderConfig::default()).map_err(|error| fail(&error))?;
    // A file may need several polls: the first ones read only its header.
    for _ in 0..16 {
        source.receive(&mut writer, 1024).map_err(|error| fail(&error))?;
        writer.publish();
    }
    let burst = reader.next_burst().ok_or_else(|| Failure::new("the log stayed empty"))?;
    Ok(describe(&burst, log.config().segment_bytes))
}

fn describe(burst: &Burst<'_>, segment_bytes: usize) -> String {
    let mut text = String::new();
    let packets = burst.len();
    // Writing to a string does not fail, here and below.
    let _ = writeln!(
        text,
        "   0{:>21}{:>24}{:>27}\n   \
         | packet | packet | packet | ... | free ... | ... desc | desc | desc |\n   \
         A burst of {packets} packets: {} bytes in one segment, {} bytes of worklist.\n",
        count_text(burst.extent() as u64),
        "",
        count_text(segment_bytes as u64),
        count_text(burst.extent() as u64),
        count_text((packets * DESC_BYTES) as u64),
    );
    let _ = writeln!(
        text,
        "   {:>6} {:>8} {:>6} {:>4} {:>14} {:>10}  flow",
        "packet", "offset", "length", "port", "time", "hash"
    );
    // Skip neighbour discovery; conversations are more interesting.
    let is_conversation =
        |packet: &Packet<'_>| headers::parse(LinkType::ETHERNET, packet.bytes()).ports.is_some();
    let first = burst.packets().position(|packet| is_conversation(&packet)).unwrap_or(0);
    let start_ns = burst.packet(0).time_ns();
    // Show the end, too: it has other flows and ports.
    let (head, tail) = (first..first + ROWS / 2, packets.saturating_sub(ROWS / 2)..packets);
    let mut hidden = first;
    for (index, packet) in burst.packets().enumerate() {
        if !head.contains(&index) && !tail.contains(&index) {
            hidden += usize::from(index >= first);
            continue;
        }
        if index == tail.start.max(head.end) && hidden > first {
            let _ = writeln!(text, "   {:>6}", "...");
        }
        let time_s = packet.time_ns().saturating_sub(start_ns) as f64 / 1e9;
        let _ = writeln!(
            text,
            "   {index:>6} {:>8} {:>6} {:>4} {time_s:>+12.6} s {:>#010x}  {}",
            packet.desc().offset(),
            packet.length(),
            packet.port(),
            packet.desc().hash(),
            flow_text(packet.bytes()),
        );
    }
    let _ = writeln!(text, "   and {hidden} more; one hash for both directions of a flow");
    text
}

fn flow_text(packet: &[u8]) -> String {
    let headers = headers::parse(LinkType::ETHERNET, packet);
    match FlowKey::new(&headers, packet) {
        Some(flow) => flow.to_string(),
        None => "not IP".to_owned(),
    }
}

//! Reasons why flow records are lost, and why a packet has none.

use super::{Known, note};

const fn lost(name: &'static str, means: &'static str, remedy: &'static str) -> Known {
    let see = "the lines `lost` of the report, and flows.records_dropped_by in --json";
    note(name, &[], means, see, remedy)
}

const fn without(name: &'static str, means: &'static str, remedy: &'static str) -> Known {
    note(
        name,
        &[],
        means,
        "the lines `no flow` of the report, and flows.without_flow in --json",
        remedy,
    )
}

const COLLECTOR: &str =
    "Start the collector, or correct --ipfix; -o TREE keeps the records as well";
const BUS: &str = "--spool FOLDER keeps records on disk until the bus takes them";
const DISK: &str = "Free space or repair the disk; the error in the report names the file";

/// Causes of lost records: the names of `flows.records_dropped_by`.
pub(in super::super) const LOST_RECORDS: [Known; 13] = [
    lost(
        "queue_full",
        "Records ended faster than the thread that writes and sends them took them",
        "A longer --idle or --active makes fewer records; give the thread a core with --cores",
    ),
    lost("write_failed", "A file of the tree or the spool could not be written", DISK),
    lost(
        "collector_absent",
        "No connection to the collector, until the queue was full or the job ended",
        COLLECTOR,
    ),
    lost(
        "collector_slow",
        "The collector reads too slowly for the queue, or took nothing for 5 s",
        "Give the collector more time or cores; a longer --active makes fewer records",
    ),
    lost("collector_broke_off", "The connection broke while a message was written", COLLECTOR),
    lost(
        "collector_refused",
        "The collector's host answered that nothing listens at the port",
        COLLECTOR,
    ),
    lost(
        "collector_unreachable",
        "The kernel has no route to the collector",
        "ip route get ADDRESS says why; -o TREE keeps the records as well",
    ),
    lost(
        "bus_absent",
        "No connection to the bus, or no place for messages there, until memory was full or the \
         job ended",
        "The note of the report says why; --spool FOLDER keeps records on disk meanwhile",
    ),
    lost("bus_full", "The bus said that it has no room", BUS),
    lost("bus_slow", "The bus is slower than the records, or did not acknowledge in time", BUS),
    lost(
        "bus_refused",
        "The bus will never take this message, for example for its size",
        "Allow messages of that size on the bus; the note of the report has its words",
    ),
    lost(
        "spool_full",
        "The spool has reached its size",
        "--spool 'FOLDER?size=10g' makes it larger",
    ),
    lost(
        "spool_failed",
        "A spooled message could not be read back from disk, or its file was removed",
        DISK,
    ),
];

/// Causes of packets without a record: the names of `flows.without_flow`.
pub(in super::super) const WITHOUT_FLOW: [Known; 3] = [
    without("no_ip", "The packet is not IP, for example ARP", "Nothing: flows are of IP"),
    without(
        "malformed",
        "The headers end early or contradict each other",
        "Capture with a longer --snaplen if packets are cut",
    ),
    without("table_full", "As many conversations were open as --flows allows", "--flows 4M"),
];

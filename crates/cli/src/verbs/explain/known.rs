//! Notes and faults that `burstline explain` knows, beside the table of losses and that of doubts.
//!
//! A note is a sentence with numbers in it, so a part of it that never changes identifies it. A
//! test looks for each part in the sources.

/// A note of a report, or a fault of an outcome.
pub(super) struct Known {
    pub(super) name: &'static str,
    /// What a note always has in it; empty for a fault, which is a word.
    pub(super) part: &'static str,
    pub(super) means: &'static str,
    pub(super) remedy: &'static str,
}

const fn note(
    name: &'static str,
    part: &'static str,
    means: &'static str,
    remedy: &'static str,
) -> Known {
    Known { name, part, means, remedy }
}

const fn fault(name: &'static str, means: &'static str, remedy: &'static str) -> Known {
    Known { name, part: "", means, remedy }
}

/// What reports have under `notes`, `placement.notes` and `memory.notes`.
pub(super) const NOTES: [Known; 11] = [
    note(
        "aggregates",
        "packets are GSO/GRO aggregates",
        "The kernel or the card has joined packets of one connection: what was received is longer \
         than what was on the wire",
        "ethtool -K IFACE gro off lro off gso off tso off; burstline doctor says which are on",
    ),
    note(
        "partial-checksums",
        "packets whose checksum a device still has to fill in",
        "The packets were sent by this host, and their checksums would be made by the card: \
         other programs call them wrong",
        "ethtool -K IFACE tx off, or ask such programs not to check",
    ),
    note(
        "no-hardware-time",
        "packets without hardware time",
        "The card put no time on them; they have the kernel's",
        "hwstamp_ctl -i IFACE -r 1, or timestamps=kernel",
    ),
    note(
        "other-queues",
        "packets arrived on its other queues and went to the host",
        "An address names one queue, and the card spread packets over others",
        "Name no queue, or have one: ethtool -L IFACE combined 1",
    ),
    note(
        "poll-times",
        "packets have the time of their poll",
        "The driver leaves no room for a time of each packet: those of one poll share one",
        "timestamps=program gives each its own, at the cost of a clock reading",
    ),
    note(
        "small-pages",
        "transparent pages:",
        "The log is not wholly in huge pages: the processor looks up addresses more often",
        "Reserve huge pages, as burstline doctor says; --pages 2m insists on them",
    ),
    note(
        "copied-log",
        "are copied and checked, unless trust=own vouches for it",
        "The publisher is another program file, so its memory is not trusted",
        "log:NAME?trust=own, if the publisher is one of your programs",
    ),
    note(
        "on-close-failed",
        "--on-close for",
        "The command for a file that was closed has failed; the file is whole",
        "Run the command by hand; it has no more rights than its user unless --keep-privileges",
    ),
    note(
        "unknown-node",
        "the kernel does not know the node of",
        "The card's node is unknown, so threads may run far from it",
        "--node N, if you know it",
    ),
    note(
        "shared-core",
        "are one physical core: each gets only a part of it",
        "Two threads share the units of one core, and each is slower",
        "--cores with different physical cores, see burstline doctor plan",
    ),
    note(
        "counters-differ",
        "one counter says",
        "Two counts of the same packets differ, and the ledger cannot tell which is right",
        "Please report it, with the whole report: burstline ... --json",
    ),
];

/// What `outcome.faults` has, where a job fails.
pub(super) const FAULTS: [Known; 7] = [
    fault("error", "A part of the job ended early", "The errors of the report say why"),
    fault(
        "damaged",
        "Some input could not be understood",
        "burstline check FILE says where; burstline recover FILE saves the rest",
    ),
    fault(
        "unaccounted",
        "The ledger does not close: packets are missing, and no counter says why",
        "Please report it, with the whole report",
    ),
    fault(
        "all_lost",
        "Packets were lost, and none was delivered",
        "burstline explain NAME for each cause in the ledger",
    ),
    fault(
        "loss",
        "Packets were lost, and --fail-on-loss or --lossless allows none",
        "burstline explain NAME for each cause in the ledger",
    ),
    fault(
        "not_expected",
        "The number of packets delivered differs from --expect",
        "Compare the sender's count; the ledger has what was lost here",
    ),
    fault(
        "not_verified",
        "--verify found packets lost, doubled, reordered or changed",
        "The line `verify` of the report has the counts of each",
    ),
];

//! Notes on memory, threads, counters and clocks.

use super::{Known, note};

/// Notes on where a job runs, and on its counters.
pub(super) const PLACES: &[Known] = &[
    note(
        "small-pages",
        &[
            "transparent pages:",
            "pages: not offered by this kernel",
            "pages: {needed} needed, {free} of {total} free",
        ],
        "Part of the log is not in huge pages: the processor looks up addresses more often",
        "grep -i huge /proc/meminfo; burstline doctor",
        "run the echo command in the note; --pages 2m fails without huge pages",
    ),
    note(
        "nodes-unknown",
        &["nodes unknown: move_pages", "a page without a node"],
        "The kernel does not say where the log's pages are",
        "cat /proc/PID/numa_maps",
        "nothing on a machine with one node; else allow move_pages in the container",
    ),
    note(
        "unknown-node",
        &["the kernel does not know the node of"],
        "The card's node is unknown, so threads may run far from it",
        "cat /sys/class/net/IFACE/device/numa_node",
        "--node N, if you know it",
    ),
    note(
        "node-without-cores",
        &["which has no core for this process", "has no free physical core"],
        "Threads run on another node than the card: each packet crosses between them",
        "burstline doctor plan; taskset -p PID",
        "allow cores of the card's node, or use fewer threads",
    ),
    note(
        "node-without-memory",
        &["has no memory for this process"],
        "Logs or stacks are on another node than their threads",
        "numactl --hardware; cat /proc/self/status | grep Mems",
        "allow memory of that node (cpuset)",
    ),
    note(
        "far-from-card",
        &["each packet crosses between them"],
        "Card and receive thread are on different nodes",
        "burstline doctor plan",
        "--node N of the card, or cores of its node",
    ),
    note(
        "shared-core",
        &["are one physical core: each gets only a part of it"],
        "Two threads share the units of one core, and each is slower",
        "lscpu -e; burstline doctor plan",
        "--cores with different physical cores",
    ),
    note(
        "kernel-places",
        &["the kernel places the threads"],
        "There are fewer cores than threads, so the kernel schedules them",
        "burstline doctor plan",
        "fewer threads, or more cores for this process",
    ),
    note(
        "counters-differ",
        &[
            "one counter says",
            "packets, {theirs} were published",
            "packets by its own counter",
            "missed packets:",
        ],
        "Two counts of the same packets differ, and the ledger cannot tell which is right",
        "unaccounted in the ledger; exit code 1",
        "report it, with the whole report: burstline ... --json",
    ),
    note(
        "clock-jumped",
        &["the clock was set"],
        "The clock that packets' times are from jumped: times before and after cannot be \
         compared, and files may be out of order",
        "chronyc tracking, timedatectl; journalctl -u chrony -u systemd-timesyncd",
        "have the clock slewed, not set: chronyd without makestep after its start",
    ),
];

//! Findings of `burstline doctor`. Each finding's text states its cost and its source.

use super::{Known, finding};

/// The findings, by name.
pub(super) const FINDINGS: &[Known] = &[
    finding(
        "kernel",
        "The kernel lacks a call that a fast way needs",
        "uname -r",
        "a newer kernel; what is missing works more slowly",
    ),
    finding(
        "nodes",
        "A NUMA node has no memory or no cores: work there crosses to another",
        "numactl --hardware",
        "memory for each socket, or cores and cards of nodes that have some",
    ),
    finding(
        "cores",
        "Cores are offline, or a quota gives this process less time than its cores have",
        "lscpu -e; cat /sys/fs/cgroup/cpu.max",
        "set cores online, raise the quota: doctor prints the commands",
    ),
    finding(
        "frequency",
        "A governor lets cores run slowly when a burst comes",
        "cat /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        "the command that doctor prints: governor performance",
    ),
    finding(
        "distance",
        "How long a cache line takes from core to core; far ones can slow a log",
        "burstline doctor",
        "cores of one cache for receive thread and worker: --cores",
    ),
    finding(
        "huge pages",
        "No 2 MiB pages are reserved on a node: logs use smaller ones",
        "grep -i huge /proc/meminfo",
        "the echo command that doctor prints",
    ),
    finding(
        "transparent pages",
        "The kernel may not gather memory into huge pages",
        "cat /sys/kernel/mm/transparent_hugepage/enabled",
        "the echo command that doctor prints: madvise",
    ),
    finding(
        "memory limit",
        "A cgroup allows less memory than logs take",
        "cat /sys/fs/cgroup/memory.max",
        "raise it: doctor prints the command",
    ),
    finding(
        "page migration",
        "The kernel moves pages between nodes while they are used",
        "cat /proc/sys/kernel/numa_balancing",
        "echo 0 > /proc/sys/kernel/numa_balancing",
    ),
    finding(
        "swap",
        "Memory of the program may be swapped to disk, and a thread then waits for it",
        "cat /proc/swaps",
        "swapoff -a",
    ),
    finding(
        "card's node",
        "The card's node is unknown, or this process may not use any of its cores",
        "cat /sys/class/net/IFACE/device/numa_node",
        "--node N, or cores of that node",
    ),
    finding(
        "interrupts",
        "Interrupts go to a core far from the card, or to one where a thread runs",
        "cat /proc/interrupts",
        "the echo command that doctor prints; stop irqbalance",
    ),
    finding(
        "steering",
        "The kernel hands packets to other cores in software (RPS)",
        "cat /sys/class/net/IFACE/queues/rx-*/rps_cpus",
        "the echo command that doctor prints",
    ),
    finding(
        "receive ring",
        "The card's ring is smaller than it can be: bursts overflow it",
        "ethtool -g IFACE",
        "ethtool -G IFACE rx MAX",
    ),
    finding(
        "dpdk",
        "Whether this program has DPDK built in, its version, and which huge pages are free",
        "burstline --version; grep -i huge /proc/meminfo",
        "make dpdk builds the program with it",
    ),
    finding(
        "dpdk card",
        "A device is not bound to a driver that DPDK can use, or the IOMMU is off",
        "dpdk-devbind.py --status",
        "the commands that doctor prints",
    ),
    finding(
        "tried",
        "The plan was tried briefly: threads pinned, memory placed",
        "burstline doctor plan",
        "the reason is beside it",
    ),
];

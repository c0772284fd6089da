//! Each machine has exactly its defects, each with its cost and its fix.

use super::*;
use crate::inventory::tests::{CONTAINER, ODD_NODES, ONE_SOCKET, SMALL_VM, TWO_SOCKETS, machine};
use crate::{PlanRequest, SourceRequest, plan};

/// Returns the defects with one name: what and mend.
fn defects(inventory: &Inventory, name: &str) -> Vec<(String, Vec<String>)> {
    let found = findings(inventory, None).into_iter();
    let found = found.filter(|finding| finding.name == name && finding.is_defect);
    found.map(|finding| (finding.what, finding.mend)).collect()
}

#[test]
fn every_defect_says_what_it_costs_and_who_says_so() {
    for snapshot in [TWO_SOCKETS, ONE_SOCKET, ODD_NODES, SMALL_VM] {
        for finding in findings(&machine(snapshot, &CONTAINER), None) {
            let is_explained = !finding.cost.is_empty() && !finding.source.is_empty();
            assert_eq!(finding.is_defect, is_explained, "{finding:?}");
            assert!(finding.is_defect || finding.mend.is_empty(), "{finding:?}");
        }
    }
}

#[test]
fn a_machine_that_is_set_well_has_no_defect() {
    let pool = |node| format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
    let (first, second) = (pool(0), pool(1));
    let well = [
        (format!("{first}/nr_hugepages"), "64"),
        (format!("{first}/free_hugepages"), "64"),
        (format!("{second}/nr_hugepages"), "64"),
        (format!("{second}/free_hugepages"), "64"),
        ("proc/sys/kernel/numa_balancing".to_owned(), "0"),
    ];
    let well: Vec<_> = well.iter().map(|(path, text)| (&**path, *text)).collect();
    let mut defects = findings(&machine(TWO_SOCKETS, &well), None);
    defects.retain(|finding| finding.is_defect && finding.name != "interrupts");
    assert_eq!(defects, []);
}

#[test]
fn huge_pages_are_wanted_on_each_node_with_cores() {
    let found = defects(&machine(TWO_SOCKETS, &[]), "huge pages");
    assert_eq!(found.len(), 1, "node 1 has some: {found:?}");
    let mend = "echo 32 > /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages";
    assert_eq!(found[0].1, [mend]);
}

#[test]
fn frequencies_and_limits() {
    let cpu = "sys/devices/system/cpu/cpu1/cpufreq";
    let slow = [
        (&*format!("{cpu}/scaling_governor"), "powersave"),
        (&*format!("{cpu}/cpuinfo_min_freq"), "800000"),
        (&*format!("{cpu}/cpuinfo_max_freq"), "3200000"),
        ("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 2097152 0 -2"),
    ];
    let slow = machine(ONE_SOCKET, &slow);
    let found = findings(&slow, None);
    let frequency = found.iter().find(|finding| finding.name == "frequency").unwrap();
    assert!(frequency.is_defect && frequency.what.contains("powersave on cores 1"));
    assert!(frequency.cost.contains("0.8 GHz of 3.2: up to 4.0 times"), "{}", frequency.cost);
    assert_eq!(defects(&slow, "swap")[0].0, "2048 MiB of swap");

    let inside = machine(TWO_SOCKETS, &CONTAINER);
    assert_eq!(defects(&inside, "memory limit")[0].1, ["echo max > /sys/fs/cgroup/memory.max"]);
    assert!(defects(&inside, "cores")[0].0.contains("1.50 cores for 4 of them"));
    assert!(defects(&machine(TWO_SOCKETS, &[]), "memory limit").is_empty());
}

#[test]
fn old_kernels_and_pages_that_are_switched_off() {
    let transparent = "sys/kernel/mm/transparent_hugepage/enabled";
    let old = [("proc/sys/kernel/osrelease", "5.10.0-8"), (transparent, "always madvise [never]")];
    let old = machine(SMALL_VM, &old);
    assert!(defects(&old, "kernel")[0].0.contains("at least 5.14"));
    assert_eq!(
        defects(&old, "transparent pages")[0].1,
        ["echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"]
    );
    assert!(defects(&machine(SMALL_VM, &[]), "kernel").is_empty());
}

#[test]
fn odd_nodes_and_cards() {
    let odd = machine(ODD_NODES, &[]);
    assert!(defects(&odd, "nodes")[0].0.starts_with("node 2 has no memory"));
    assert_eq!(defects(&odd, "cores")[0].1, ["echo 1 > /sys/devices/system/cpu/cpu7/online"]);
    assert!(defects(&odd, "card's node")[0].0.contains("-1"));
    let apart = machine(TWO_SOCKETS, &[("proc/self/status", "Cpus_allowed_list: 0-3")]);
    assert!(defects(&apart, "card's node")[0].0.contains("no core for this process"));
    assert!(defects(&machine(TWO_SOCKETS, &[]), "card's node").is_empty());
}

#[test]
fn steering_balancing_and_small_rings() {
    let queue = "sys/class/net/eth0/queues/rx-0";
    let steered = [(&*format!("{queue}/rps_cpus"), "3"), ("proc/9/comm", "irqbalance")];
    let mut steered = machine(SMALL_VM, &steered);
    steered.interfaces[0].receive_ring = Some((256, 4096));
    let found = defects(&steered, "steering");
    assert_eq!(found[0].1, ["echo 0 > /sys/class/net/eth0/queues/rx-0/rps_cpus"]);
    assert!(found[0].0.ends_with("(RPS)"), "{found:?}");
    assert_eq!(defects(&steered, "interrupts")[0].1, ["systemctl stop irqbalance"]);
    let rings = defects(&steered, "receive ring");
    assert_eq!(
        rings[0],
        ("eth0: 256 frames of 4096".into(), vec!["ethtool -G eth0 rx 4096".into()])
    );
    assert!(defects(&machine(SMALL_VM, &[]), "steering").is_empty());
}

#[test]
fn interrupts_far_from_the_card_or_on_a_thread_are_sent_elsewhere() {
    let effective = "proc/irq/25/effective_affinity_list";
    let far = defects(&machine(TWO_SOCKETS, &[(effective, "2")]), "interrupts");
    let far = far.iter().find(|(what, _)| what.contains("irq 25")).unwrap();
    assert!(far.0.contains("core 2, another node than the card's"), "{far:?}");
    assert_eq!(far.1, ["echo 6-11 > /proc/irq/25/smp_affinity_list"]);

    let machine = machine(TWO_SOCKETS, &[(effective, "8")]);
    let eth0 = SourceRequest {
        name: "eth0".to_owned(),
        interface: Some("eth0".to_owned()),
        queues: Vec::new(),
    };
    let cores = burstline_sys::affinity::parse_cores("8,10").unwrap();
    let request =
        PlanRequest { sources: vec![eth0], workers: Some(1), cores, ..PlanRequest::default() };
    let plan = plan(&machine, &request).unwrap();
    let found = findings(&machine, Some(&plan));
    let hot = found.iter().find(|finding| finding.what.contains("irq 25")).unwrap();
    assert!(hot.what.contains("core 8, where a thread is to run"), "{hot:?}");
    assert_eq!(hot.mend, ["echo 6-7,9,11 > /proc/irq/25/smp_affinity_list"]);
}

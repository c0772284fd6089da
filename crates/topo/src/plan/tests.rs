//! Plans on machines that are text files.

use burstline_sys::affinity::parse_cores;

use super::*;
use crate::inventory::tests::{CONTAINER, ODD_NODES, ONE_SOCKET, SMALL_VM, TWO_SOCKETS, machine};

fn request(workers: usize) -> PlanRequest {
    let eth0 = SourceRequest {
        name: "eth0".to_owned(),
        interface: Some("eth0".to_owned()),
        queues: Vec::new(),
    };
    PlanRequest {
        sources: vec![eth0],
        workers: Some(workers),
        log_bytes: 64 << 20,
        ..PlanRequest::default()
    }
}

/// Returns a request with a required placement and a source with a card.
fn forced(placement: &str) -> PlanRequest {
    PlanRequest {
        workers: None,
        sources: Vec::new(),
        placement: Some(placement.parse().unwrap()),
        ..request(0)
    }
}

fn cores(plan: &Plan) -> Vec<u32> {
    plan.threads.iter().map(|thread| thread.core.0).collect()
}

fn log_nodes(plan: &Plan) -> Vec<u32> {
    plan.logs.iter().map(|log| log.node.0).collect()
}

fn error(machine: &Inventory, request: &PlanRequest) -> String {
    plan(machine, request).unwrap_err().to_string()
}

/// Asserts that no two threads share a physical core, and each is on its stated node.
fn assert_sound(machine: &Inventory, plan: &Plan) {
    for (index, thread) in plan.threads.iter().enumerate() {
        let core = machine.core(thread.core).unwrap();
        assert!(core.is_usable && core.node == thread.node, "{thread:?}");
        let others = plan.threads[..index].iter();
        assert!(others.clone().all(|other| !core.siblings.contains(&other.core)), "{plan:?}");
        assert!(machine.node(thread.stack_node).unwrap().has_memory());
        assert!(!thread.reasons.is_empty());
    }
    assert!(plan.logs.iter().all(|log| machine.node(log.node).unwrap().has_memory()));
}

#[test]
fn all_goes_near_the_card_a_physical_core_each() {
    let machine = machine(TWO_SOCKETS, &[]);
    let plan = plan(&machine, &request(2)).unwrap();
    assert_sound(&machine, &plan);
    assert_eq!((plan.placement.to_string(), &plan.nodes[..]), ("A_AA".into(), &[NodeId(1)][..]));
    assert_eq!(log_nodes(&plan), [1, 1]);
    assert_eq!(plan.logs[0].pages, "2 MiB reserved");
    assert!(plan.threads[0].reasons[0].contains("eth0 is at node 1"));
    assert_eq!(plan.feeds, [Feed { source: "eth0".into(), queue: None, thread: 0 }]);
}

#[test]
fn the_twelve_cases_of_the_paper() {
    let machine = machine(TWO_SOCKETS, &[]);
    for (placement, workers) in [("A_AA", [0, 0]), ("A_AB", [0, 1]), ("A_BB", [1, 1])] {
        for node in [0, 1] {
            let nodes =
                [node].into_iter().chain(workers.map(|far| if far == 1 { 1 - node } else { node }));
            let nodes: Vec<u32> = nodes.collect();
            for sharing in [LogSharing::Copy, LogSharing::Share] {
                let receive_node = Some(NodeId(node));
                let plan =
                    plan(&machine, &PlanRequest { receive_node, sharing, ..forced(placement) });
                let plan = plan.unwrap();
                assert_sound(&machine, &plan);
                assert_eq!(plan.placement.to_string(), placement);
                let found: Vec<u32> = plan.threads.iter().map(|thread| thread.node.0).collect();
                assert_eq!(found, nodes, "{placement} from {node}");
                assert!(plan.threads.iter().all(|thread| thread.stack_node == thread.node));
                // A log is on its readers' node; if half of the readers are on the writer's node,
                // it is there.
                let expected = match sharing {
                    LogSharing::Copy => nodes[1..].to_vec(),
                    LogSharing::Share if placement == "A_BB" => vec![1 - node],
                    LogSharing::Share => vec![node],
                };
                assert_eq!(log_nodes(&plan), expected, "{placement} from {node}");
            }
        }
    }
}

#[test]
fn several_receive_threads_are_a_placement_too() {
    let machine = machine(TWO_SOCKETS, &[]);
    let crossed = plan(&machine, &forced("AB_AABB")).unwrap();
    assert_sound(&machine, &crossed);
    assert_eq!(crossed.placement.to_string(), "AB_AABB");
    assert_eq!(crossed.logs.len(), 8, "each receive thread has one to each worker");
    assert_eq!(log_nodes(&crossed), [0, 0, 1, 1, 0, 0, 1, 1]);
    let sharing = LogSharing::Share;
    let shared = plan(&machine, &PlanRequest { sharing, ..forced("AB_AABB") }).unwrap();
    assert_eq!(log_nodes(&shared), [0, 1], "of equally many readers the writer's node");
}

#[test]
fn pools_and_stacks_go_where_they_are_sent() {
    let machine = machine(TWO_SOCKETS, &[]);
    let (pool_node, stack_node) = (Some(NodeId(0)), Some(NodeId(0)));
    let plan = plan(&machine, &PlanRequest { pool_node, stack_node, ..request(2) }).unwrap();
    assert_eq!(log_nodes(&plan), [0, 0]);
    assert!(plan.threads.iter().all(|thread| thread.stack_node.0 == 0 && thread.node.0 == 1));
    assert!(plan.logs[0].reasons.iter().any(|why| why.contains("loads from another node")));
}

#[test]
fn queues_of_a_card_go_to_receive_threads_in_turn() {
    let machine = machine(TWO_SOCKETS, &[]);
    let mut request = PlanRequest { receivers: Some(2), ..request(1) };
    request.sources[0].queues = (0..8).collect();
    let plan = plan(&machine, &request).unwrap();
    let threads: Vec<usize> = plan.feeds.iter().map(|feed| feed.thread).collect();
    assert_eq!(threads, [0, 1, 0, 1, 0, 1, 0, 1]);
    assert_eq!(plan.feeds[7].queue, Some(7));
    assert_eq!(plan.threads[1].name, "receive-1");
}

#[test]
fn run_to_completion_has_a_thread_a_source_and_no_log() {
    let machine = machine(TWO_SOCKETS, &[]);
    let mut request = request(0);
    request.sources.push(SourceRequest { name: "gen:".into(), ..SourceRequest::default() });
    let plan = plan(&machine, &request).unwrap();
    assert_sound(&machine, &plan);
    assert_eq!((plan.threads.len(), plan.logs.len()), (2, 0));
    assert_eq!(plan.threads[0].name, "poll-0");
    assert!(
        error(&machine, &PlanRequest { pool_node: Some(NodeId(0)), ..request }).contains("no log")
    );
}

#[test]
fn interrupted_cores_are_left_and_isolated_ones_preferred() {
    // eth0 interrupts core 1: the other core receives.
    let small = machine(SMALL_VM, &[]);
    assert_eq!(cores(&plan(&small, &request(1)).unwrap()), [0, 1]);
    let effective: Vec<(String, &str)> =
        (24..28).map(|irq| (format!("proc/irq/{irq}/effective_affinity_list"), "0")).collect();
    let effective: Vec<_> = effective.iter().map(|(path, core)| (&**path, *core)).collect();
    let one = machine(ONE_SOCKET, &effective);
    let plan = plan(&one, &request(2)).unwrap();
    assert_eq!(cores(&plan), [2, 3, 1]);
    assert!(plan.threads[0].reasons.iter().any(|why| why.contains("isolated")));
}

#[test]
fn another_program_of_ours_is_left_alone() {
    let mut machine = machine(ONE_SOCKET, &[]);
    machine.taken = parse_cores("2").unwrap();
    assert_eq!(cores(&plan(&machine, &request(0)).unwrap()), [3]);
}

#[test]
fn siblings_are_shared_only_if_that_was_asked_for() {
    let machine = machine(TWO_SOCKETS, &[]);
    let six = plan(&machine, &request(5)).unwrap();
    assert_sound(&machine, &six);
    assert_eq!(six.placement.to_string(), "A_AABBB");
    assert!(six.notes.iter().any(|note| note.contains("continues on node 0")), "{:?}", six.notes);
    let seven = error(&machine, &request(6));
    assert!(seven.starts_with("7 threads for 6 physical cores"), "{seven}");
    let forced_four = error(&machine, &forced("A_AAA"));
    assert!(
        forced_four.contains("4 threads for 3 physical cores that this process may use on node 0")
    );
    let asked = PlanRequest { may_share_cores: true, ..request(6) };
    assert_eq!(plan(&machine, &asked).unwrap().threads.len(), 7);
    let named = PlanRequest { cores: parse_cores("6,7").unwrap(), ..request(1) };
    let named = plan(&machine, &named).unwrap();
    assert!(named.notes[0].contains("6 and 7 are one physical core"), "{:?}", named.notes);
}

#[test]
fn wishes_that_contradict_each_other_are_refused() {
    let machine = machine(TWO_SOCKETS, &[]);
    let wish = |placement| PlanRequest { ..forced(placement) };
    let cases = [
        (PlanRequest { workers: Some(4), ..wish("A_AB") }, "A_AB names 2"),
        (PlanRequest { receivers: Some(2), ..wish("A_AB") }, "names 1"),
        (
            PlanRequest { cores: parse_cores("0,2,4").unwrap(), ..wish("A_AB") },
            "these cores are A_AA",
        ),
        (
            PlanRequest { cores: parse_cores("0,2").unwrap(), ..wish("A_AB") },
            "1 of them have no core",
        ),
        (PlanRequest { receivers: Some(2), ..request(1) }, "a queue has one receive thread"),
        (PlanRequest { receivers: Some(0), ..request(1) }, "at least one"),
        (wish("A_BC"), "placement A_BC needs 3 nodes with usable cores; there are nodes 0, 1"),
        (
            PlanRequest { receive_node: Some(NodeId(2)), ..request(1) },
            "no node 2; this machine has nodes 0, 1",
        ),
        (
            PlanRequest { cores: parse_cores("0,99").unwrap(), ..request(1) },
            "core 99 cannot be used: it is not present",
        ),
    ];
    for (request, expected) in cases {
        let message = error(&machine, &request);
        assert!(message.contains(expected), "{message}");
    }
    let one = error(&crate::inventory::tests::machine(ONE_SOCKET, &[]), &wish("A_AB"));
    assert!(one.contains("needs 2 nodes") && one.contains("there is one, node 0"), "{one}");
}

#[test]
fn a_card_of_unknown_place_is_near_its_interrupts_and_that_is_said() {
    let away: Vec<(String, &str)> =
        (0..64).map(|irq| (format!("proc/irq/{irq}/effective_affinity_list"), "4")).collect();
    let away: Vec<_> = away.iter().map(|(path, core)| (&**path, *core)).collect();
    let machine = machine(ODD_NODES, &away);
    let plan = plan(&machine, &request(1)).unwrap();
    assert_sound(&machine, &plan);
    assert_eq!(plan.nodes, [NodeId(1)]);
    assert!(plan.threads[0].reasons[0].contains("eth0 interrupts cores of node 1"));
    assert!(plan.threads.iter().all(|thread| thread.core != CoreId(4)), "{:?}", plan.threads);
    assert!(plan.notes[0].contains("numa_node is -1"), "{:?}", plan.notes);
}

#[test]
fn a_node_without_memory_has_its_logs_and_stacks_nearby() {
    let machine = machine(ODD_NODES, &[]);
    let on_it = PlanRequest { receive_node: Some(NodeId(2)), ..request(0) };
    let plan = plan(&machine, &on_it).unwrap();
    assert_sound(&machine, &plan);
    assert_eq!((plan.threads[0].core, plan.threads[0].stack_node), (CoreId(6), NodeId(1)));
    assert!(
        plan.notes.iter().any(|note| note.contains("stacks are on node 1")),
        "{:?}",
        plan.notes
    );
    for wish in [
        PlanRequest { pool_node: Some(NodeId(2)), ..request(1) },
        PlanRequest { stack_node: Some(NodeId(2)), ..request(1) },
    ] {
        assert_eq!(
            error(&machine, &wish),
            "node 2 has no memory for this process; nodes 0, 1, 3 have some"
        );
    }
    let memory_only = PlanRequest { receive_node: Some(NodeId(3)), ..request(0) };
    assert!(
        error(&machine, &memory_only)
            .starts_with("node 3 has no core for this process: it has none")
    );
    let offline = PlanRequest { cores: parse_cores("7").unwrap(), ..request(0) };
    assert!(error(&machine, &offline).starts_with("core 7 cannot be used: it is offline"));
}

#[test]
fn a_container_keeps_to_its_cpuset() {
    let inside = machine(TWO_SOCKETS, &CONTAINER);
    let two = plan(&inside, &request(1)).unwrap();
    assert_sound(&inside, &two);
    assert!(cores(&two).iter().all(|core| (8..12).contains(core)), "{two:?}");
    assert!(error(&inside, &request(2)).starts_with("3 threads for 2 physical cores"));
    let far = PlanRequest { receive_node: Some(NodeId(0)), ..request(1) };
    assert!(error(&inside, &far).contains("it has 0-5, allowed are 8-11"));
    let far = PlanRequest { pool_node: Some(NodeId(0)), ..request(1) };
    assert!(
        error(&inside, &far).contains("node 0 has no memory for this process; node 1 has some")
    );
    let outside = PlanRequest { cores: parse_cores("0,8").unwrap(), ..request(1) };
    assert!(error(&inside, &outside).contains("core 0 cannot be used: it is not allowed"));

    // The process has no core on the card's node.
    let apart = machine(TWO_SOCKETS, &[("proc/self/status", "Cpus_allowed_list: 0-3")]);
    let plan = plan(&apart, &request(1)).unwrap();
    assert!(cores(&plan).iter().all(|&core| core < 4));
    assert!(
        plan.notes.iter().any(|note| note.contains("no core for this process")),
        "{:?}",
        plan.notes
    );
    assert!(plan.notes.iter().any(|note| note.contains("crosses")), "{:?}", plan.notes);
}

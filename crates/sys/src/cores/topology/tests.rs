//! Topologies built from files, and the machine's own.

use super::*;

/// A directory that stands for `/sys`, removed at the end.
struct FakeSys(PathBuf);

impl FakeSys {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let root =
            std::env::temp_dir().join(format!("burstline-sys-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        Self(root)
    }
}

impl Drop for FakeSys {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn two_nodes_with_their_cores_and_pages() {
    let pool = "devices/system/node/node1/hugepages/hugepages-2048kB";
    let sys = FakeSys::new(
        "two",
        &[
            ("devices/system/node/online", "0-2\n"),
            ("devices/system/node/node0/cpulist", "0-3,8-11\n"),
            ("devices/system/node/node1/cpulist", "4-7,12-15\n"),
            ("devices/system/node/node2/cpulist", "\n"),
            (&format!("{pool}/nr_hugepages"), "16\n"),
            (&format!("{pool}/free_hugepages"), "6\n"),
            ("kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n"),
            ("kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "2\n"),
            ("kernel/mm/hugepages/hugepages-1048576kB/resv_hugepages", "1\n"),
            ("kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "16\n"),
            ("kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "6\n"),
            ("kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "9\n"),
        ],
    );
    let topology = Topology::read_from(&sys.0).unwrap();
    let cores: Vec<usize> = topology.nodes.iter().map(|node| node.cores.len()).collect();
    assert_eq!(cores, [8, 8, 0], "a node may be memory only");
    assert_eq!(topology.node_of(CoreId(9)), Some(NodeId(0)));
    assert_eq!(topology.node_of(CoreId(4)), Some(NodeId(1)));
    assert_eq!(topology.node_of(CoreId(16)), None);
    let pages = HugePages { page_bytes: 2 << 20, total: 16, free: 6, promised: 0 };
    assert_eq!(topology.nodes[1].huge_pages, [pages]);
    assert_eq!(topology.nodes[0].huge_pages, []);
    let unpromised: Vec<u64> = topology.huge_pages.iter().map(HugePages::unpromised).collect();
    assert_eq!(unpromised, [0, 1], "by ascending size; never below 0");
}

#[test]
fn a_machine_may_have_more_cores_than_a_mask_of_the_c_library() {
    let sys = FakeSys::new(
        "many",
        &[
            ("devices/system/node/online", "0-1\n"),
            ("devices/system/node/node0/cpulist", "0-1023\n"),
            ("devices/system/node/node1/cpulist", "1024-2047\n"),
        ],
    );
    let topology = Topology::read_from(&sys.0).unwrap();
    assert_eq!(topology.nodes[1].cores.len(), 1024);
    assert_eq!(topology.node_of(CoreId(2047)), Some(NodeId(1)));
}

#[test]
fn a_kernel_without_numa_is_one_node() {
    let sys = FakeSys::new("one", &[("devices/system/cpu/online", "0-1\n")]);
    let topology = Topology::read_from(&sys.0).unwrap();
    assert_eq!(topology.nodes.len(), 1);
    assert_eq!(topology.nodes[0].id, NodeId(0));
    assert_eq!(topology.nodes[0].cores, [CoreId(0), CoreId(1)]);
}

#[test]
fn a_core_says_which_node_it_is_on() {
    let sys = FakeSys::new(
        "node",
        &[
            ("devices/system/cpu/cpu3/node1/cpulist", "3\n"),
            ("devices/system/cpu/cpu3/online", "1\n"),
            ("devices/system/cpu/cpu4/online", "1\n"),
        ],
    );
    assert_eq!(node_below(&sys.0, CoreId(3)), Some(NodeId(1)));
    assert_eq!(node_below(&sys.0, CoreId(4)), Some(NodeId(0)), "a kernel without NUMA");
    assert_eq!(node_below(&sys.0, CoreId(5)), None);
}

#[test]
fn a_malformed_file_is_named() {
    let pool = "kernel/mm/hugepages/hugepages-2048kB";
    let sys = FakeSys::new(
        "bad",
        &[("devices/system/cpu/online", "0\n"), (&format!("{pool}/nr_hugepages"), "many\n")],
    );
    let error = Topology::read_from(&sys.0).unwrap_err().to_string();
    assert!(error.ends_with("hugepages-2048kB/nr_hugepages: `many` is not a number"), "{error}");
    let missing = Topology::read_from(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(missing.starts_with("/nonexistent/devices/system/cpu/online: "), "{missing}");
}

#[test]
fn fields_of_meminfo_are_summed_or_missed() {
    let node = "Node 0 MemTotal:  100 kB\nNode 0 MemFree:   40 kB\nNode 0 Active(file):  2 kB\n";
    assert_eq!(meminfo_sum(node, &["MemFree:", "Active(file):"]), Some(42));
    assert_eq!(meminfo_sum(node, &["MemFree:", "Inactive(file):"]), None);
    assert_eq!(meminfo_sum("MemAvailable: 7 kB\n", &["MemAvailable:"]), Some(7));
    assert_eq!(meminfo_sum("MemAvailable: x kB\n", &["MemAvailable:"]), None);
}

#[test]
fn this_machine_has_the_cores_that_this_process_uses() {
    let topology = Topology::read().unwrap();
    for core in crate::affinity::allowed_cores().unwrap() {
        assert!(topology.node_of(core).is_some(), "{core}");
        assert_eq!(node_of(core), topology.node_of(core), "{core}");
    }
    assert!(available_bytes(None).unwrap() > 0);
    assert!(available_bytes(Some(topology.nodes[0].id)).unwrap() > 0);
}

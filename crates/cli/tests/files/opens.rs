//! What a job opens on the machine: only what it uses, however much else is there.

use burstline_skip::skip;
use burstline_topo::Outline;

use crate::support::rights::traced;
use crate::support::{Directory, REAL, other_or_skip};

/// Opens of a job on a file below /proc and /sys, with room for a few more caches and sizes of huge
/// pages. Other processes, interfaces and cards add none.
const OPENS_MOST: usize = 60;

/// Whether a line of strace's output opens something that a job on a file does not use. Landlock
/// opens whole trees by `O_PATH`, which reads nothing.
fn is_others(line: &&str) -> bool {
    let path = line.split('"').nth(1).unwrap_or_default();
    let process = path.strip_prefix("/proc/").and_then(|path| path.bytes().next());
    let is_looked_for = path == "/proc"
        || process.is_some_and(|first| first.is_ascii_digit())
        || path.starts_with("/sys/class/net")
        || path.starts_with("/sys/bus/pci");
    is_looked_for && !line.contains("O_PATH")
}

#[test]
fn a_job_on_a_file_reads_nothing_of_other_processes_interfaces_and_cards() {
    let outline = Outline::read().unwrap();
    if outline.nodes.len() > 1 || outline.cores.iter().any(|core| core.is_isolated) {
        skip("a job is planned here: a plan looks for other processes of this program");
        return;
    }
    if other_or_skip("strace", &["-V"]).is_none() {
        return;
    }
    let directory = Directory::new("opens");
    let [packets, records] = ["out.pcapng", "records"].map(|name| directory.file(name));
    for job in
        [&["count", REAL][..], &["capture", REAL, "-w", &packets], &["flows", REAL, "-o", &records]]
    {
        let lines = traced(&directory, &["-e", "trace=open,openat"], job);
        let of_kernel = |line: &&str| line.contains("\"/proc") || line.contains("\"/sys");
        let opens: Vec<&str> = lines.lines().filter(of_kernel).collect();
        let others: Vec<&&str> = opens.iter().filter(|line| is_others(line)).collect();
        assert!(others.is_empty(), "{job:?}: {others:#?}");
        assert!(!opens.is_empty() && lines.contains(REAL), "{job:?}: {lines}");
        assert!(opens.len() <= OPENS_MOST, "{job:?} opens {}: {lines}", opens.len());
    }
}

//! Programs that read a published log by our libpcap, against the same programs on a packet socket.
//!
//! ```text
//!   ours:   injector --> v1: burstline count --publish tap --> log --> tcpdump, by our libpcap
//!   peer:   injector --> v1: kernel's copy for each socket --> ring --> tcpdump, by the real one
//! ```
//!
//! Who owns what when: publisher and programs go with their road. Programs are measured from when
//! they are ready until they have had time for the last frame, so that no start and no end counts.
//!
//! Invariants:
//! - F1: what is compared is time of the programs' own threads, by the scheduler's account. The
//!   publisher's cost stands beside it. The kernel brings a socket's packets, on the core where the
//!   interface's softirq runs, and no program's account has that.
//! - F2: a program that lost packets has its loss among the details.

mod captures;
mod inline;
mod matcher;
mod suricata;
mod work;
mod workers;
mod written;

use std::fs;
use std::path::PathBuf;

pub(super) use captures::{four_readers, one_tcpdump};
pub(super) use inline::measure as suricata_inline;
pub(super) use matcher::measure as match_contents;
pub(super) use suricata::{measure as suricata, version as suricata_version};

use super::count_file::our_program;

/// Our libpcap of the same build: it stands beside `bench`.
fn our_library() -> Result<PathBuf, String> {
    let library = our_program()?.with_file_name("libburstline_pcap.so");
    match library.is_file() {
        true => Ok(library),
        false => {
            let path = library.display();
            Err(format!("{path} is missing: cargo build --release -p burstline-pcap"))
        }
    }
}

/// What all threads of a process have had of processors so far, in ns.
pub(super) fn processor_ns(process: u32) -> Result<u64, String> {
    let folder = format!("/proc/{process}/task");
    let threads = fs::read_dir(&folder).map_err(|error| format!("{folder}: {error}"))?;
    // Source: Documentation/scheduler/sched-stats.rst: time on a processor, in ns, comes first.
    let of_thread = |thread: fs::DirEntry| {
        let said = fs::read_to_string(thread.path().join("schedstat")).ok()?;
        said.split_whitespace().next()?.parse::<u64>().ok()
    };
    let spent: Vec<u64> = threads.flatten().filter_map(of_thread).collect();
    match spent.is_empty() {
        true => Err(format!("{folder} has no schedstat: a kernel without CONFIG_SCHED_INFO")),
        false => Ok(spent.iter().sum()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn processor_time_grows_with_work() {
        let work = "read go; i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo; read end";
        let (input, output) = (Stdio::piped(), Stdio::piped());
        let child = Command::new("sh").args(["-c", work]).stdin(input).stdout(output).spawn();
        let mut child = child.unwrap();
        let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let before = processor_ns(child.id()).unwrap();
        input.write_all(b"\n").unwrap();
        output.read_exact(&mut [0]).unwrap();
        assert!(processor_ns(child.id()).unwrap() > before);
        drop(input);
        child.wait().unwrap();
        assert!(processor_ns(u32::MAX).is_err());
    }
}

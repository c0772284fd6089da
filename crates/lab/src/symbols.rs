//! Maps a sampled address to a function and file, for any program and for the kernel.
//!
//! ```text
//!   address --kernel--> /proc/kallsyms --------------------------> "kernel: napi_poll"
//!           --process-> /proc/N/maps --> file --> its symbols ---> "burstline: poll_burst"
//!                                             \-> not found -----> "librte_net_af_xdp.so.23"
//! ```
//!
//! Programs of distributions are stripped of their internal symbols. Then only the file's name is
//! known. Inlined code counts for its caller. The process that asks is shown as `lab`: its program
//! may be a contender's, too. Programs that it has not started are shown as `other programs`: they
//! used the core, but are not part of any contender's work. Kernel code that runs on their behalf
//! counts for them, including interrupts of the core.

mod elf;
pub mod stages;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use elf::Functions;

use crate::perf::sampling::Sampled;

/// The name shown for this process instead of its file's.
const LAB: &str = "lab";

/// Processes outside the lab's process tree, and the kernel on their behalf.
pub const OTHER_PROGRAMS: &str = "other programs";

/// Words in the names of kernel functions that run on an idle core.
const IDLE: [&str; 4] = ["idle", "halt", "mwait", "cpu_relax"];

/// A file-backed mapping of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mapped {
    start: u64,
    end: u64,
    /// Offset in the file.
    offset: u64,
    file: PathBuf,
}

/// Resolves addresses. A process must be alive when its first address is resolved.
#[derive(Default)]
pub struct Symbols {
    /// The mappings by process; `None` for foreign or ended processes.
    processes: BTreeMap<u32, Option<Vec<Mapped>>>,
}

impl Symbols {
    /// Counts samples by name, most frequent first. Leaves out samples of an idle core.
    pub(crate) fn count(&mut self, samples: &[Sampled]) -> Vec<(String, usize)> {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for sampled in samples {
            if let Some(name) = self.name(sampled) {
                *counts.entry(name).or_default() += 1;
            }
        }
        let mut counts: Vec<_> = counts.into_iter().collect();
        counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        counts
    }

    /// Returns the name of a sample, or `None` if the core was idle.
    fn name(&mut self, sampled: &Sampled) -> Option<String> {
        let is_core = sampled.process == 0 && sampled.is_kernel;
        let maps = match is_core {
            true => None,
            false => match self.maps(sampled.process) {
                Some(maps) => Some(maps),
                None => return Some(OTHER_PROGRAMS.to_owned()),
            },
        };
        if let Some(maps) = maps.filter(|_| !sampled.is_kernel) {
            return Some(name_in_process(sampled, maps));
        }
        let function = kernel().name(sampled.address);
        let is_idle = |name: &str| IDLE.iter().any(|word| name.contains(word));
        match function {
            Some(name) if is_core && is_idle(name) => None,
            Some(name) => Some(format!("kernel: {name}")),
            None => Some("kernel".to_owned()),
        }
    }

    /// Returns the mappings of a process of the lab's family; empty for a kernel thread.
    fn maps(&mut self, process: u32) -> Option<&[Mapped]> {
        let maps = self.processes.entry(process).or_insert_with(|| {
            let text = || fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
            is_family(process).then(|| text().lines().filter_map(parse).collect())
        });
        maps.as_deref()
    }
}

fn name_in_process(sampled: &Sampled, maps: &[Mapped]) -> String {
    let is_in = |part: &&Mapped| (part.start..part.end).contains(&sampled.address);
    let Some(part) = maps.iter().find(is_in) else { return "unknown".to_owned() };
    let file = part.file.file_name().unwrap_or(part.file.as_os_str()).to_string_lossy();
    let place = sampled.address - part.start + part.offset;
    let is_lab = sampled.process == std::process::id();
    match functions(&part.file).name(place) {
        Some(name) if is_lab => format!("{LAB}: {name}"),
        None if is_lab => format!("{LAB}: {file}"),
        Some(name) => format!("{file}: {name}"),
        None => file.into_owned(),
    }
}

/// Returns whether a process is this one, one of its descendants, or a kernel thread. Returns
/// `false` for an ended process.
fn is_family(process: u32) -> bool {
    /// Parent of the kernel threads. Source: include/linux/kthread.h, `kthreadd_task`.
    const KERNEL: u32 = 2;
    let own = std::process::id();
    let mut process = process;
    while process != own && process != KERNEL {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // Source: proc_pid_stat(5): the name in parentheses may hold anything; then state, parent.
        let fields = stat.rsplit_once(')').map(|(_, fields)| fields.split_whitespace());
        match fields.and_then(|mut fields| fields.nth(1)?.parse().ok()) {
            Some(parent) if parent > 1 => process = parent,
            _ => return false,
        }
    }
    true
}

/// Parses a line of `/proc/N/maps`. Source: proc_pid_maps(5): start-end, rights, offset, device,
/// inode, file.
fn parse(line: &str) -> Option<Mapped> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = number(words.nth(1)?)?;
    let file = words.nth(2)?;
    Some(Mapped { start: number(start)?, end: number(end)?, offset, file: file.into() })
}

/// Returns the kernel's functions; empty if the kernel hides them.
fn kernel() -> &'static Functions {
    static KERNEL: OnceLock<Functions> = OnceLock::new();
    KERNEL.get_or_init(|| {
        let text = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        Functions::of_kernel(&text)
    })
}

/// Returns a file's functions by offset. Each file is read once.
fn functions(file: &PathBuf) -> Arc<Functions> {
    static FILES: Mutex<BTreeMap<PathBuf, Arc<Functions>>> = Mutex::new(BTreeMap::new());
    let Ok(mut files) = FILES.lock() else { return Arc::default() };
    let read = || Arc::new(Functions::of_file(&fs::read(file).unwrap_or_default()));
    Arc::clone(files.entry(file.clone()).or_insert_with(read))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// A function for the test to find.
    #[inline(never)]
    fn looked_for(by: u64) -> u64 {
        black_box(by).wrapping_mul(3)
    }

    #[test]
    fn a_function_of_this_process_is_found_by_its_address() {
        black_box(looked_for(1));
        let process = std::process::id();
        let address = looked_for as fn(u64) -> u64 as usize as u64 + 1;
        let here = Sampled { address, process, is_kernel: false };
        let nowhere = Sampled { address: 1, ..here };
        let counts = Symbols::default().count(&[here, nowhere, here]);
        assert_eq!(counts.len(), 2, "{counts:?}");
        let (name, count) = &counts[0];
        assert!(name.contains("looked_for"), "{name}");
        assert_eq!((*count, &counts[1]), (2, &("unknown".to_owned(), 1)));
    }

    #[test]
    fn a_child_is_family_and_whoever_else_is_not() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_family(std::process::id()) && is_family(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_family(child.id()) && !is_family(1) && !is_family(u32::MAX));
        let others = Sampled { address: 1, process: 1, is_kernel: false };
        let counts = Symbols::default().count(&[others, others]);
        assert_eq!(counts, [(OTHER_PROGRAMS.to_owned(), 2)]);
    }

    #[test]
    fn an_idle_core_is_no_stage() {
        let idle = Sampled { address: u64::MAX, process: 0, is_kernel: true };
        let kernel = Functions::of_kernel("ffffffff00000000 T default_idle\n");
        assert_eq!(kernel.name(0xffff_ffff_0000_0001), Some("default_idle"));
        // An address after the last symbol has no name; it is not idle either.
        let count = Symbols::default().count(&[idle]);
        assert!(count.iter().all(|(name, count)| name.starts_with("kernel") && *count == 1));
    }

    #[test]
    fn maps_are_read_and_what_has_no_file_is_left_out() {
        let line = "7f00-8000 r-xp 00001000 fe:00 12 /usr/bin/x";
        let expected =
            Mapped { start: 0x7f00, end: 0x8000, offset: 0x1000, file: "/usr/bin/x".into() };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("7f00-8000 rw-p 00000000 00:00 0"), None);
    }
}

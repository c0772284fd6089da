//! Suricata for figures and scenarios: how to start it on a log and on interfaces, its work, and
//! its results.
//!
//! - N1: both sides use the same program with the same rules. With our libpcap it reads a log, with
//!   its own AF_PACKET an interface.

mod in_line;
mod work;
mod workers;
mod written;

use std::path::{Path, PathBuf};
use std::time::Duration;

use burstline_sys::usage;

use crate::live::{Need, missing};
use crate::programs::{self, Launch, Memory, Ours, Ready, our_program, target};

pub(crate) use in_line::{behind_bounce, between_interfaces, bounce};
pub(crate) use work::{Files, Replayed, Spent, Work};
pub(crate) use workers::Workers;
pub(crate) use written::{Flows, alerts, counter, flows};

/// Frames of the publisher's ring: some tens of ms, as other programs may use the core at times.
const FRAMES: u32 = 65_536;
const NEEDS: [Need; 1] = [Need { program: "tcpreplay", package: "tcpreplay" }];
/// How to install it.
const MEND: &str = "Suricata is not installed: sudo scripts/setup sensors";

/// Returns why Suricata cannot be measured, or `None` if it can.
pub(crate) fn lacks() -> Result<Option<String>, String> {
    match target()?.join("suricata/usr/bin/suricata").is_file() {
        true => Ok(missing(&NEEDS)),
        false => Ok(Some(MEND.to_owned())),
    }
}

/// Returns the version it reports; empty if it is not installed.
pub(crate) fn version() -> String {
    // Without a target folder, Suricata is not installed either.
    let target = target().unwrap_or_default().display().to_string();
    let target = format!("CARGO_TARGET_DIR={target}");
    let script = script().display().to_string();
    programs::first_line("env", &[&target, &script, "-V"])
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suricata")
}

/// A Suricata to start.
pub(crate) struct Suricata {
    target: PathBuf,
    /// Its output folder, which also has its rules.
    log: String,
    rules: String,
    /// Arguments for its packet source and its threads.
    words: String,
    library: Option<PathBuf>,
    ready: Ready,
}

impl Suricata {
    pub(crate) fn new(log: &str, rules: &str, words: &str, has_log: bool) -> Result<Self, String> {
        Ok(Self {
            target: target()?,
            log: log.to_owned(),
            rules: rules.to_owned(),
            words: words.to_owned(),
            library: has_log.then(our_library).transpose()?,
            ready: Ready::line("Engine started"),
        })
    }
}

impl Launch for Suricata {
    fn command(&self, _: Memory) -> String {
        let Self { log, rules, words, .. } = self;
        let (script, target) = (script(), self.target.display());
        let script = script.display();
        // It must not preload anything else, because it has its own C library.
        let library = self.library.as_ref().map(|path| path.display().to_string());
        let library = library.unwrap_or_default();
        format!(
            "env CARGO_TARGET_DIR={target} LD_PRELOAD={library} {script} -S {rules} -l {log} \
             {words}"
        )
    }

    fn ready(&self) -> Ready {
        self.ready.clone()
    }

    fn settles_in(&self) -> Duration {
        Duration::ZERO
    }
}

/// Returns our libpcap of the same build, which is beside `bench`.
pub(crate) fn our_library() -> Result<PathBuf, String> {
    let library = our_program()?.with_file_name("libburstline_pcap.so");
    match library.is_file() {
        true => Ok(library),
        false => {
            let path = library.display();
            Err(format!("{path} is missing: cargo build --release -p burstline-pcap"))
        }
    }
}

/// Returns a publisher of an interface's packets, with these arguments. It is ready at its first
/// interval.
pub(crate) fn publish(program: &Path, words: &str, name: &str) -> Ours {
    Ours::new(program, &format!("{words} 'xdp:v1?frames={FRAMES}' --publish {name}"))
}

/// Returns the CPU time of all threads of a process so far, in ns.
pub(crate) fn processor_ns(process: u32) -> Result<u64, String> {
    usage::processor_ns(process).map_err(|error| format!("process {process}: {error}"))
}

//! Suricata, as figures and scenarios have it: how it is started on a log and on interfaces, what
//! it has to do, and what it says.
//!
//! Invariants:
//! - N1: it is the same program with the same rules on either side; by our libpcap it has a log,
//!   by its own AF_PACKET an interface.

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
pub(crate) use work::{Files, Spent, Work};
pub(crate) use workers::Workers;
pub(crate) use written::{Flows, alerts, counter, flows};

/// Frames of the publisher's ring: some tens of ms, for a core that others have at times.
const FRAMES: u32 = 65_536;
const NEEDS: [Need; 1] = [Need { program: "tcpreplay", package: "tcpreplay" }];
/// What fetches it.
const MEND: &str = "Suricata is not installed: sudo scripts/setup sensors";

/// Why there is no Suricata to measure; `None`: there is one.
pub(crate) fn lacks() -> Result<Option<String>, String> {
    match target()?.join("suricata/usr/bin/suricata").is_file() {
        true => Ok(missing(&NEEDS)),
        false => Ok(Some(MEND.to_owned())),
    }
}

/// As it says itself; empty where it is not there.
pub(crate) fn version() -> String {
    // Where there is no target folder, there is no Suricata either.
    let target = target().unwrap_or_default().display().to_string();
    let target = format!("CARGO_TARGET_DIR={target}");
    let script = script().display().to_string();
    programs::first_line("env", &[&target, &script, "-V"])
}

fn script() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/suricata")
}

/// A Suricata.
pub(crate) struct Suricata {
    target: PathBuf,
    /// Where it writes, and where its rules are.
    log: String,
    rules: String,
    /// Where its packets come from, and who looks at them.
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
        // Nothing else is preloaded there: it has its own C library.
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

/// Our libpcap of the same build: it stands beside `bench`.
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

/// A publisher of what comes in by the interface, by these words. It is ready with its first
/// interval.
pub(crate) fn publish(program: &Path, words: &str, name: &str) -> Ours {
    Ours::new(program, &format!("{words} 'xdp:v1?frames={FRAMES}' --publish {name}"))
}

/// What all threads of a process have had of processors so far, in ns.
pub(crate) fn processor_ns(process: u32) -> Result<u64, String> {
    usage::processor_ns(process).map_err(|error| format!("process {process}: {error}"))
}

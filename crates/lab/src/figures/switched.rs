//! What a packet costs on its way between two guests, or two dataplanes: our switch, Open vSwitch,
//! and testpmd, which only carries packets from one port to the other.
//!
//! ```text
//!   testpmd flowgen == virtio-user or memif == who is measured
//!     both its ports ==        the same     ==  on another core
//! ```
//!
//! testpmd sends 1,024 flows by each of its ports and takes what comes by the other, so there are
//! packets both ways. It sets the rate, so that says nothing. What is compared is the time of the
//! measured core in polls that found packets, for each packet. All sides say it themselves, in
//! cycles of one counter or by its clock.

mod rivals;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use burstline_testbed::signal;
use serde_json::Value;

use super::Context;
use super::count_file::our_program;
use crate::compared::{Better, Compared, Outcome};
use crate::conditions::Conditions;
use crate::contest::{alternate, go_on};
use crate::live::missing_of;
use crate::pages::Reservation;
use crate::programs::Memory;
use rivals::Rival;

/// Huge pages of 2 MiB for three programs of DPDK's.
const PAGES: u64 = 3 * 260;
const READY_WITHIN: Duration = Duration::from_secs(60);
const TURN: Duration = Duration::from_secs(2);
const IDLE: Duration = Duration::from_secs(3);
/// Ports of a switch that has nothing to do.
const IDLE_PORTS: usize = 8;

/// By what packets come and go.
#[derive(Clone, Copy)]
pub(super) enum Cable {
    Vhost,
    Memif,
}

impl Cable {
    /// A device of the ends', which connects to whoever is measured.
    fn end(self, number: usize, socket: &str) -> String {
        match self {
            Self::Vhost => format!("net_virtio_user{number},path={socket},queue_size=1024"),
            Self::Memif => {
                let rest = "socket-abstract=no,rsize=10";
                format!("net_memif{number},role=client,id=0,socket={socket},{rest}")
            }
        }
    }

    fn scheme(self) -> &'static str {
        match self {
            Self::Vhost => "vhost",
            Self::Memif => "memif",
        }
    }
}

/// Programs of a turn, in a folder that goes with them.
struct Stage {
    folder: PathBuf,
    programs: Vec<Child>,
}

impl Stage {
    fn new() -> Result<Self, String> {
        let folder =
            std::env::temp_dir().join(format!("burstline-switched-{}", std::process::id()));
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        Ok(Self { folder, programs: Vec::new() })
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// Starts a command of the shell's, whose output goes to a file of this name.
    fn start(&mut self, name: &str, command: &str) -> Result<u32, String> {
        let output = self.file(name);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("exec {command} > '{output}' 2>&1")]);
        let started = shell.env("BURSTLINE_RUN", &self.folder).stdin(Stdio::piped()).spawn();
        let program = started.map_err(|error| format!("{command}: {error}"))?;
        let process = program.id();
        self.programs.push(program);
        Ok(process)
    }

    fn said(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.file(name)).unwrap_or_default()).into_owned()
    }

    fn wait(&self, context: &Context, name: &str, is_so: impl Fn() -> bool) -> Result<(), String> {
        let began = Instant::now();
        while !is_so() {
            go_on(&context.stop)?;
            if began.elapsed() > READY_WITHIN {
                return Err(format!("{name} is not ready: {}", self.said(name).trim()));
            }
            sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Interrupts a program, waits for its end, and returns what it has said.
    fn end(&mut self, name: &str, process: u32) -> Result<String, String> {
        signal(process, "-INT").map_err(|error| format!("interrupt {name}: {error}"))?;
        let program = self.programs.iter_mut().find(|program| program.id() == process);
        if let Some(program) = program {
            program.wait().map_err(|error| format!("{name}: {error}"))?;
        }
        Ok(self.said(name))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for program in &mut self.programs {
            let _ = program.kill();
            let _ = program.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Has the ends send and receive for a turn by a middle that is ready.
fn load(
    context: &Context,
    stage: &mut Stage,
    cable: Cable,
    sockets: &[String; 2],
    memory: Memory,
) -> Result<(), String> {
    let core = context.cores.producer;
    let devices = sockets.iter().enumerate();
    let devices: Vec<_> =
        devices.map(|(number, socket)| format!("--vdev {}", cable.end(number, socket))).collect();
    let command = format!(
        "stdbuf -oL dpdk-testpmd --lcores 0@{core},1@{core} --no-pci --no-telemetry {} {} -- \
         --forward-mode=flowgen --no-mlockall --disable-link-check",
        memory.arguments(),
        devices.join(" ")
    );
    let process = stage.start("ends", &command)?;
    stage.wait(context, "ends", || stage.said("ends").contains("Press enter to exit"))?;
    sleep(if context.smoke { TURN / 10 } else { TURN });
    stage.end("ends", process)?;
    Ok(())
}

fn sockets_are_there(sockets: &[String; 2]) -> bool {
    sockets.iter().all(|socket| Path::new(socket).exists())
}

/// Ns a packet of our switch, with one rule.
fn ours(context: &Context, program: &Path, cable: Cable) -> Result<f64, String> {
    let _pages = Reservation::take(PAGES);
    let (mut stage, memory) = (Stage::new()?, Memory::now());
    let sockets = ["a", "b"].map(|name| stage.file(name));
    let [a, b] = sockets.each_ref().map(|socket| format!("{}:{socket}", cable.scheme()));
    let config = stage.file("rules.toml");
    let rule = |from, to| format!("[[rule]]\nflow = \"in_port={from},actions=output:{to}\"\n");
    fs::write(&config, rule(&a, &b) + &rule(&b, &a))
        .map_err(|error| format!("{config}: {error}"))?;
    let (program, core) = (program.display(), context.cores.consumer);
    let command = format!(
        "taskset -c {core} '{program}' switch --port '{a}' --port '{b}' --config '{config}' \
         --poll busy --json"
    );
    let process = stage.start("ours", &command)?;
    stage.wait(context, "ours", || sockets_are_there(&sockets))?;
    load(context, &mut stage, cable, &sockets, memory)?;
    let said = stage.end("ours", process)?;
    let report = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let stages = &report.ok_or_else(|| format!("no report: {said}"))?["stages"][0];
    match (stages["busy_s"].as_f64(), stages["in"].as_f64()) {
        (Some(busy), Some(packets)) if packets > 0.0 => Ok(1e9 * busy / packets),
        _ => Err(format!("no packets: {said}")),
    }
}

/// `switch-64-ovs-dpdk`, `switch-64-io` and `memif-64`.
pub(super) fn measure(context: &Context, name: &str) -> Result<Outcome, String> {
    let (cable, rival) = match name {
        "switch-64-ovs-dpdk" => (Cable::Vhost, Rival::OpenVSwitch),
        "memif-64" => (Cable::Memif, Rival::Testpmd),
        _ => (Cable::Vhost, Rival::Testpmd),
    };
    if let Some(why) = missing_of(rival.needs().iter()) {
        return Ok(Outcome::NotHere(why));
    }
    let program = our_program()?;
    let conditions = Conditions::watch(context.cores);
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || ours(context, &program, cable),
        || rival.turn(context, cable),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![
        "time in polls that found packets, for each packet; our switch by two rules".to_owned(),
        format!("ends: dpdk-testpmd on core {}, by {}", context.cores.producer, cable.scheme()),
        format!("memory of all programs of DPDK's: {}", {
            let _pages = Reservation::take(PAGES);
            Memory::now()
        }),
    ];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of("ns", Better::Lower, rounds, details)))
}

/// Per cent of a core that a switch takes of which nothing comes.
fn idle(context: &Context, program: &Path, poll: &str) -> Result<f64, String> {
    let mut stage = Stage::new()?;
    let ports: Vec<_> = (0..IDLE_PORTS)
        .map(|number| format!("--port 'vhost:{}'", stage.file(&number.to_string())))
        .collect();
    let (program, core) = (program.display(), context.cores.consumer);
    let time = if context.smoke { IDLE / 10 } else { IDLE };
    let command = format!(
        "taskset -c {core} '{program}' switch {} --poll {poll} --json --duration {}ms",
        ports.join(" "),
        time.as_millis()
    );
    stage.start("ours", &command)?;
    stage.wait(context, "ours", || stage.said("ours").contains("elapsed_s"))?;
    let said = stage.said("ours");
    let report = said.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    let report = report.ok_or_else(|| format!("no report: {said}"))?;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    let cpu = number(&report["cpu"]["user_s"]) + number(&report["cpu"]["system_s"]);
    Ok(100.0 * cpu / number(&report["elapsed_s"]))
}

/// `switch-idle-cpu`: adaptive as ours, busy as the peer.
pub(super) fn measure_idle(context: &Context) -> Result<Outcome, String> {
    let program = our_program()?;
    let conditions = Conditions::watch(context.cores);
    let rounds = alternate(
        context.process_runs(),
        &context.stop,
        || idle(context, &program, "adaptive"),
        || idle(context, &program, "busy"),
    )?;
    if context.smoke {
        return Ok(Outcome::Smoke);
    }
    let mut details = vec![format!(
        "burstline switch with {IDLE_PORTS} vhost ports without guests; user and system time of \
         all threads, over {} s",
        IDLE.as_secs()
    )];
    details.extend(conditions.report());
    Ok(Outcome::Measured(Compared::of("% of a core", Better::Lower, rounds, details)))
}

//! Switches between two interfaces: the kernel's bridge, and Open vSwitch.

use std::thread;
use std::time::Duration;

use burstline_testbed::{Program, Target};

use crate::contenders::Job;
use crate::contenders::live::{Live, Own, Running};
use crate::live::{Need, Road, pages_of};
use crate::pages::{PAGES_OF_A_START, Reservation};
use crate::programs::{Datapath, Memory, SwitchCores, bridge, first_line};
use crate::scenario::Work;

/// How long to wait after the last packet.
const DRAIN: Duration = Duration::from_millis(200);

/// The kernel's bridge.
pub(crate) struct Bridge;

impl Live for Bridge {
    fn name(&self) -> &'static str {
        "linux-bridge"
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Switch, Work::Latency, Work::Rfc2544]
    }

    fn needs(&self) -> &'static [Need] {
        bridge::NEEDS
    }

    fn is_program(&self) -> bool {
        false
    }

    fn version(&self) -> String {
        first_line("uname", &["-sr"])
    }

    fn is_switch(&self) -> bool {
        true
    }

    fn command(&self, _: &Job<'_>) -> String {
        bridge::COMMANDS.to_owned()
    }

    fn start<'a>(&'a self, _: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        bridge::start(&road.bed().far)?;
        Ok(Box::new(Passing { programs: Vec::new() }))
    }
}

/// Open vSwitch with its datapath in user space.
pub(crate) struct OpenVSwitch(pub(in crate::contenders) Datapath);

impl Live for OpenVSwitch {
    fn name(&self) -> &'static str {
        match self.0 {
            Datapath::Sockets => "ovs-userspace",
            Datapath::Dpdk => "ovs-dpdk",
        }
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Switch, Work::Latency, Work::Rfc2544]
    }

    fn needs(&self) -> &'static [Need] {
        self.0.needs()
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn is_switch(&self) -> bool {
        true
    }

    fn receiver(&self, _: Work) -> Target {
        match self.0 {
            Datapath::Sockets => Target::Stack,
            Datapath::Dpdk => Target::Program,
        }
    }

    fn command(&self, job: &Job<'_>) -> String {
        let cores = SwitchCores { main: job.places.generator, packets: &job.places.contender };
        self.0.commands("FOLDER", Memory::of_a_start(), cores).to_string()
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let folder = road.file("");
        let cores = SwitchCores { main: job.places.generator, packets: &job.places.contender };
        // Reserved until its memory is created, as for every contender.
        let _pages = Reservation::take(PAGES_OF_A_START);
        let (folder, memory) = (folder.trim_end_matches('/'), Memory::now());
        let programs = self.0.start(&road.bed().far, folder, memory, cores)?;
        Ok(Box::new(Passing { programs }))
    }
}

/// A running switch. Its packets are counted at the output interface.
struct Passing {
    programs: Vec<Program>,
}

impl Running for Passing {
    fn processes(&self) -> Vec<u32> {
        self.programs.iter().map(Program::process_id).collect()
    }

    fn end(self: Box<Self>, _: u64) -> Result<Own, String> {
        thread::sleep(DRAIN);
        let processes = self.processes();
        // The memory of a part of the kernel cannot be measured separately.
        let pages = (!processes.is_empty()).then(|| pages_of(processes));
        drop(self.programs);
        Ok(Own { pages, ..Own::default() })
    }
}

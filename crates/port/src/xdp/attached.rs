//! The program on its interface, shared by the ports of all its queues.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::bpf::{
    BpfError, Link, Map, MapKind, MapOptions, MappedArray, Program as Loaded, ProgramOptions,
    XdpMode, possible_cpus,
};
use burstline_sys::xdp::{Socket, XdpInterface};
use burstline_wire::filter::Program;

use super::program::{self, PASSED, Parts, SEEN, WORDS};
use super::settings::{Mode, Settings};
use crate::{PortError, TimestampSource, filter};

/// How long another program may take to go away.
const ATTACHED_PATIENCE: Duration = Duration::from_millis(500);
const ATTACHED_PAUSE: Duration = Duration::from_millis(10);

/// What the program has counted on one queue, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueCounts {
    pub(super) seen: u64,
    pub(super) passed: u64,
}

/// A queue's socket, for the program to redirect to.
pub(super) struct Slot<'a> {
    pub(super) queue: u32,
    pub(super) socket: BorrowedFd<'a>,
    pub(super) is_zero_copy: bool,
}

impl<'a> From<&'a Socket> for Slot<'a> {
    fn from(socket: &'a Socket) -> Self {
        let (queue, is_zero_copy) = (socket.queue(), socket.is_zero_copy());
        Self { queue, socket: socket.as_fd(), is_zero_copy }
    }
}

/// An attached program. Dropping it takes the program off.
pub(super) struct Attached {
    counters: MappedArray,
    sockets: Map,
    queues: u32,
    /// Those that have a socket.
    ours: Vec<u32>,
    cores: u32,
    mode: XdpMode,
    notes: Vec<String>,
    /// The link, and how many ports need it.
    link: Mutex<(Option<Link>, usize)>,
}

impl Attached {
    /// Loads the program, gives it the sockets, and attaches it: packets come from then on.
    pub(super) fn new(
        interface: &XdpInterface,
        sockets: &[Slot<'_>],
        settings: &Settings,
        only: Option<&Program>,
    ) -> Result<Self, PortError> {
        let queues = interface.queues;
        let (cores, counters, map) = tables(queues)?;
        for socket in sockets {
            map.set(socket.queue, socket.socket.as_raw_fd() as u32)?;
        }
        let only = only.map(|program| filter::for_kernel(program.instructions()));
        let parts = Parts {
            counters: &counters,
            sockets: &map,
            queues,
            cores,
            has_time: settings.timestamps == TimestampSource::Program,
            has_fragments: true,
            only: only.as_deref(),
        };
        let (link, mode, mut notes) = attach(parts, interface, settings.mode)?;
        if let Some(true) = sockets.first().map(|socket| socket.is_zero_copy) {
            notes.push("zero-copy: the device writes into Burstline's frames".to_owned());
        }
        let link = Mutex::new((Some(link), sockets.len()));
        let ours = sockets.iter().map(|socket| socket.queue).collect();
        Ok(Self { counters, sockets: map, queues, ours, cores, mode, notes, link })
    }

    /// Does all that [`new`](Self::new) does but attaching: the interface does not notice.
    pub(super) fn rehearse(interface: &XdpInterface, settings: &Settings) -> Result<(), PortError> {
        let queues = interface.queues;
        let (cores, counters, map) = tables(queues)?;
        let parts = Parts {
            counters: &counters,
            sockets: &map,
            queues,
            cores,
            has_time: settings.timestamps == TimestampSource::Program,
            has_fragments: true,
            only: None,
        };
        Ok(load(parts).map(drop)?)
    }

    /// Where it runs.
    pub(super) fn mode(&self) -> XdpMode {
        self.mode
    }

    /// What is to be told of how it was attached.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the program has counted on a queue. Cost: two loads a core.
    pub(super) fn counts(&self, queue: u32) -> QueueCounts {
        let sum = |word: usize| {
            let lines = (0..self.cores).map(|core| (core * self.queues + queue) * WORDS);
            lines.map(|line| self.counters.word(0, line as usize + word)).sum()
        };
        // In the reverse of the program's order: what was passed was seen before.
        let passed = sum(PASSED);
        QueueCounts { seen: sum(SEEN), passed }
    }

    /// Packets that came by queues without a port of ours, and went to the host.
    pub(super) fn seen_elsewhere(&self) -> u64 {
        let others = (0..self.queues).filter(|queue| !self.ours.contains(queue));
        others.map(|queue| self.counts(queue).seen).sum()
    }

    /// A queue's packets go to the host from now on. The last queue takes the program off.
    pub(super) fn leave(&self, queue: u32) {
        // It fails where there is nothing to empty, or, before Linux 5.19, for want of privilege:
        // then packets come until the program is off.
        let _ = self.sockets.delete(&queue.to_ne_bytes());
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.1 = link.1.saturating_sub(1);
        if link.1 == 0 {
            link.0 = None;
        }
    }
}

/// Counters and sockets of so many queues, and on how many cores.
fn tables(queues: u32) -> Result<(u32, MappedArray, Map), PortError> {
    let cores = possible_cpus().map_err(|error| PortError::Io {
        action: "read",
        path: "/sys/devices/system/cpu/possible".into(),
        error,
    })?;
    let counters = MappedArray::create("bl_counters", queues * cores * WORDS, 1)?;
    let sockets = Map::create(&MapOptions {
        name: "bl_sockets",
        kind: MapKind::Sockets,
        key_bytes: 4,
        value_bytes: 4,
        entries: queues,
        flags: 0,
    })?;
    Ok((cores, counters, sockets))
}

fn load(parts: Parts<'_>) -> Result<Loaded, BpfError> {
    let load = |has_fragments| {
        let code = program::assemble(&Parts { has_fragments, ..parts })?;
        let name = "burstline";
        Loaded::load(&code, &ProgramOptions { name, has_fragments, ..ProgramOptions::default() })
    };
    // Kernels before 5.18 know no packets of several buffers. The first error tells more.
    load(true).or_else(|error| load(false).map_err(|_| error))
}

/// Attaches in the mode asked for, and says in which, and what else was tried.
fn attach(
    parts: Parts<'_>,
    interface: &XdpInterface,
    mode: Mode,
) -> Result<(Link, XdpMode, Vec<String>), PortError> {
    let program = load(parts)?;
    let index = interface.link.index;
    let on = |mode| attach_patiently(&program, index, mode).map(|link| (link, mode));
    let mut notes = Vec::new();
    let (link, mode) = match mode {
        Mode::Native => on(XdpMode::Native)?,
        Mode::Generic => on(XdpMode::Generic)?,
        Mode::Auto => match on(XdpMode::Native) {
            Ok(link) => link,
            Err(error @ (BpfError::NoNativeMode { .. } | BpfError::Unfit { .. })) => {
                notes.push(format!("generic XDP, behind the driver: {error}"));
                on(XdpMode::Generic)?
            }
            Err(error) => return Err(error.into()),
        },
    };
    Ok((link, mode, notes))
}

/// As [`Link::attach_xdp`], and waits a little for the end of a program before us: a process that
/// was started meanwhile may still have its descriptor.
fn attach_patiently(program: &Loaded, index: u32, mode: XdpMode) -> Result<Link, BpfError> {
    let patience = Instant::now() + ATTACHED_PATIENCE;
    loop {
        match Link::attach_xdp(program, index, mode) {
            Err(BpfError::Attached { .. }) if Instant::now() < patience => {
                thread::sleep(ATTACHED_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

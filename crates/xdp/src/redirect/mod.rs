//! The program that sends an interface's packets to sockets, one for all queues.
//!
//! ```text
//! packet --> program: seen += 1 --> `only`? --> the queue's slot in `sockets` --> socket
//!                                    | no          | empty
//!                                    '-------------'--> passed += 1 --> the host
//! ```
//!
//! Who owns what: [`Redirect`] has the link, the map of sockets and the counters. The program is on
//! the interface until the last queue leaves, or the value is dropped. Counters stay readable.

mod program;

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use burstline_sys::filter::Instruction;

use crate::bpf::{
    BpfError, Link, Map, MapKind, MapOptions, MappedArray, Program, ProgramOptions, XdpMode,
    possible_cpus,
};
use crate::{Socket, XdpInterface};
use program::{PASSED, Parts, SEEN, WORDS};

/// What to attach.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedirectOptions<'a> {
    /// Where it runs; `Auto` tries the driver first, and says why it is not there.
    pub mode: XdpMode,
    /// Whether each packet that is taken gets the time in front of it: 8 bytes.
    pub has_time: bool,
    /// Which packets to take; `None` for all. Others go to the host.
    pub only: Option<&'a [Instruction]>,
}

/// How long another program may take to go away.
const ATTACHED_PATIENCE: Duration = Duration::from_millis(500);
const ATTACHED_PAUSE: Duration = Duration::from_millis(10);

/// What the program has counted on one queue, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that the program was run for.
    pub seen: u64,
    /// Those of them that it left to the host.
    pub passed: u64,
}

/// A queue's socket, for the program to redirect to.
pub struct QueueSlot<'a> {
    /// The queue.
    pub queue: u32,
    /// Its XDP socket.
    pub socket: BorrowedFd<'a>,
    /// Whether the device writes into our memory.
    pub is_zero_copy: bool,
}

impl<'a> From<&'a Socket> for QueueSlot<'a> {
    fn from(socket: &'a Socket) -> Self {
        let (queue, is_zero_copy) = (socket.queue(), socket.is_zero_copy());
        Self { queue, socket: socket.as_fd(), is_zero_copy }
    }
}

/// An attached program. Dropping it takes the program off.
pub struct Redirect {
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

impl Redirect {
    /// Loads the program, gives it the sockets, and attaches it: packets come from then on.
    ///
    /// # Errors
    /// [`BpfError`], each variant as it says; also where `only` is too long, or cannot run here.
    pub fn new(
        interface: &XdpInterface,
        sockets: &[QueueSlot<'_>],
        options: RedirectOptions<'_>,
    ) -> Result<Self, BpfError> {
        let queues = interface.queues;
        let Tables { cores, counters, sockets: map } = Tables::create(queues)?;
        for socket in sockets {
            map.set(socket.queue, socket.socket.as_raw_fd() as u32)?;
        }
        let parts = Parts {
            counters: &counters,
            sockets: &map,
            queues,
            cores,
            has_time: options.has_time,
            has_fragments: true,
            only: options.only,
        };
        let Placed { link, mode, mut notes } = attach(parts, interface, options.mode)?;
        if let Some(true) = sockets.first().map(|socket| socket.is_zero_copy) {
            notes.push("zero-copy: the device writes into Burstline's frames".to_owned());
        }
        let link = Mutex::new((Some(link), sockets.len()));
        let ours = sockets.iter().map(|socket| socket.queue).collect();
        Ok(Self { counters, sockets: map, queues, ours, cores, mode, notes, link })
    }

    /// Does all that [`new`](Self::new) does but attaching: the interface does not notice.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn rehearse(
        interface: &XdpInterface,
        options: RedirectOptions<'_>,
    ) -> Result<(), BpfError> {
        let queues = interface.queues;
        let Tables { cores, counters, sockets } = Tables::create(queues)?;
        let parts = Parts {
            counters: &counters,
            sockets: &sockets,
            queues,
            cores,
            has_time: options.has_time,
            has_fragments: true,
            only: options.only,
        };
        load(parts).map(drop)
    }

    /// Where it runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// A note on how it was attached.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the program has counted on a queue. Cost: two loads a core.
    pub fn counts(&self, queue: u32) -> QueueCounts {
        let sum = |word: usize| {
            let lines = (0..self.cores).map(|core| (core * self.queues + queue) * WORDS);
            lines.map(|line| self.counters.word(0, line as usize + word)).sum()
        };
        // In the reverse of the program's order: what was passed was seen before.
        let passed = sum(PASSED);
        QueueCounts { seen: sum(SEEN), passed }
    }

    /// Packets that came by queues without a port of ours, and went to the host.
    pub fn seen_elsewhere(&self) -> u64 {
        let others = (0..self.queues).filter(|queue| !self.ours.contains(queue));
        others.map(|queue| self.counts(queue).seen).sum()
    }

    /// A queue's packets go to the host from now on. The last queue takes the program off.
    pub fn leave(&self, queue: u32) {
        // It fails where there is nothing to empty, or, before Linux 5.19, without the privilege:
        // then packets come until the program is off.
        let _ = self.sockets.delete(&queue.to_ne_bytes());
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.1 = link.1.saturating_sub(1);
        if link.1 == 0 {
            link.0 = None;
        }
    }
}

/// What the program works with: counters of each core and queue, and the queues' sockets.
struct Tables {
    cores: u32,
    counters: MappedArray,
    sockets: Map,
}

impl Tables {
    fn create(queues: u32) -> Result<Self, BpfError> {
        let cores = possible_cpus()?;
        let counters = MappedArray::create("bl_counters", queues * cores * WORDS, 1)?;
        let sockets = Map::create(&MapOptions {
            name: "bl_sockets",
            kind: MapKind::Sockets,
            key_bytes: 4,
            value_bytes: 4,
            entries: queues,
            flags: 0,
        })?;
        Ok(Self { cores, counters, sockets })
    }
}

fn load(parts: Parts<'_>) -> Result<Program, BpfError> {
    let load = |has_fragments| {
        let code = program::assemble(&Parts { has_fragments, ..parts })?;
        let name = "burstline";
        Program::load(&code, &ProgramOptions { name, has_fragments, ..ProgramOptions::default() })
    };
    // Kernels before 5.18 know no packets of several buffers. The first error tells more.
    load(true).or_else(|error| load(false).map_err(|_| error))
}

/// A program that is on its interface.
struct Placed {
    link: Link,
    mode: XdpMode,
    notes: Vec<String>,
}

/// Attaches in the mode asked for, and says in which, and what else was tried.
fn attach(parts: Parts<'_>, interface: &XdpInterface, wanted: XdpMode) -> Result<Placed, BpfError> {
    let program = load(parts)?;
    let on = |mode| attach_patiently(&program, interface.link.index, mode);
    let placed = |link, mode, notes| Placed { link, mode, notes };
    if wanted != XdpMode::Auto {
        return Ok(placed(on(wanted)?, wanted, Vec::new()));
    }
    match on(XdpMode::Native) {
        Ok(link) => Ok(placed(link, XdpMode::Native, Vec::new())),
        Err(error @ (BpfError::NoNativeMode { .. } | BpfError::Unfit { .. })) => {
            let note = format!("generic XDP, behind the driver: {error}");
            Ok(placed(on(XdpMode::Generic)?, XdpMode::Generic, vec![note]))
        }
        Err(error) => Err(error),
    }
}

/// As [`Link::attach_xdp`], and waits a little for the end of a program before us: a process that
/// was started meanwhile may still have its descriptor.
fn attach_patiently(program: &Program, index: u32, mode: XdpMode) -> Result<Link, BpfError> {
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

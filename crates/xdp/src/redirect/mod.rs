//! The program that redirects an interface's packets to sockets, one program for all queues.
//!
//! ```text
//! packet --> program: seen += 1 --> `only`? --> the queue's slot in `sockets` --> socket
//!                                    | no          | empty
//!                           passed += 1           unplaced += 1
//!                                    '-------------'----> the host
//! ```
//!
//! The program also runs on queues that the interface gets later. These have no socket, and share
//! the counters behind those of the last queue.
//!
//! Ownership: [`Redirect`] has the link, the map of sockets and the counters. The program is
//! attached until the last queue leaves, or the value is dropped. Counters stay readable.

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
use program::{PASSED, Parts, SEEN, UNPLACED, WORDS};

/// Options of the program.
#[derive(Clone, Copy, Debug, Default)]
pub struct RedirectOptions<'a> {
    /// The mode; `Auto` tries the driver first, and reports why that failed.
    pub mode: XdpMode,
    /// Whether each redirected packet gets an 8-byte timestamp in front of it.
    pub has_time: bool,
    /// The packets to redirect; `None` for all. The others go to the host.
    pub only: Option<&'a [Instruction]>,
}

/// How long to wait for another program to be detached.
const ATTACHED_PATIENCE: Duration = Duration::from_millis(500);
const ATTACHED_PAUSE: Duration = Duration::from_millis(10);

/// The program's counters of one queue, over all cores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that the program saw.
    pub seen: u64,
    /// Packets of `seen` that it passed to the host.
    pub passed: u64,
}

/// The program's counters of the queues that the interface got after it was attached, all together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddedCounts {
    /// Packets that the filter `only` left to the host.
    pub passed: u64,
    /// Packets that were wanted, but their queue has no socket. They went to the host, too.
    pub unplaced: u64,
}

/// A queue's socket, for the program to redirect to.
pub struct QueueSlot<'a> {
    /// The queue.
    pub queue: u32,
    /// Its XDP socket.
    pub socket: BorrowedFd<'a>,
    /// Whether the device writes into our memory directly.
    pub is_zero_copy: bool,
}

impl<'a> From<&'a Socket> for QueueSlot<'a> {
    fn from(socket: &'a Socket) -> Self {
        let (queue, is_zero_copy) = (socket.queue(), socket.is_zero_copy());
        Self { queue, socket: socket.as_fd(), is_zero_copy }
    }
}

/// An attached program. It is detached on drop.
pub struct Redirect {
    counters: MappedArray,
    sockets: Map,
    queues: u32,
    /// Queues that have a socket.
    ours: Vec<u32>,
    cores: u32,
    mode: XdpMode,
    notes: Vec<String>,
    /// The link, and the number of ports that need it.
    link: Mutex<(Option<Link>, usize)>,
}

impl Redirect {
    /// Loads the program, gives it the sockets, and attaches it: packets arrive from then on.
    ///
    /// # Errors
    /// See [`BpfError`]; also if `only` is too long, or not possible here.
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

    /// Does everything that [`new`](Self::new) does except attaching: no effect on the interface.
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

    /// The mode in which it runs.
    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    /// Notes on how it was attached.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the program's counters of a queue. Cost: two loads per core.
    pub fn counts(&self, queue: u32) -> QueueCounts {
        // In reverse order of the program: every passed packet was seen before.
        let passed = self.sum(queue, PASSED) + self.sum(queue, UNPLACED);
        QueueCounts { seen: self.sum(queue, SEEN), passed }
    }

    /// Returns the program's counters of the queues that were added after it was attached. Cost:
    /// two loads per core.
    pub fn added(&self) -> AddedCounts {
        let [passed, unplaced] = [PASSED, UNPLACED].map(|word| self.sum(self.queues, word));
        AddedCounts { passed, unplaced }
    }

    /// Returns the sum of a counter over all cores. The line behind the last queue's is that of
    /// the added queues.
    fn sum(&self, line: u32, word: usize) -> u64 {
        let lines = (0..self.cores).map(|core| (core * (self.queues + 1) + line) * WORDS);
        lines.map(|line| self.counters.word(0, line as usize + word)).sum()
    }

    /// Packets on queues without a port of ours, which went to the host. Those on queues that were
    /// added later are in [`added`](Self::added).
    pub fn seen_elsewhere(&self) -> u64 {
        let others = (0..self.queues).filter(|queue| !self.ours.contains(queue));
        others.map(|queue| self.counts(queue).seen).sum()
    }

    /// Passes a queue's packets to the host from now on. The last queue detaches the program.
    pub fn leave(&self, queue: u32) {
        // It fails if there is nothing to delete, or without the privilege before Linux 5.19. Then
        // packets arrive until the program is detached.
        let _ = self.sockets.delete(&queue.to_ne_bytes());
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        link.1 = link.1.saturating_sub(1);
        if link.1 == 0 {
            link.0 = None;
        }
    }
}

/// The program's maps: counters of each core and queue, with one more for added queues, and the
/// queues' sockets.
struct Tables {
    cores: u32,
    counters: MappedArray,
    sockets: Map,
}

impl Tables {
    fn create(queues: u32) -> Result<Self, BpfError> {
        let cores = possible_cpus()?;
        let counters = MappedArray::create("bl_counters", (queues + 1) * cores * WORDS, 1)?;
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
    // Kernels before 5.18 do not support packets of several buffers. The first error says more.
    load(true).or_else(|error| load(false).map_err(|_| error))
}

/// An attached program.
struct Placed {
    link: Link,
    mode: XdpMode,
    notes: Vec<String>,
}

/// Attaches in the requested mode. Returns the mode used, and notes on failed attempts.
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

/// Like [`Link::attach_xdp`], but waits briefly for a previous program to be detached: a process
/// started meanwhile may still have its descriptor.
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

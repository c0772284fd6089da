//! Opens a passage: one memory, one or two sockets, one direction or both.

use std::os::fd::AsFd;
use std::sync::Arc;

use super::owners::Owners;
use super::{Outgoing, Passage};
use crate::end::QueueEnd;
use crate::frames::{FrameMemory, FrameShape};
use crate::ring::Ring;
use crate::setup::{Binding, RING_MIN, bind, bind_shared, is_shape};
use crate::{Copying, XdpError};
use burstline_sys::limits;
use burstline_sys::memory::{NodeId, PageChoice};

/// Options of a passage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassageOptions {
    /// Bytes of a frame: 2048 or 4096. The kernel drops packets longer than a frame less 256 bytes.
    pub frame_bytes: u32,
    /// Frames of each direction, a power of two from 128. All fit into the fill and the rx ring,
    /// half of them into the tx and the completion ring.
    pub frames: u32,
    /// Copy or zero-copy, at both ends: `Auto` is zero-copy if both drivers support it.
    pub copying: Copying,
    /// Whether to make a system call only when the kernel requests it, instead of at every poll.
    pub needs_wakeup: bool,
    /// Pages of the memory.
    pub pages: PageChoice,
    /// Its NUMA node.
    pub node: Option<NodeId>,
}

impl Default for PassageOptions {
    /// 4 MiB of frames for each direction: a preempted core may be away for 1 ms at 2 Mpps.
    fn default() -> Self {
        Self {
            frame_bytes: 2048,
            frames: 2048,
            copying: Copying::Auto,
            needs_wakeup: true,
            pages: PageChoice::Auto,
            node: None,
        }
    }
}

#[derive(Clone, Copy)]
struct Direction {
    /// Indices of the ends.
    entry: usize,
    exit: usize,
}

impl Passage {
    /// Opens the direction from queue `ends[0]` to queue `ends[1]`, and with `is_both` also the
    /// reverse. Each end is a queue of an interface of the calling thread's network namespace. If
    /// both ends are equal, packets received on the queue leave on the same queue.
    ///
    /// All frames are in the fill rings; packets arrive once an XDP program redirects them to
    /// [`entry`](Self::entry). A busy queue is retried for two seconds.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn open(
        ends: [(&str, u32); 2],
        is_both: bool,
        options: &PassageOptions,
    ) -> Result<Vec<Self>, XdpError> {
        let opened = Self::open_as(ends, is_both, options);
        match (opened, options.copying) {
            // The first device supports it, the second does not.
            (Err(XdpError::NoZeroCopy { .. }), Copying::Auto) => {
                let options = PassageOptions { copying: Copying::Copy, ..options.clone() };
                Self::open_as(ends, is_both, &options)
            }
            (opened, _) => opened,
        }
    }

    fn open_as(
        ends: [(&str, u32); 2],
        is_both: bool,
        options: &PassageOptions,
    ) -> Result<Vec<Self>, XdpError> {
        let is_one = ends[0] == ends[1];
        let directions: &[Direction] = match (is_one, is_both) {
            (true, _) => &[Direction { entry: 0, exit: 0 }],
            (false, false) => &[Direction { entry: 0, exit: 1 }],
            (false, true) => &[Direction { entry: 0, exit: 1 }, Direction { entry: 1, exit: 0 }],
        };
        let frames = options.frames.saturating_mul(directions.len() as u32);
        let (frame_bytes, entries) = (options.frame_bytes, options.frames / 2);
        if !is_shape(frames, frame_bytes, 0) || entries < RING_MIN {
            return Err(XdpError::BadShape { frames, frame_bytes, entries });
        }
        let (pages, node) = (options.pages, options.node);
        let shape = FrameShape { frames, frame_bytes, tail_bytes: 0, pages, node };
        let memory = Arc::new(FrameMemory::create(ends[0].0, &shape)?);
        // The kernel counts the frames of all sockets. If the limit is too low, registration fails.
        let _ = limits::allow_locked_memory(memory.frame_area() as u64);
        let count = if is_one { 1 } else { 2 };
        let open = |&(interface, queue): &(&str, u32)| QueueEnd::new(interface, queue);
        let mut ends = ends[..count].iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let mut rings = Vec::new();
        // SAFETY: a `Passage` drops its rings and sockets before the memory, and so do we on
        // errors, as `memory` was made first. Frames are accessed only while they are ours (P1).
        unsafe { memory.register(ends[0].socket(), &ends[0].interface().link.name) }?;
        for &direction in directions {
            ask(&ends, direction, options)?;
        }
        for (end, queue) in ends.iter().enumerate() {
            spare(queue, end, directions)?;
        }
        for (number, &direction) in directions.iter().enumerate() {
            let first = number as u32 * options.frames;
            rings.push(Rings::map(&ends, direction, options)?.stocked(&memory, first, options));
        }
        bind_all(&mut ends, options)?;
        let ends: Vec<_> = ends.into_iter().map(Arc::new).collect();
        let passages = directions.iter().zip(rings).enumerate();
        Ok(passages
            .map(|(number, (direction, mut rings))| {
                rings.out.begin();
                Self {
                    rx: rings.rx,
                    fill: rings.fill,
                    out: rings.out,
                    entry: Arc::clone(&ends[direction.entry]),
                    exit: Arc::clone(&ends[direction.exit]),
                    memory: Arc::clone(&memory),
                    frames: options.frames,
                    ours: Vec::with_capacity(options.frames as usize),
                    owners: Owners::new(number as u32 * options.frames, options.frames),
                    is_always_told: !options.needs_wakeup,
                }
            })
            .collect())
    }
}

struct Rings {
    rx: Ring<libc::xdp_desc>,
    fill: Ring<u64>,
    out: Outgoing,
}

impl Rings {
    fn map(
        ends: &[QueueEnd],
        direction: Direction,
        options: &PassageOptions,
    ) -> Result<Self, XdpError> {
        let (entry, exit) = (&ends[direction.entry], &ends[direction.exit]);
        let map = || {
            let (socket, frames) = (entry.socket(), options.frames);
            let (at, fd) = (socket.offsets()?, socket.as_fd());
            let fill = Ring::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, at.fr, frames)?;
            let rx = Ring::map(fd, libc::XDP_PGOFF_RX_RING as u64, at.rx, frames)?;
            let out = Outgoing::map(exit.socket(), frames / 2, options.needs_wakeup)?;
            Ok(Self { rx, fill, out })
        };
        map().map_err(XdpError::system(&entry.interface().link.name, "mmap of XDP rings"))
    }

    /// Puts all frames of the direction into the fill ring.
    fn stocked(mut self, memory: &FrameMemory, first: u32, options: &PassageOptions) -> Self {
        let frames = options.frames;
        assert_eq!(self.fill.room(frames), frames, "a new ring is empty");
        (first..first + frames).for_each(|frame| self.fill.push(memory.address(frame)));
        self.fill.publish();
        self
    }
}

/// Requests the rings of a direction.
fn ask(ends: &[QueueEnd], direction: Direction, options: &PassageOptions) -> Result<(), XdpError> {
    let (entry, exit) = (&ends[direction.entry], &ends[direction.exit]);
    let set = || {
        entry.socket().set(libc::XDP_UMEM_FILL_RING, &options.frames)?;
        entry.socket().set(libc::XDP_RX_RING, &options.frames)?;
        Outgoing::ask(exit.socket(), options.frames / 2)
    };
    set().map_err(XdpError::system(&entry.interface().link.name, "setting up XDP rings"))
}

/// Adds the fill ring and completion ring that the kernel requires even if they are unused.
fn spare(end: &QueueEnd, number: usize, directions: &[Direction]) -> Result<(), XdpError> {
    let set = || {
        if directions.iter().all(|direction| direction.entry != number) {
            end.socket().set(libc::XDP_UMEM_FILL_RING, &RING_MIN)?;
        }
        if directions.iter().all(|direction| direction.exit != number) {
            end.socket().set(libc::XDP_UMEM_COMPLETION_RING, &RING_MIN)?;
        }
        Ok(())
    };
    set().map_err(XdpError::system(&end.interface().link.name, "setting up XDP rings"))
}

/// Binds both queues: the first with the memory, the second with the first one's memory.
fn bind_all(ends: &mut [QueueEnd], options: &PassageOptions) -> Result<(), XdpError> {
    let &PassageOptions { copying, needs_wakeup, .. } = options;
    let binding = Binding { copying, needs_wakeup, is_multi_buffer: false };
    let first = &ends[0];
    bind(first, &binding)?;
    if let Some(second) = ends.get(1) {
        bind_shared(second, first.as_fd())?;
    }
    ends.iter_mut().for_each(QueueEnd::begin);
    Ok(())
}

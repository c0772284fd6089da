//! The receiving socket: it is bound to a queue, polled, and queried for losses.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use burstline_log::{FrameSource, Frames};
use libc::{c_int, xdp_desc};

use super::end::{QueueEnd, SocketStatistics};
use super::fill::RingsNow;
use super::interface::XdpInterface;
use super::ring::Ring;
use super::setup::{Binding, RING_MIN, bind, is_ring, is_shape};
use super::system::RawSocket;
use super::umem::{GATHER_BYTES, Umem};
use super::{SocketOptions, XdpError};
use burstline_sys::interface::LinkState;
use burstline_sys::limits;
use burstline_sys::raw_socket::set_with_rights;

/// Options of level `SOL_SOCKET`. Source: include/uapi/asm-generic/socket.h.
const SO_PREFER_BUSY_POLL: c_int = 69;
const SO_BUSY_POLL_BUDGET: c_int = 70;

/// How long the kernel's busy loop may poll for packets in one call, in microseconds.
const BUSY_POLL_US: c_int = 20;

/// A packet taken from the rx ring, and held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Offset of its first byte in the UMEM.
    pub offset: u32,
    /// Its bytes that are there.
    pub length: u32,
    /// Its original length: more, if it is longer than the gather area takes.
    pub original_length: u32,
    /// Whether it came in several frames and was copied into one piece.
    pub is_gathered: bool,
}

/// Room in front of a gathered packet for the XDP program's metadata; a multiple of 16.
const WORD_ROOM: usize = 16;

/// A packet in several frames, as far as it has arrived.
#[derive(Clone, Copy, Default)]
struct Gathering {
    at: usize,
    length: usize,
    original_length: u32,
    is_open: bool,
}

/// An XDP socket with its UMEM and its rings.
pub struct Socket {
    // Before the UMEM: the rings and the socket are closed before its memory is freed.
    fill: Ring<u64>,
    rx: Ring<xdp_desc>,
    end: QueueEnd,
    umem: Umem,
    /// Held frames, to be returned to the fill ring.
    taken: Vec<u32>,
    gathering: Gathering,
    is_multi_buffer: bool,
    /// Whether to wake the kernel every time, because it does not say when it needs that.
    is_always_told: bool,
}

// SAFETY: F4: `Holder::hold` marks each frame as held before it is shown.
unsafe impl FrameSource for Socket {
    type Frames = Umem;

    #[inline]
    fn frames(&self) -> &Umem {
        &self.umem
    }

    /// Takes only packets that were there at the last reload, in one frame each. Also returns 0 if
    /// the next one is of another kind, which is for [`take`](Self::take).
    ///
    /// Cost: no system call; some 20 instructions a packet.
    #[inline]
    fn take_plain(&mut self, most: usize, longest: u32, mut show: impl FnMut(u32, u32)) -> usize {
        if self.gathering.is_open {
            return 0;
        }
        let known = (self.rx.known() as usize).min(most) as u32;
        let mut frames = self.umem.holder();
        let mut taken = 0;
        while taken < known {
            let desc = self.rx.next();
            if desc.options & libc::XDP_PKT_CONTD != 0 || desc.len > longest {
                break;
            }
            // `take` reports an invalid descriptor.
            let Some(frame) = frames.hold(desc.addr, desc.len) else { break };
            // Before `show`, which may panic: an entry must be taken only once.
            self.rx.skip();
            self.taken.push(frame);
            show(desc.addr as u32, desc.len);
            taken += 1;
        }
        taken as usize
    }
}

impl Socket {
    /// Opens a socket on queue `queue` of an interface of the calling thread's network namespace,
    /// with all its receive frames in the fill ring. A busy queue is retried for two seconds.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn open(interface: &str, queue: u32, options: &SocketOptions) -> Result<Self, XdpError> {
        let mut this = Self::unbound(interface, queue, options)?;
        let &SocketOptions { copying, needs_wakeup, is_multi_buffer, .. } = options;
        let binding = Binding { copying, needs_wakeup, is_multi_buffer };
        this.is_multi_buffer = bind(&this.end, &binding)?;
        this.end.begin();
        this.prefer_busy_poll(options.busy_poll_packets)?;
        Ok(this)
    }

    /// Does everything that [`open`](Self::open) does except binding: no effect on the interface.
    ///
    /// # Errors
    /// See [`XdpError`].
    pub fn rehearse(interface: &str, queue: u32, options: &SocketOptions) -> Result<(), XdpError> {
        Self::unbound(interface, queue, options).map(drop)
    }

    fn unbound(interface: &str, queue: u32, options: &SocketOptions) -> Result<Self, XdpError> {
        check_shape(options)?;
        let end = QueueEnd::new(interface, queue)?;
        let umem = Umem::create(interface, options)?;
        // The kernel counts the frames of all sockets. If the limit is too low, registration fails.
        let _ = limits::allow_locked_memory(umem.extent() as u64);
        // SAFETY: the fields of `Socket` are dropped in an order that frees the memory last. On an
        // error before a `Socket` exists the kernel has no frame. Frames are accessed only while
        // held (X1).
        unsafe { umem.memory().register(end.socket(), interface) }?;
        let fail = |call| XdpError::system(interface, call);
        set_rings(end.socket(), options).map_err(fail("setting up XDP rings"))?;
        let (fill, rx) = map_rings(end.socket(), options).map_err(fail("mmap of XDP rings"))?;
        let mut this = Self {
            fill,
            rx,
            end,
            umem,
            taken: Vec::with_capacity(options.frames as usize),
            gathering: Gathering::default(),
            is_multi_buffer: false,
            is_always_told: !options.needs_wakeup || options.busy_poll_packets.is_some(),
        };
        this.stock();
        Ok(this)
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &XdpInterface {
        self.end.interface()
    }

    /// The queue.
    pub fn queue(&self) -> u32 {
        self.end.queue()
    }

    /// Whether the device writes into the UMEM directly.
    pub fn is_zero_copy(&self) -> bool {
        self.end.is_zero_copy()
    }

    /// Whether packets may span several frames: then none is lost for its length.
    pub fn is_multi_buffer(&self) -> bool {
        self.is_multi_buffer
    }

    /// The memory of the packets.
    #[inline]
    pub fn umem(&self) -> &Umem {
        &self.umem
    }

    /// Takes the next packet. `None` if there is none now, or if the gather area is full and
    /// [`release`](Self::release) has to come first.
    ///
    /// Cost: no system call.
    ///
    /// # Errors
    /// [`XdpError::BadDescriptor`]: the kernel's descriptor is invalid, and nothing more is taken.
    #[inline(always)] // otherwise a packet's few words go through memory
    pub fn take(&mut self) -> Result<Option<Received>, XdpError> {
        loop {
            // A packet that has begun has its space reserved. It must be completed, or it blocks
            // the ring forever.
            let is_full = !self.gathering.is_open && self.gathering.at > GATHER_BYTES / 2;
            if is_full || self.rx.filled(1) == 0 {
                return Ok(None);
            }
            let desc = self.rx.pop();
            let frame = self.umem.frame_of(desc.addr, desc.len);
            let Some(frame) = frame.filter(|&frame| self.umem.hold(frame)) else {
                return Err(self.end.bad_descriptor(desc.addr, desc.len));
            };
            self.taken.push(frame);
            let (offset, length) = (desc.addr as u32, desc.len);
            if desc.options & libc::XDP_PKT_CONTD == 0 && !self.gathering.is_open {
                let original_length = length;
                return Ok(Some(Received { offset, length, original_length, is_gathered: false }));
            }
            if let Some(packet) = self.gather(offset, length, desc.options) {
                return Ok(Some(packet));
            }
        }
    }

    /// Takes the 8 bytes in front of a packet that was just taken, where the XDP program may have
    /// written. Reading clears them.
    #[inline]
    pub fn take_word_before(&mut self, packet: &Received) -> u64 {
        self.umem.take_word_before(packet.offset)
    }

    /// Returns all taken packets to the kernel.
    #[inline]
    pub fn release(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        // The ring has an entry for every frame. But the kernel reports that it has read entries
        // only after it has shown us packets in their frames. The remaining frames stay held until
        // the next time.
        let room = self.fill.room(self.taken.len() as u32) as usize;
        for frame in self.taken.drain(..room) {
            self.umem.let_go(frame);
            self.fill.push(self.umem.memory().address(frame));
        }
        self.rx.give_back();
        self.fill.publish();
        if !self.gathering.is_open {
            self.gathering = Gathering::default();
        }
    }

    /// Wakes the kernel to fill frames, if it needs a wakeup. Call it when there were no packets.
    /// Cost: one system call or none.
    #[inline]
    pub fn wake_kernel(&self) {
        if self.is_always_told || self.fill.needs_wakeup() {
            // Errors show in `link_state`.
            let _ = self.end.socket().kick_receive();
        }
    }

    /// Packets in the rx ring that are not taken yet: our own count, for ledgers. Exact if no
    /// packet arrives meanwhile. Cost: a read of each entry.
    pub fn in_ring(&self) -> u64 {
        let is_last = |desc: &xdp_desc| desc.options & libc::XDP_PKT_CONTD == 0;
        self.rx.peek().filter(is_last).count() as u64
    }

    /// Fill levels of its rings. Cost: two loads.
    pub fn rings(&self) -> RingsNow {
        RingsNow::of(&self.rx, &self.fill, self.umem.memory().frames())
    }

    /// Reads the kernel's counters. Cost: one system call.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn statistics(&self) -> io::Result<SocketStatistics> {
        self.end.statistics()
    }

    /// Queries the state of the interface. Cost: up to six system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        self.end.link_state()
    }

    /// Puts all frames into the fill ring.
    fn stock(&mut self) {
        let frames = self.umem.memory().frames();
        assert_eq!(self.fill.room(frames), frames, "a new ring is empty");
        (0..frames).for_each(|frame| self.fill.push(self.umem.memory().address(frame)));
        self.fill.publish();
    }

    fn prefer_busy_poll(&self, packets: Option<u16>) -> Result<(), XdpError> {
        let Some(packets) = packets else { return Ok(()) };
        let fail = || XdpError::system(&self.interface().link.name, "asking for busy polling");
        for (option, value) in [
            (SO_PREFER_BUSY_POLL, 1),
            (libc::SO_BUSY_POLL, BUSY_POLL_US),
            (SO_BUSY_POLL_BUDGET, c_int::from(packets)),
        ] {
            set_with_rights(self.end.socket(), option, value).map_err(fail())?;
        }
        Ok(())
    }

    /// Adds a piece of a packet of several frames. Returns the packet once it is complete.
    #[cold]
    #[inline(never)]
    fn gather(&mut self, offset: u32, length: u32, options: u32) -> Option<Received> {
        let now = &mut self.gathering;
        if !now.is_open {
            let at = now.at + WORD_ROOM;
            self.umem.move_word_before(offset, (self.umem.frame_area() + at) as u32);
            *now = Gathering { at, length: 0, original_length: 0, is_open: true };
        }
        let fits = length.min((GATHER_BYTES / 2 - WORD_ROOM - now.length) as u32);
        if self.umem.gather(offset, fits, now.at + now.length) {
            now.length += fits as usize;
        }
        now.original_length += length;
        if options & libc::XDP_PKT_CONTD != 0 {
            return None;
        }
        let packet = Received {
            offset: (self.umem.frame_area() + now.at) as u32,
            length: now.length as u32,
            original_length: now.original_length,
            is_gathered: true,
        };
        let at = now.at + now.length.next_multiple_of(16);
        *now = Gathering { at, ..Gathering::default() };
        Some(packet)
    }
}

impl AsFd for Socket {
    /// Readable when the rx ring has packets.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn check_shape(options: &SocketOptions) -> Result<(), XdpError> {
    let (frames, frame_bytes, entries) = (options.frames, options.frame_bytes, options.rx_entries);
    let is_good = is_shape(frames, frame_bytes, GATHER_BYTES) && is_ring(entries);
    is_good.then_some(()).ok_or(XdpError::BadShape { frames, frame_bytes, entries })
}

fn set_rings(socket: &RawSocket, options: &SocketOptions) -> io::Result<()> {
    socket.set(libc::XDP_UMEM_FILL_RING, &options.frames)?;
    // The kernel requires a completion ring even if nothing is sent.
    socket.set(libc::XDP_UMEM_COMPLETION_RING, &RING_MIN)?;
    socket.set(libc::XDP_RX_RING, &options.rx_entries)
}

fn map_rings(
    socket: &RawSocket,
    options: &SocketOptions,
) -> io::Result<(Ring<u64>, Ring<xdp_desc>)> {
    let (at, fd) = (socket.offsets()?, socket.as_fd());
    let fill = Ring::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING, at.fr, options.frames)?;
    let rx = Ring::map(fd, libc::XDP_PGOFF_RX_RING as u64, at.rx, options.rx_entries)?;
    Ok((fill, rx))
}

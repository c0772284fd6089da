//! The receive ring: it is opened, followed block by block, and queried for losses.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use burstline_sys::filter::{FILTER_MAX, Instruction};
use burstline_sys::interface::{Interface, LinkState};
use libc::{c_int, c_uint};

use super::counter::Counter;
use super::memory::{FIRST_AT, RingMemory};
use super::packet::{self, RingPacket, TAG_BYTES};
use super::socket::Socket;
use super::{AfPacketError, Direction, Fanout, FanoutMode, RingOptions, Timestamps, filter};

/// The kernel requires a frame size, and does not use it in TPACKET_V3.
const FRAME_BYTES: usize = 2048;

const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 30;
const BLOCKS_MAX: usize = 1 << 16;

const _: () = assert!(size_of::<libc::tpacket_req3>() == 28);
const _: () = assert!(size_of::<libc::tpacket_stats_v3>() == 12);
const _: () = assert!(size_of::<libc::packet_mreq>() == 16);

/// The kernel's counters of a ring since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingStatistics {
    /// Packets that passed the filter, `drops` included.
    pub packets: u64,
    /// Packets that no block had room for.
    pub drops: u64,
    /// Times that the kernel came around to a block that was not free.
    pub freezes: u64,
}

impl RingStatistics {
    /// Adds the kernel's counters since the previous reading, of 32 bits each. After a very long
    /// pause its `tp_packets` may have wrapped below its `tp_drops`. `tp_packets` is the sum of
    /// kept and dropped packets, so the difference is right modulo 2^32.
    pub(super) fn add(&mut self, since: &libc::tpacket_stats_v3) {
        let kept = since.tp_packets.wrapping_sub(since.tp_drops);
        self.packets += u64::from(kept) + u64::from(since.tp_drops);
        self.drops += u64::from(since.tp_drops);
        self.freezes += u64::from(since.tp_freeze_q_cnt);
    }
}

/// A block that we hold: its packets are taken one by one.
#[derive(Clone, Copy)]
struct Held {
    /// Offset of the next packet's header.
    at: usize,
    /// Packets not taken yet.
    left: u32,
}

/// A packet socket with a ring of blocks.
pub struct Ring {
    socket: Socket,
    /// Counts packets that the filter rejects.
    counter: Option<Counter>,
    memory: RingMemory,
    interface: Interface,
    /// The block that is held, or that the kernel will retire next.
    next: usize,
    held: Option<Held>,
    /// Drops between the last use of each block and its next one.
    gaps: Vec<u64>,
    /// Drops that are not yet in a packet's `drops_before`, and belong before the next packet.
    gap: u64,
    /// Drops already counted in `gaps`, `gap` or some packet.
    placed_drops: u64,
    /// Sums of all readings: each reading resets the kernel's counters.
    statistics: Cell<RingStatistics>,
}

impl Ring {
    /// Opens a ring on an interface of the calling thread's network namespace. The ring takes
    /// packets from then on.
    ///
    /// # Errors
    /// See [`AfPacketError`]. An interface that is down is not an error.
    pub fn open(interface: &str, options: &RingOptions) -> Result<Self, AfPacketError> {
        check_shape(options)?;
        let program = checked_program(&options.filter, options.direction)?;
        let fail = |call| AfPacketError::system(interface, call);
        let socket = Socket::for_ring(interface, options.inherited)?;
        let found = Interface::find(&socket, interface)?;
        configure(&socket, options).map_err(fail("setting up a packet socket"))?;
        let request = request(options);
        let bytes = options.block_bytes * options.blocks;
        socket.set(libc::PACKET_RX_RING, &request).map_err(AfPacketError::no_ring(
            interface,
            "PACKET_RX_RING",
            bytes,
        ))?;
        let memory = RingMemory::map(socket.as_fd(), options.block_bytes, options.blocks)
            .map_err(fail("mmap of a packet ring"))?;
        connect(&socket, &found, options, &program).map_err(fail("attaching a packet socket"))?;
        let counter = open_counter(&found, options)?;
        Ok(Self {
            socket,
            counter,
            memory,
            interface: found,
            next: 0,
            held: None,
            gaps: vec![0; options.blocks],
            gap: 0,
            placed_drops: 0,
            statistics: Cell::default(),
        })
    }

    /// The interface as it was at opening.
    pub fn interface(&self) -> &Interface {
        &self.interface
    }

    /// Returns the block to take packets from: the same one until all its packets have been taken,
    /// then the next one that the kernel has retired, if any. The previous block is given back.
    ///
    /// Cost: two atomic operations. Giving a block back adds a system call, which reads the drops
    /// while their position is still known.
    #[inline]
    pub fn next_block(&mut self) -> Option<Block<'_>> {
        if self.held.is_none_or(|held| held.left == 0) {
            self.advance()?;
        }
        Some(Block { ring: self })
    }

    /// Packets of the held block that have not been taken.
    #[inline]
    pub fn held_left(&self) -> u32 {
        self.held.map_or(0, |held| held.left)
    }

    /// Returns the bytes of the held block; empty if none is held.
    #[inline]
    pub fn held_bytes(&self) -> &[u8] {
        match self.held {
            // SAFETY: `advance` saw that a held block is ours, and it stays ours until `release`.
            Some(_) => unsafe { self.memory.bytes(self.next) },
            None => &[],
        }
    }

    /// Packets in the ring that are not taken yet: our own count, for ledgers. It is exact if no
    /// packet arrives meanwhile; such packets may or may not be included.
    ///
    /// Cost: two cache lines for each block with packets.
    pub fn in_ring(&self) -> u64 {
        let blocks = self.memory.blocks();
        let mut packets = u64::from(self.held_left());
        // The kernel fills blocks in turn. The first that it still has is the open one. Those
        // behind it are unused, and count 0, which `release` ensures.
        for ahead in usize::from(self.held.is_some())..blocks {
            let block = (self.next + ahead) % blocks;
            let is_open = !self.is_ours(block);
            // The kernel increments the count of the open block in place. Relaxed: the count does
            // not order the bytes.
            packets += u64::from(self.memory.count(block).load(Relaxed));
            if is_open {
                break;
            }
        }
        packets
    }

    /// Blocks that wait to be taken, including the held one: if all do, packets are lost. Cost: a
    /// load for each.
    pub fn waiting_blocks(&self) -> usize {
        let blocks = self.memory.blocks();
        let in_turn = (0..blocks).map(|ahead| (self.next + ahead) % blocks);
        in_turn.take_while(|&block| self.is_ours(block)).count()
    }

    /// Whether the kernel has handed a block over. Relaxed: the callers do not read its bytes.
    fn is_ours(&self, block: usize) -> bool {
        self.memory.status(block).load(Relaxed) & libc::TP_STATUS_USER != 0
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.memory.blocks()
    }

    /// Returns the kernel's counters. Cost: one system call.
    pub fn statistics(&self) -> RingStatistics {
        let mut sum = self.statistics.get();
        // A failed reading changes nothing: the kernel keeps its counters.
        if let Ok(since) = self.socket.statistics() {
            sum.add(&since);
            self.statistics.set(sum);
        }
        sum
    }

    /// Packets that the filter has rejected, by the kernel's count; 0 without a `complement`
    /// program. Call it at least every 2^32 packets, as the kernel's counter wraps. Cost: one
    /// system call.
    pub fn rejected(&self) -> u64 {
        self.counter.as_ref().map_or(0, Counter::packets)
    }

    /// Queries the state of the interface. Clears the error that makes the descriptor ready when
    /// the interface goes down. Cost: up to seven system calls.
    ///
    /// # Errors
    /// Errors from the kernel, unless the interface is down or gone.
    pub fn link_state(&self) -> io::Result<LinkState> {
        self.socket.link_state(self.interface.index)
    }

    /// Takes no more packets, and stops counting rejected ones. Those in the ring can still be
    /// taken.
    ///
    /// # Errors
    /// Errors from the kernel.
    pub fn stop(&self) -> io::Result<()> {
        self.socket.attach_filter(&[Instruction::keep(0)])?;
        self.counter.as_ref().map_or(Ok(()), Counter::stop)
    }

    /// Advances to the next block that has packets.
    fn advance(&mut self) -> Option<()> {
        loop {
            if self.held.is_some() {
                self.release();
            }
            // Acquire pairs with the kernel's barrier before it stores the status: all bytes of the
            // block are there.
            if self.memory.status(self.next).load(Acquire) & libc::TP_STATUS_USER == 0 {
                return None;
            }
            let left = self.memory.count(self.next).load(Relaxed);
            // SAFETY: the status was `USER` just now, and only `release` sets it back.
            let block = unsafe { self.memory.bytes(self.next) };
            let first = block[FIRST_AT..].first_chunk().copied().unwrap_or_default();
            self.held = Some(Held { at: u32::from_ne_bytes(first) as usize, left });
            self.gap += std::mem::take(&mut self.gaps[self.next]);
            if left > 0 {
                return Some(());
            }
        }
    }

    /// Gives the held block back to the kernel.
    fn release(&mut self) {
        // While we held this block, the kernel could only be stuck at it. So its drops since we
        // gave the last block back belong before this block's next use.
        let drops = self.statistics().drops;
        self.gaps[self.next] += drops - self.placed_drops;
        self.placed_drops = drops;
        self.held = None;
        self.memory.count(self.next).store(0, Relaxed);
        // Release pairs with the kernel's load of the status: our reads of the block, and the count
        // above, come before.
        self.memory.status(self.next).store(libc::TP_STATUS_KERNEL, Release);
        self.next = (self.next + 1) % self.memory.blocks();
    }
}

impl AsFd for Ring {
    /// Readable when a block is retired; in error when the interface goes down.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A block that the kernel has handed over.
pub struct Block<'a> {
    ring: &'a mut Ring,
}

impl<'a> Block<'a> {
    /// Takes the next packet, with its VLAN tag in place. `None` after the last one.
    ///
    /// An inconsistent header ends the block: the rest of its packets is then missing from the
    /// ledger, which reports it.
    #[inline]
    pub fn next_packet(&mut self) -> Option<RingPacket> {
        let ring = &mut *self.ring;
        let held = ring.held.as_mut().filter(|held| held.left > 0)?;
        // SAFETY: `advance` saw that a held block is ours, and it stays ours until `release`.
        let block = unsafe { ring.memory.bytes_mut(ring.next) };
        let Some((mut packet, at)) = packet::take(block, held.at) else {
            held.left = 0;
            return None;
        };
        packet.drops_before = std::mem::take(&mut ring.gap);
        *held = Held { at, left: held.left - 1 };
        Some(packet)
    }

    /// Returns the bytes that packet offsets refer to. The ring holds the block while they are
    /// borrowed.
    #[inline]
    pub fn into_bytes(self) -> &'a [u8] {
        self.ring.held_bytes()
    }
}

fn check_shape(options: &RingOptions) -> Result<(), AfPacketError> {
    let (block_bytes, blocks) = (options.block_bytes, options.blocks);
    let is_fine = block_bytes.is_power_of_two()
        && (BLOCK_BYTES_MIN..=BLOCK_BYTES_MAX).contains(&block_bytes)
        && (2..=BLOCKS_MAX).contains(&blocks)
        && block_bytes.checked_mul(blocks).is_some_and(|bytes| u32::try_from(bytes).is_ok());
    if is_fine { Ok(()) } else { Err(AfPacketError::BadRing { block_bytes, blocks }) }
}

/// Returns the filter program restricted to the direction.
fn checked_program(
    filter: &[Instruction],
    direction: Direction,
) -> Result<Vec<Instruction>, AfPacketError> {
    let program = filter::for_direction(filter, direction);
    match program.len() {
        instructions if instructions > FILTER_MAX => {
            Err(AfPacketError::BadFilter { instructions, most: FILTER_MAX })
        }
        _ => Ok(program),
    }
}

fn open_counter(
    interface: &Interface,
    options: &RingOptions,
) -> Result<Option<Counter>, AfPacketError> {
    if options.complement.is_empty() {
        return Ok(None);
    }
    let program = checked_program(&options.complement, options.direction)?;
    let counter = Counter::open(interface.index, options.direction, &program);
    let fail = AfPacketError::system(&interface.name, "a socket that counts what is filtered");
    counter.map(Some).map_err(fail)
}

fn request(options: &RingOptions) -> libc::tpacket_req3 {
    let frames = options.block_bytes / FRAME_BYTES * options.blocks;
    // All values fit: `check_shape` guarantees it.
    libc::tpacket_req3 {
        tp_block_size: options.block_bytes as c_uint,
        tp_block_nr: options.blocks as c_uint,
        tp_frame_size: FRAME_BYTES as c_uint,
        tp_frame_nr: frames as c_uint,
        // 0 would let the kernel choose by the link's speed.
        tp_retire_blk_tov: options.retire_timeout_ms.max(1),
        tp_sizeof_priv: 0,
        tp_feature_req_word: 0,
    }
}

/// Sets the options that must be set before the ring exists.
fn configure(socket: &Socket, options: &RingOptions) -> io::Result<()> {
    socket.set(libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as c_int))?;
    socket.set(libc::PACKET_RESERVE, &(TAG_BYTES as c_uint))?;
    if options.direction == Direction::In {
        socket.set(libc::PACKET_IGNORE_OUTGOING, &1)?;
    }
    if options.timestamps == Timestamps::Hardware {
        socket.set(libc::PACKET_TIMESTAMP, &(libc::SOF_TIMESTAMPING_RAW_HARDWARE as c_int))?;
    }
    Ok(())
}

/// Starts taking packets. A socket that joins a group rejects all packets until it is a member,
/// because before that it would take other members' share.
fn connect(
    socket: &Socket,
    interface: &Interface,
    options: &RingOptions,
    program: &[Instruction],
) -> io::Result<()> {
    let reject = [Instruction::keep(0)];
    let first = if options.fanout.is_some() { &reject[..] } else { program };
    if !first.is_empty() {
        socket.attach_filter(first)?;
    }
    if options.is_promiscuous {
        let membership = libc::packet_mreq {
            mr_ifindex: interface.index as c_int,
            mr_type: libc::PACKET_MR_PROMISC as _,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        socket.set(libc::PACKET_ADD_MEMBERSHIP, &membership)?;
    }
    socket.bind(interface.index, libc::ETH_P_ALL as u16)?;
    let Some(fanout) = &options.fanout else { return Ok(()) };
    join(socket, fanout)?;
    match program {
        [] => socket.detach_filter(),
        program => socket.attach_filter(program),
    }
}

fn join(socket: &Socket, fanout: &Fanout) -> io::Result<()> {
    let mode = match fanout.mode {
        FanoutMode::Hash => libc::PACKET_FANOUT_HASH,
        FanoutMode::RoundRobin => libc::PACKET_FANOUT_LB,
        FanoutMode::Core => libc::PACKET_FANOUT_CPU,
        FanoutMode::Queue => libc::PACKET_FANOUT_QM,
        FanoutMode::Program(_) => libc::PACKET_FANOUT_CBPF,
    };
    // The group is the low half, the mode the high half. Source: packet(7), PACKET_FANOUT.
    socket.set(libc::PACKET_FANOUT, &(mode << 16 | c_uint::from(fanout.group)))?;
    match &fanout.mode {
        FanoutMode::Program(program) if !program.is_empty() => socket.set_fanout_program(program),
        _ => Ok(()),
    }
}

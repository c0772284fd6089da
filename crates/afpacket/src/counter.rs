//! A socket that only counts packets.
//!
//! The kernel does not count packets that a filter rejects. A second socket on the same interface,
//! whose filter accepts just those packets, has them in its own counters. Nobody reads it: one or
//! two packets fill its buffer, which is as small as possible. After that each packet costs the
//! kernel the filter and one addition. `PACKET_STATISTICS` reports how many packets such a socket
//! was offered, including those without room (`packet_getsockopt`, net/packet/af_packet.c).

use std::cell::Cell;
use std::io;

use burstline_sys::filter::Instruction;

use super::Direction;
use super::socket::Socket;

/// Counts the packets that a program accepts, from opening to `stop`.
pub(super) struct Counter {
    socket: Socket,
    /// Sum of all readings: each reading resets the kernel's counter.
    packets: Cell<u64>,
}

impl Counter {
    /// Counts on an interface from now on. `program` already includes `direction`.
    pub(super) fn open(
        interface_index: u32,
        direction: Direction,
        program: &[Instruction],
    ) -> io::Result<Self> {
        let socket = Socket::new()?;
        socket.shrink_buffer()?;
        if direction == Direction::In {
            socket.set(libc::PACKET_IGNORE_OUTGOING, &1)?;
        }
        socket.attach_filter(program)?;
        socket.bind(interface_index, libc::ETH_P_ALL as u16)?;
        Ok(Self { socket, packets: Cell::new(0) })
    }

    /// Returns the packets so far. Call it before the kernel's 32 bits wrap. Cost: one system call.
    pub(super) fn packets(&self) -> u64 {
        self.packets.set(with(self.packets.get(), self.socket.statistics()));
        self.packets.get()
    }

    pub(super) fn stop(&self) -> io::Result<()> {
        self.socket.attach_filter(&[Instruction::keep(0)])
    }
}

/// Returns a sum with a reading added, which has reset the kernel's counter. A failed reading
/// changes nothing: the kernel keeps its counter.
pub(super) fn with(packets: u64, reading: io::Result<libc::tpacket_stats_v3>) -> u64 {
    packets + reading.map_or(0, |since| u64::from(since.tp_packets))
}

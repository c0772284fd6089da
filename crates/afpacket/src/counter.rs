//! A socket that counts and keeps nothing.
//!
//! What a filter rejects the kernel counts nowhere. A second socket on the same interface, whose
//! filter accepts just those packets, has them in its own counters. Nobody reads it: a packet or
//! two fill its buffer, the smallest there is. After that each packet costs the kernel the filter
//! and one addition. `PACKET_STATISTICS` says of such a socket how many it was offered, those that
//! found no room included (`packet_getsockopt`, net/packet/af_packet.c).

use std::cell::Cell;
use std::io;

use burstline_sys::filter::Instruction;

use super::Direction;
use super::socket::Socket;

/// Counts the packets that a program accepts, from its opening to `stop`.
pub(super) struct Counter {
    socket: Socket,
    /// The kernel's counter starts anew at each reading.
    packets: Cell<u64>,
}

impl Counter {
    /// Counts on an interface from now on. `program` is as for `direction` already.
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

    /// The packets so far. To be asked before the kernel's counter of 32 bits has come round.
    /// Cost: one system call.
    pub(super) fn packets(&self) -> u64 {
        // A reading that fails changes nothing: the kernel keeps its counter.
        if let Ok(since) = self.socket.statistics() {
            self.packets.set(self.packets.get() + u64::from(since.tp_packets));
        }
        self.packets.get()
    }

    /// Counts no more.
    pub(super) fn stop(&self) -> io::Result<()> {
        self.socket.attach_filter(&[Instruction::keep(0)])
    }
}

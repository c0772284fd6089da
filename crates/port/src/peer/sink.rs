//! The sink: copies packets into rings from which a peer takes them.
//!
//! Packets of a flow go to one queue. With `offloads=on` a packet with unfinished offloads gets a
//! header that describes the remaining work, derived from its own headers.

use std::io;

use burstline_log::Flags;
use burstline_peer::{LONGEST, Lanes, OFFLOAD_BYTES, Put, ToPeer};
use burstline_sys::interface::{Interface, LinkState};
use burstline_wire::hash::{FlowHasher, HashKind};
use burstline_wire::headers::LinkType;

use super::Device;
use crate::halves::Half;
use crate::live::{LiveSink, Outlet, OutletCounts};
use crate::tap::unfinished;
use crate::watch::Watch;
use crate::{Loss, OpenedSink, PortError, Values};

/// Default payload bytes of a segment: those of Ethernet.
const SEGMENT_MTU: u32 = 1500;

/// Rings that we fill; each is held here during a burst, and otherwise in its berth.
struct ToPeers<D: Device> {
    half: Half<D, D::Options>,
    rings: Vec<Option<Box<D::To>>>,
    hasher: FlowHasher,
    /// Packets put since the last `send`.
    waiting: u64,
    sent: u64,
    unfit: u64,
    /// A substitute where an interface is required.
    interface: Interface,
    is_down: bool,
}

/// Creates a sink that sends to the peers of a device.
pub(super) fn sink<D: Device>(values: &Values<'_>, half: Half<D, D::Options>) -> OpenedSink {
    let interface = Interface {
        name: values.address().target().to_owned(),
        index: 0,
        mtu: LONGEST as u32,
        hardware_type: 1,
        is_up: true,
        has_carrier: true,
    };
    let watch = Watch::new(&interface);
    let passes_offloads = D::passes_offloads(half.options());
    let outlet = ToPeers {
        rings: (0..half.device().lanes().queues()).map(|_| None).collect(),
        half,
        hasher: FlowHasher::new(HashKind::FiveTuple),
        waiting: 0,
        sent: 0,
        unfit: 0,
        interface,
        is_down: false,
    };
    Ok(Box::new(LiveSink::new(values, outlet, watch)?.passing_offloads(passes_offloads)))
}

impl<D: Device> ToPeers<D> {
    fn lanes(&self) -> &Lanes<D::From, D::To> {
        self.half.device().lanes()
    }

    /// Returns the queue for a packet. If a peer has enabled fewer queues, it is the first.
    #[inline]
    fn queue_of(&mut self, packet: &[u8]) -> usize {
        if self.rings.len() == 1 {
            return 0;
        }
        let hash = self.hasher.hash(LinkType::ETHERNET, packet);
        let queue = hash as usize % self.rings.len();
        match self.ring(queue).is_some_and(|ring| ring.is_live()) {
            true => queue,
            false => 0,
        }
    }

    #[inline]
    fn ring(&mut self, queue: usize) -> Option<&mut Box<D::To>> {
        if self.rings[queue].is_none() {
            self.rings[queue] = self.lanes().lane(queue).to.take();
        }
        self.rings[queue].as_mut()
    }

    #[inline]
    fn put(&mut self, packet: &[u8], offload: &[u8; OFFLOAD_BYTES]) -> bool {
        let queue = self.queue_of(packet);
        let put = self.ring(queue).map(|ring| (ring.put(packet, offload), ring.is_live()));
        let (put, is_live) = put.unwrap_or((Put::NoRoom, false));
        self.is_down = !is_live;
        match put {
            Put::Done => self.waiting += 1,
            Put::Unfit => self.unfit += 1,
            Put::NoRoom => {
                self.give_back();
                return false;
            }
        }
        true
    }

    /// Publishes packets to the peer, and puts the rings back.
    fn give_back(&mut self) {
        for (queue, ring) in self.rings.iter_mut().enumerate() {
            if let Some(mut ring) = ring.take() {
                ring.publish();
                self.half.device().lanes().lane(queue).to.give_back(ring);
            }
        }
        self.sent += std::mem::take(&mut self.waiting);
    }
}

impl<D: Device> Outlet for ToPeers<D> {
    const LOST_TO: Loss = Loss::TooLong;
    const IS_WATCHED: bool = false;

    fn longest(&self) -> usize {
        LONGEST
    }

    #[inline]
    fn push(&mut self, packet: &[u8]) -> bool {
        self.put(packet, &[0; OFFLOAD_BYTES])
    }

    fn push_unfinished(&mut self, packet: &[u8], flags: Flags) -> bool {
        match unfinished(packet, flags, SEGMENT_MTU) {
            Some(offload) => self.put(packet, &offload.header()),
            None => {
                self.unfit += 1;
                true
            }
        }
    }

    fn send(&mut self) -> Result<(), PortError> {
        self.give_back();
        Ok(())
    }

    fn counts(&self) -> OutletCounts {
        let (sent, lost, waiting) = (self.sent, self.unfit, self.waiting);
        OutletCounts { pushed: sent + lost + waiting, sent, lost, waiting }
    }

    fn is_down(&self) -> bool {
        self.is_down
    }

    fn link_state(&self) -> io::Result<LinkState> {
        Ok(LinkState::Present(self.interface.clone()))
    }

    fn events(&self) -> Vec<String> {
        if self.half.is_teller() { self.lanes().diary().events() } else { Vec::new() }
    }
}

impl<D: Device> Drop for ToPeers<D> {
    fn drop(&mut self) {
        self.give_back();
    }
}

//! A peer that sends only invalid packets, endlessly: other ports must get their turn.

use std::path::Path;

use burstline_peer::{AttendError, OFFLOAD_BYTES, Put, ToPeer};

use super::*;
use crate::halves::{Devices, Role};
use crate::{Address, AddressError, Key, Values};

/// A ring that is never empty.
struct Wrong {
    taken: u16,
}

impl FromPeer for Wrong {
    fn take(&mut self, _room: &mut [u8]) -> Taken {
        self.taken += 1;
        Taken::Refused(Refusal::Malformed)
    }

    fn publish(&mut self) -> u16 {
        std::mem::take(&mut self.taken)
    }

    fn fill(&mut self) -> (u16, u16) {
        (1, 1)
    }

    fn arm(&mut self) -> bool {
        true
    }

    fn disarm(&mut self) {}
}

struct Nowhere;

impl ToPeer for Nowhere {
    fn put(&mut self, _packet: &[u8], _offload: &[u8; OFFLOAD_BYTES]) -> Put {
        Put::NoRoom
    }

    fn publish(&mut self) {}

    fn is_live(&self) -> bool {
        false
    }
}

struct Peer(Lanes<Wrong, Nowhere>);

static OPEN: Devices<Peer, ()> = Devices::new();

impl Device for Peer {
    type From = Wrong;
    type To = Nowhere;
    type Options = ();

    const KEYS: &'static [Key] = &[];
    const SINK_KEYS: &'static [Key] = &[];

    fn opened() -> &'static Devices<Self, ()> {
        &OPEN
    }

    fn parse(_values: &Values<'_>) -> Result<(), AddressError> {
        Ok(())
    }

    fn open(_path: &Path, _options: &()) -> Result<Self, AttendError> {
        Ok(Self(Lanes::new(1).unwrap()))
    }

    fn lanes(&self) -> &Lanes<Wrong, Nowhere> {
        &self.0
    }

    fn passes_offloads(_options: &()) -> bool {
        false
    }
}

#[test]
fn a_burst_ends_after_some_refused_packets() {
    let address: Address = "vhost:/tmp/none".parse().unwrap();
    let open = |(): &()| Ok(Peer::open(Path::new(""), &()).unwrap());
    let half = OPEN.take(&address, String::new(), (), Role::Source, open).unwrap();
    half.device().0.lane(0).from.change(|ring| *ring = Some(Box::new(Wrong { taken: 0 })));
    let mut source = FromPeers::new(half);
    for burst in 1..=3 {
        let mut refused = 0;
        for _ in 0..100 {
            assert_eq!(source.take(&mut [], &mut refused), None);
        }
        source.give_back();
        assert_eq!((refused, source.account().offered), (16, 16 * burst));
    }
}

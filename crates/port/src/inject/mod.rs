//! `inject:` sinks: packets enter an interface of this machine as if received from the wire.
//!
//! ```text
//!  burst --copy--> table --one call--> frames of the interface --> its XDP program --> ...
//!                                                              '-> the network stack
//! ```
//!
//! They go to the XDP program on the interface, or to the network stack if there is none;
//! `to=stack` bypasses a program. See [`burstline_xdp::inject`] for the mechanism. A call handles a
//! whole burst and costs about 10 us, so it is fast with bursts of hundreds of packets. When
//! `transmit` returns, the receiver has the packets: nothing is in flight.
//!
//! It requires root in the first user namespace, and threads in the interface's network namespace.
//! The rights may be dropped once it is open. If another program is attached later, a new generator
//! is needed, which takes those rights again: without them the sink ends.

use std::io;

use burstline_sys::interface::{Interface, LinkState};
use burstline_sys::machine::capability::{BPF, NET_ADMIN, SYS_ADMIN};
use burstline_sys::machine::program;
use burstline_xdp::bpf::BpfError;
use burstline_xdp::inject::{BurstInjector, INJECTED_BYTES_MAX, InjectError, Target};

use crate::live::{LiveSink, Outlet, OutletCounts, WAIT};
use crate::watch::Watch;
use crate::{
    Address, AddressError, Key, Loss, OpenOptions, OpenedSink, PortError, Probe, ProbeOptions,
    Values,
};

/// The keys of a sink's address.
pub(crate) const KEYS: &[Key] = &[
    Key::words(
        "to",
        "auto|program|stack",
        "The receiver: the XDP program on the interface, or the network stack behind it; auto \
         chooses the program if there is one",
    )
    .or("auto"),
    WAIT,
];

/// An injection path into an interface.
struct Inlet {
    injector: BurstInjector,
    receiver: Option<Target>,
    /// Counts of earlier injectors.
    before: OutletCounts,
}

/// Opens an interface for injection.
pub(crate) fn open_sink(address: &Address, _options: &OpenOptions) -> OpenedSink {
    let values = address.values(KEYS)?;
    let receiver = receiver(&values)?;
    let injector = open(address.target(), receiver)?;
    let watch = Watch::new(injector.interface());
    let inlet = Inlet { injector, receiver, before: OutletCounts::default() };
    Ok(Box::new(LiveSink::new(&values, inlet, watch)?))
}

fn receiver(values: &Values<'_>) -> Result<Option<Target>, AddressError> {
    values.word("to", [None, Some(Target::Program), Some(Target::Stack)])
}

/// As [`BurstInjector::open`], whose calls need more rights than other BPF programs.
fn open(interface: &str, receiver: Option<Target>) -> Result<BurstInjector, InjectError> {
    BurstInjector::open(interface, receiver).map_err(|error| match error {
        InjectError::Bpf(BpfError::NotPermitted { program, .. }) => {
            InjectError::NotPermitted { program }
        }
        InjectError::Parking(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            InjectError::NotPermitted { program: program() }
        }
        other => other,
    })
}

/// Creates an injector for the stack, which has no effect on the interface.
pub(crate) fn probe(address: &Address, _options: &ProbeOptions, probe: &mut Probe) {
    match open(address.target(), Some(Target::Stack)) {
        Ok(injector) => {
            probe.can_open = true;
            probe.remark_if_down(&injector.interface().name, injector.interface().is_up);
        }
        Err(InjectError::NotPermitted { .. }) => {
            probe.refuse_for_rights(&[BPF, NET_ADMIN, SYS_ADMIN]);
        }
        Err(error) => probe.refuse(&error),
    }
}

impl Outlet for Inlet {
    const LOST_TO: Loss = Loss::TxRefused;

    fn longest(&self) -> usize {
        INJECTED_BYTES_MAX
    }

    #[inline]
    fn push(&mut self, packet: &[u8]) -> bool {
        self.injector.push(packet)
    }

    fn send(&mut self) -> Result<(), PortError> {
        // The kernel would inject even if it is down. A deleted interface is an error of the run.
        if let Ok(LinkState::Present(Interface { is_up: false, .. })) = self.injector.link_state() {
            return Ok(());
        }
        Ok(self.injector.run()?)
    }

    fn counts(&self) -> OutletCounts {
        OutletCounts {
            pushed: self.before.pushed + self.injector.pushed(),
            sent: self.before.sent + self.injector.injected(),
            lost: self.before.lost + self.injector.failed(),
            waiting: self.injector.waiting(),
        }
    }

    fn link_state(&self) -> io::Result<LinkState> {
        self.injector.link_state()
    }

    /// Opens a new injector if the program on the interface has changed.
    fn check(&mut self) -> Result<(), PortError> {
        let is_programs = self.receiver != Some(Target::Stack);
        if self.injector.waiting() > 0 || !is_programs || !self.injector.is_outdated()? {
            return Ok(());
        }
        let before = self.counts();
        self.injector = open(&self.injector.interface().name, self.receiver)?;
        self.before = before;
        Ok(())
    }
}

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = address.values(KEYS).map(|values| (receiver(&values), crate::live::wait_ns(&values)));
}

//! Runs a switch on one core: it polls the ports in turn, and sends each burst before the next.
//!
//! ```text
//!  orders (SwitchHandle::ask) ──────► Fabric ◄────── poll: for each port, for each queue
//!  bell: wakes a sleeping thread        │                lend ─► Switch::forward ─► Plan
//!                                       │                for each end of the plan:
//!                                       ▼                    Outgoing ─► the end's sink, one copy
//!                              ports, mirrors, rules
//! ```
//!
//! Ownership: the packet thread owns everything. To query or change the switch, another thread
//! sends an order, a closure that runs between two rounds. The thread that sends the order opens
//! the ports, because it may have privileges that the packet thread has dropped.
//!
//! A second thread closes removed ports ([`closing`]), because that may take a second.
//!
//! Packets received on a port with `inline` wait for verdicts before they are switched. A port that
//! is removed meanwhile departs: it leaves when its last packet is decided, and delays no other.
//!
//! A port has two rows in the ledger: frames received on it, and copies to send through it.
//!
//! ```text
//!   tap:a      offered = forwarded + flooded + dropped by a cause + lost by the source + in flight
//!   > tap:a    copies of plans = sent + lost by the sink, by name + in flight
//! ```
//!
//! Invariants:
//! - F1: different parts count a row's `offered` and its `delivered`: the source and the switch, or
//!   the switch and the sink.
//! - F2: a failing port affects no other: it is removed, its rows stay, and the others go on.
//! - F3: an order runs between two bursts. A burst sees the ports and rules from before the order
//!   or from after it, never a mix.
//! - F4: the switch waits for no sink, unless the sink's address says so. A port that takes nothing
//!   loses its own packets, by name, and delays no other port.

mod closing;
mod entry;
mod fabric;
mod handle;
mod port;
mod rows;
mod settings;
mod status;
mod worker;

use std::thread;

use burstline_switch::{Mirror, RuleSet, Selection, Static, SwitchConfig};

use crate::runtime::{self, Job, Post};
use crate::{EngineError, Report, Run, Threads};
pub use fabric::Fabric;
pub use handle::{SwitchHandle, SwitchOrders};
pub use port::{InlinePorts, OpenedPort, OpenedTarget};
pub use settings::{SWITCH_KEYS, SwitchPort};
pub use status::{KnownAddress, MeterStatus, PortStatus, SwitchStatus};
use worker::Worker;

/// The name of the packet thread.
const STAGE: &str = "switch";
/// The name of the thread that closes removed ports.
const CLOSER: &str = "closer";

/// The outcome of a switch.
#[derive(Debug)]
pub struct Switched {
    /// The ledger: two rows for each port, and one for each mirror target.
    pub report: Report,
    /// The final status of the switch.
    pub status: SwitchStatus,
}

impl Fabric {
    /// Creates a switch with these ports, mirror targets, rules and static addresses.
    ///
    /// # Errors
    /// As for [`add_port`](Self::add_port), [`set_rules`](Self::set_rules) and
    /// [`add_static`](Self::add_static).
    pub fn with(
        config: SwitchConfig,
        ports: Vec<OpenedPort>,
        targets: Vec<OpenedTarget>,
        rules: RuleSet,
        statics: &[Static],
    ) -> Result<Self, EngineError> {
        let mut fabric = Self::new(config);
        for target in targets {
            fabric.add_target(target)?;
        }
        for port in ports {
            fabric.add_port(port)?;
        }
        fabric.set_rules(rules)?;
        for one in statics {
            fabric.add_static(one)?;
        }
        Ok(fabric)
    }
}

/// Returns the mirror for a port's `mirror=` key: both directions.
fn own_mirror(port: &str, to: &str) -> Mirror {
    let takes = Selection::default().with_both(vec![port.to_owned()]);
    Mirror { to: to.to_owned(), takes }
}

/// Runs a switch until a limit is reached or `stop` is set. It executes `orders` meanwhile.
///
/// # Errors
/// If the thread cannot be started, pinned or given its scheduling class. Later failures are in the
/// report's `errors`; other ports go on.
pub fn switch(
    mut fabric: Fabric,
    orders: SwitchOrders,
    threads: &Threads,
    run: &Run<'_>,
) -> Result<Switched, EngineError> {
    let job = Job::start(threads, run);
    run.progress.start(0);
    let (done, places) = thread::scope(|scope| {
        let closer = fabric.begin_closing();
        // The new thread inherits the privileges of this thread, which drops its own later.
        runtime::spawn(scope, CLOSER, || threads.drop_privileges().map(|()| closer.run()))?;
        let step = Worker::new(&job, fabric, orders);
        let post = Post { index: 0, name: STAGE.to_owned(), step };
        let mut crew = runtime::run_alone(&job, vec![post])?;
        let Some(mut done) = crew.front.pop() else { unreachable!("one thread was started") };
        done.outcome.end_closing();
        Ok::<_, EngineError>((done, crew.places))
    })?;
    let mut ending = job.ending();
    ending.add(&done);
    let cost = done.cost;
    let fabric = done.outcome;
    let status = fabric.status();
    let rows = fabric.close();
    ending.bytes_copied = rows.bytes_copied;
    let through = rows.through;
    let dropped = rows.dropped;
    let mut report = Report::new(rows.rows, &ending);
    let mut stage = cost.report(STAGE, ending.elapsed_ns, &through);
    stage.packets_in = through.packets + dropped.total();
    stage.lost = dropped.missing();
    report.stages = vec![stage];
    report.memory.node = places.first().and_then(|place| place.node);
    job.describe(&mut report, places);
    report.notes.extend(rows.notes);
    report.is_damaged = rows.is_damaged;
    report.errors = rows.errors;
    report.timestamp.source = rows.clocks.join("+");
    Ok(Switched { report, status })
}

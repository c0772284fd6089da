//! The switch, run on one core: its ports in turn, each burst on its way before the next one comes.
//!
//! ```text
//!  orders (SwitchHandle::ask) ──────► Fabric ◄────── poll: for each port, for each queue
//!  bell: wakes a thread that sleeps     │                lend ─► Switch::forward ─► Plan
//!                                       │                for each end of the plan:
//!                                       ▼                    Outgoing ─► the end's sink, one copy
//!                              ports, mirrors, rules
//! ```
//!
//! Who owns what: the thread owns everything. Another thread that wants to know or to change
//! something sends it an order, a closure, which runs between two rounds. The thread that sends the
//! order opens ports. It may have rights that the thread that reads packets has given up.
//!
//! A port that is removed is closed by a second thread ([`closing`]): its end may take a second.
//!
//! Packets that come in by a port with `inline` wait for verdicts before they are switched.
//!
//! A port has two rows in the ledger: what came in by it, and what should leave by it.
//!
//! ```text
//!   tap:a      offered = forwarded + flooded + dropped by a cause + lost by the source + in flight
//!   > tap:a    copies of plans = sent + lost by the sink, by name + in flight
//! ```
//!
//! Invariants:
//! - F1: different parts count a row's `offered` and its `delivered`: the source and the switch, or
//!   the switch and the sink.
//! - F2: a port that fails ends alone: it is removed, its rows stay, and the others go on.
//! - F3: an order is carried out between two bursts. A burst sees the ports and rules before it or
//!   after it, never some of each.
//! - F4: the switch waits for no sink, unless its address says so. A port that takes nothing loses
//!   its own packets, by name, and holds nobody up.

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

/// The name of its thread.
const STAGE: &str = "switch";
/// The name of the thread that closes ports that were removed.
const CLOSER: &str = "closer";

/// The outcome of a switch.
#[derive(Debug)]
pub struct Switched {
    /// The ledger: two rows a port, and one for each target of mirrors.
    pub report: Report,
    /// What its tables had at the end.
    pub status: SwitchStatus,
}

impl Fabric {
    /// One with these ports, targets of mirrors, rules and addresses that stay.
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

/// The mirror that a port's own `mirror=` asks for: both directions.
fn own_mirror(port: &str, to: &str) -> Mirror {
    let takes = Selection::default().with_both(vec![port.to_owned()]);
    Mirror { to: to.to_owned(), takes }
}

/// Runs a switch until a limit is reached or `stop` is set. `orders` are carried out meanwhile.
///
/// # Errors
/// The thread could not be started, pinned or given its class. What goes wrong later is in the
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
        // It begins with the rights of this thread, which gives them up later.
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

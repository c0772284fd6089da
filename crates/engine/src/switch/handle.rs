//! Orders to a switch that runs, from other threads.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use burstline_port::{Capabilities, Port, PortAccount, PortInfo, TimestampSource};
use burstline_sys::event::Event;

use super::Fabric;

/// A change, or a question.
pub(super) type Order = Box<dyn FnOnce(&mut Fabric) + Send>;

/// Gives orders to a switch. Clones give orders to the same one.
#[derive(Clone)]
pub struct SwitchHandle {
    orders: Sender<Order>,
    bell: Arc<Event>,
}

/// What a switch takes its orders from.
pub struct SwitchOrders {
    pub(super) orders: Receiver<Order>,
    pub(super) bell: Bell,
}

/// What a switch that sleeps is woken by: a port that never has packets.
pub(super) struct Bell {
    info: PortInfo,
    event: Arc<Event>,
}

impl SwitchHandle {
    /// A handle, and what the switch is to be run with.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub fn new() -> std::io::Result<(Self, SwitchOrders)> {
        let (sender, orders) = mpsc::channel();
        let event = Arc::new(Event::new()?);
        let info = PortInfo {
            name: "orders".to_owned(),
            capabilities: Capabilities::default(),
            timestamps: TimestampSource::Mixed,
        };
        let bell = Bell { info, event: Arc::clone(&event) };
        Ok((Self { orders: sender, bell: event }, SwitchOrders { orders, bell }))
    }

    /// Has the switch's thread do something between two bursts, and returns what that returns.
    /// `None`: the switch has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Fabric) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, outcome) = mpsc::sync_channel(1);
        let order: Order = Box::new(move |fabric| {
            // The thread that asked may have gone.
            let _ = answer.send(order(fabric));
        });
        self.orders.send(order).ok()?;
        self.bell.raise();
        outcome.recv().ok()
    }

    /// As [`ask`](Self::ask), and waits until what the order removed is closed: another port may
    /// then have its name and its device.
    pub fn change<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Fabric) -> T + Send + 'static,
    ) -> Option<T> {
        let (outcome, removed) = self.ask(|fabric| {
            let outcome = order(fabric);
            (outcome, fabric.when_closed())
        })?;
        removed.wait();
        Some(outcome)
    }
}

impl Bell {
    /// It has been heard.
    pub(super) fn lower(&self) {
        self.event.lower();
    }
}

impl Port for Bell {
    fn info(&self) -> &PortInfo {
        &self.info
    }

    fn account(&self) -> PortAccount {
        PortAccount::default()
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        Some(self.event.as_fd())
    }
}

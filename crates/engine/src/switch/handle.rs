//! Sends orders from other threads to a running switch.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use burstline_port::{Capabilities, Port, PortAccount, PortInfo, TimestampSource};
use burstline_sys::event::Event;

use super::Fabric;

/// A change or a query.
pub(super) type Order = Box<dyn FnOnce(&mut Fabric) + Send>;

/// A handle that sends orders to a switch. Clones refer to the same switch.
#[derive(Clone)]
pub struct SwitchHandle {
    orders: Sender<Order>,
    bell: Arc<Event>,
}

/// The receiving side of a switch's orders.
pub struct SwitchOrders {
    pub(super) orders: Receiver<Order>,
    pub(super) bell: Bell,
}

/// A port that never has packets, which wakes up a sleeping switch.
pub(super) struct Bell {
    info: PortInfo,
    event: Arc<Event>,
}

impl SwitchHandle {
    /// Creates a handle and the orders to run the switch with.
    ///
    /// # Errors
    /// If the kernel has no file descriptor left.
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

    /// Runs a closure on the switch's thread between two bursts and returns its result. Returns
    /// `None` if the switch has ended.
    pub fn ask<T: Send + 'static>(
        &self,
        order: impl FnOnce(&mut Fabric) -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, outcome) = mpsc::sync_channel(1);
        let order: Order = Box::new(move |fabric| {
            // The requesting thread may have exited.
            let _ = answer.send(order(fabric));
        });
        self.orders.send(order).ok()?;
        self.bell.raise();
        outcome.recv().ok()
    }

    /// Like [`ask`](Self::ask), but waits until the ends that the order removed are closed. Then
    /// another port may use the same name and device.
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
    /// Resets the bell.
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

//! The packet thread of a switch.

use burstline_port::Port;

use super::Fabric;
use super::handle::SwitchOrders;
use crate::inline::LOOK_EVERY_NS;
use crate::runtime::{Job, Next, Pause, Polled, Round, Step};

/// The most packets taken from a source per turn. Received packets stay in the L1 cache until they
/// are sent. A peer gets ring slots back while it fills others.
const BURST_PACKETS: u64 = 64;

pub(super) struct Worker<'a> {
    job: &'a Job<'a>,
    fabric: Fabric,
    orders: SwitchOrders,
    is_stopping: bool,
}

impl<'a> Worker<'a> {
    pub(super) fn new(job: &'a Job<'a>, fabric: Fabric, orders: SwitchOrders) -> Self {
        Self { job, fabric, orders, is_stopping: false }
    }

    fn carry_out_orders(&mut self) {
        while let Ok(order) = self.orders.orders.try_recv() {
            order(&mut self.fabric);
        }
    }
}

impl Step for Worker<'_> {
    type Outcome = Fabric;

    fn poll(&mut self, now_ns: u64) -> Polled {
        self.carry_out_orders();
        self.fabric.begin(now_ns);
        let (mut round, budget) = (Round::default(), &self.job.budget);
        let fabric = &mut self.fabric;
        let mut index = 0;
        while let Some((end, source)) = fabric.poll_at(index) {
            index += 1;
            let pass = |granted| fabric.pass(end, source, granted);
            match round.poll(budget, BURST_PACKETS, pass) {
                Ok(false) => {}
                Ok(true) => fabric.end_source(end, source),
                Err(error) => fabric.fail(end, error.into()),
            }
        }
        if !self.is_stopping {
            // Ports may still be added.
            round.keep_open();
        }
        let polled = round.polled(Next::WaitForOthers);
        if polled.next != Next::Poll {
            fabric.flush();
        }
        polled
    }

    fn wait(&mut self, pause: Pause<'_>) -> bool {
        if self.fabric.has_waiting() {
            return pause.until_next_look(LOOK_EVERY_NS);
        }
        let bell: &dyn Port = &self.orders.bell;
        let has_slept = pause.on(self.fabric.open_sources().chain([bell]));
        if has_slept {
            // Lower the bell before taking orders, so an order that arrives later rings it again.
            self.orders.bell.lower();
        }
        has_slept
    }

    fn show(&mut self) {
        if let Some(counter) = self.job.progress.received.first() {
            counter.store(&self.fabric.through());
        }
    }

    fn show_losses(&mut self) -> u64 {
        let places = self.fabric.places();
        let losses = self.fabric.losses(&places);
        self.job.progress.show_places(places);
        self.job.show_losses(0, losses)
    }

    fn stop_sources(&mut self) -> bool {
        self.is_stopping = true;
        self.fabric.stop_sources()
    }

    fn close(&mut self) {
        // Drop pending orders, so that their senders stop waiting for an answer.
        while self.orders.orders.try_recv().is_ok() {}
        self.fabric.finish();
    }

    fn end(self) -> Fabric {
        self.fabric
    }
}

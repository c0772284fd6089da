//! Tests that a sink that is slow to finish delays nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::thread;
use std::time::Duration;

use burstline_log::Burst;
use burstline_port::{
    LostPackets, OpenOptions, Port, PortAccount, PortError, PortInfo, Sink, open_sink, open_source,
};
use burstline_switch::SwitchConfig;

use super::*;
use crate::switch::{OpenedPort, OpenedTarget, own_mirror, switch};
use crate::{Fabric, Progress, Run, SwitchHandle, Threads};

const PACKETS: u64 = 1000;

/// A sink whose `finish` blocks until the test allows it.
struct Slow {
    sink: Box<dyn Sink>,
    may_end: Receiver<()>,
    is_gone: Arc<AtomicBool>,
}

impl Port for Slow {
    fn info(&self) -> &PortInfo {
        self.sink.info()
    }

    fn account(&self) -> PortAccount {
        self.sink.account()
    }

    fn finish(&mut self) -> Result<(), PortError> {
        // A test that fails must not hang.
        let told = self.may_end.recv_timeout(Duration::from_secs(60));
        assert_ne!(told, Err(RecvTimeoutError::Timeout), "something waited for this sink");
        self.sink.finish()
    }
}

impl Sink for Slow {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        self.sink.transmit(burst)
    }

    fn lost(&self) -> LostPackets {
        self.sink.lost()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        self.is_gone.store(true, Ordering::SeqCst);
    }
}

fn null() -> Box<dyn Sink> {
    open_sink(&"null:".parse().unwrap(), &OpenOptions::default()).unwrap()
}

/// Returns a switch whose port `a` has packets for port `b`, and whose mirror is this sink.
fn mirrored(sink: Slow) -> Fabric {
    let mut fabric = Fabric::new(SwitchConfig::default());
    let address = format!("gen:?packets={PACKETS}").parse().unwrap();
    let source = open_source(&address, &OpenOptions::default()).unwrap();
    fabric.add_target(OpenedTarget { name: "slow".to_owned(), sink: Box::new(sink) }).unwrap();
    for (name, sources) in [("a", vec![source]), ("b", Vec::new())] {
        let port = OpenedPort {
            name: name.to_owned(),
            config: Default::default(),
            mirror: None,
            sources,
            sink: null(),
            checkpoint: None,
        };
        fabric.add_port(port).unwrap();
    }
    fabric.add_mirror(own_mirror("a", "slow")).unwrap();
    fabric
}

#[test]
fn a_sink_that_is_slow_to_end_holds_nobody_up() {
    let (let_end, may_end) = mpsc::channel();
    let is_gone = Arc::new(AtomicBool::new(false));
    let fabric = mirrored(Slow { sink: null(), may_end, is_gone: Arc::clone(&is_gone) });
    let (handle, orders) = SwitchHandle::new().unwrap();
    let (stop, progress) = (AtomicBool::new(false), Progress::new(1));
    let (switched, seen) = thread::scope(|scope| {
        let running = scope
            .spawn(|| switch(fabric, orders, &Threads::default(), &Run::new(&stop, &progress)));
        let sent = |fabric: &mut Fabric| fabric.status().ports[0].counters.mirrored;
        while handle.ask(sent).unwrap() < PACKETS {
            thread::yield_now();
        }
        let removed = handle.ask(|fabric| {
            fabric.remove_mirrors("slow");
            fabric.remove("slow")
        });
        // The sink has not finished, and the switch still answers.
        let names = handle.ask(|fabric| fabric.names());
        let through = handle.ask(|fabric| fabric.through().packets);
        let was_gone = is_gone.load(Ordering::SeqCst);
        let changed =
            scope.spawn(|| handle.change(|_| ()).map(|()| is_gone.load(Ordering::SeqCst)));
        let_end.send(()).unwrap();
        let is_gone = changed.join().unwrap();
        stop.store(true, Ordering::SeqCst);
        removed.unwrap().unwrap();
        let switched = running.join().unwrap().unwrap();
        (switched, (names.unwrap(), through, was_gone, is_gone))
    });
    // A change waits until the sink is closed.
    assert_eq!(seen, (vec!["a".into(), "b".into()], Some(PACKETS), false, Some(true)));
    let rows = &switched.report.ports;
    let row = |name: &str| rows.iter().find(|row| row.port == name).unwrap();
    assert_eq!((row("> slow").delivered, row("a").unaccounted), (PACKETS, 0));
    assert_eq!((rows.len(), switched.report.total.unaccounted), (4, 0));
    assert!(switched.report.errors.is_empty(), "{:?}", switched.report.errors);
}

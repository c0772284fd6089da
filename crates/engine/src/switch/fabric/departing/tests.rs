//! Tests that the removal of a port whose packets wait for verdicts waits for nothing.

use burstline_port::{Loss, OpenOptions, Source, open_sink, open_source};
use burstline_switch::SwitchConfig;

use super::*;
use crate::inline::{Checkpoint, stalled};
use crate::switch::{OpenedPort, own_mirror};

const PACKETS: u64 = 10;

fn port(name: &str, sources: Vec<Box<dyn Source>>, checkpoint: Option<Checkpoint>) -> OpenedPort {
    OpenedPort {
        name: name.to_owned(),
        config: Default::default(),
        mirror: None,
        sources,
        sink: open_sink(&"null:".parse().unwrap(), &OpenOptions::default()).unwrap(),
        checkpoint,
    }
}

#[test]
fn a_port_whose_packets_wait_departs_and_holds_nobody_up() {
    // Its packets wait for a minute.
    let (checkpoint, worker) = stalled();
    let address = format!("gen:?packets={PACKETS}").parse().unwrap();
    let source = open_source(&address, &OpenOptions::default()).unwrap();
    let mut fabric = Fabric::new(SwitchConfig::default());
    fabric.add_port(port("a", vec![source], Some(checkpoint))).unwrap();
    fabric.add_port(port("b", Vec::new(), None)).unwrap();
    let end = fabric.switch.end("a").unwrap();
    fabric.pass(end, 0, PACKETS).unwrap();
    assert!(fabric.has_waiting(), "nothing waits");

    fabric.remove("a").unwrap();
    assert!(fabric.has_waiting(), "the removal waited for the verdicts");
    fabric.remove("a").unwrap();
    assert_eq!(fabric.names(), ["a", "b"]);
    assert!(fabric.add_mirror(own_mirror("b", "a")).is_err(), "a mirror may lead to it");
    let closed = fabric.when_closed();

    // Packets without a worker do not wait.
    drop(worker);
    while let Some((end, source)) = fabric.poll_at(0) {
        if fabric.pass(end, source, PACKETS).unwrap().state == PortState::Ended {
            fabric.end_source(end, source);
        }
    }
    closed.wait();
    assert_eq!(fabric.names(), ["b"]);
    let rows = fabric.close();
    let lost: u64 = rows.rows.iter().map(|row| row.lost.of(Loss::NoVerdict)).sum();
    assert_eq!((lost, rows.errors.len()), (PACKETS, 0));
}

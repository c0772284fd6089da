//! Rehearses a plan with small logs and a few packets, and asks the kernel where all pages are.
//!
//! ```text
//!   for each thread of the plan      pin, move the stack, write or read its logs, look
//!   for each log                     create it on its node, look
//! ```
//!
//! It receives and measures nothing: it proves where pages are, on the machine that the plan is
//! for.

use std::collections::BTreeMap;
use std::thread;

use burstline_log::{Log, LogConfig, Meta, Policy, Reader, ReaderConfig, Start, Writer};
use burstline_sys::memory::{NodeId, PageChoice};
use burstline_topo::Plan;

use crate::EngineError;
use crate::report::ThreadPlace;
use crate::runtime::{Threads, spawn};

/// Packets written to each log, of [`PACKET_BYTES`] bytes each: together less than one segment.
const PACKETS: u64 = 1000;
const PACKET_BYTES: usize = 60;

/// The memory of each log: the least that consists of whole 2 MiB pages.
const LOG_BYTES: usize = 2 << 20;

/// The longest sleep of a reader before it polls again, in ns.
const PATIENCE_NS: u64 = 100_000_000;

/// The outcome of a rehearsal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rehearsal {
    /// Its threads, in the order of the plan.
    pub threads: Vec<ThreadPlace>,
    /// Its logs, in the order of the plan: pages by node.
    pub logs: Vec<BTreeMap<NodeId, usize>>,
    /// Packets that the workers should have seen.
    pub packets_sent: u64,
    /// Packets that they saw.
    pub packets_seen: u64,
}

impl Rehearsal {
    /// Returns the deviations from the plan, one line each.
    pub fn faults(&self, plan: &Plan) -> Vec<String> {
        let mut faults = Vec::new();
        for (planned, found) in plan.threads.iter().zip(&self.threads) {
            if found.pinned_to != Some(planned.core) || found.node != Some(planned.node) {
                let node = found.node.map(|node| node.to_string()).unwrap_or_default();
                faults.push(format!("{} runs on node {node}, not {}", planned.name, planned.node));
            }
            faults.extend(elsewhere(&planned.name, "stack", planned.stack_node, &found.stack));
        }
        for (planned, found) in plan.logs.iter().zip(&self.logs) {
            faults.extend(elsewhere(&planned.name, "log", planned.node, found));
        }
        let (sent, seen) = (self.packets_sent, self.packets_seen);
        if sent != seen {
            faults.push(format!("{sent} packets sent, {seen} read"));
        }
        faults
    }
}

/// Returns a message if not all pages are on the planned node, or if no page is known.
fn elsewhere(
    name: &str,
    what: &str,
    planned: NodeId,
    found: &BTreeMap<NodeId, usize>,
) -> Option<String> {
    let pages: usize = found.values().sum();
    let there = found.get(&planned).copied().unwrap_or(0);
    (pages == 0 || there < pages).then(|| {
        format!("{what} of {name}: {} of {pages} pages are not on node {planned}", pages - there)
    })
}

/// Carries out `plan`.
///
/// # Errors
/// If a log cannot be created, a thread cannot be started or pinned, or its stack cannot be moved.
pub fn rehearse(plan: &Plan) -> Result<Rehearsal, EngineError> {
    let threads = Threads {
        cores: plan.threads.iter().map(|thread| thread.core).collect(),
        stack_nodes: plan.threads.iter().map(|thread| thread.stack_node).collect(),
        ..Threads::default()
    };
    let mut writers: Vec<Vec<Writer>> = plan.threads.iter().map(|_| Vec::new()).collect();
    let mut readers: Vec<Vec<Reader>> = plan.threads.iter().map(|_| Vec::new()).collect();
    let (mut logs, mut expected) = (Vec::new(), 0);
    for planned in &plan.logs {
        let (log, writer) = Log::create(LogConfig {
            name: "rehearsal".to_owned(),
            bytes: LOG_BYTES,
            pages: PageChoice::Auto,
            node: Some(planned.node),
            max_readers: planned.readers.len(),
            ..LogConfig::default()
        })?;
        for &reader in &planned.readers {
            let config =
                ReaderConfig { policy: Policy::Lossless, window: 1, start: Start::Segment };
            readers[reader].push(log.attach(config)?);
            expected += PACKETS;
        }
        writers[planned.writer].push(writer);
        logs.push(log.placement().nodes.clone());
    }
    let (places, seen) = run(plan, &threads, writers, readers)?;
    Ok(Rehearsal { threads: places, logs, packets_sent: expected, packets_seen: seen })
}

/// Runs all threads to their end.
fn run(
    plan: &Plan,
    threads: &Threads,
    writers: Vec<Vec<Writer>>,
    readers: Vec<Vec<Reader>>,
) -> Result<(Vec<ThreadPlace>, u64), EngineError> {
    thread::scope(|scope| {
        let mut crew = Vec::new();
        let roles = plan.threads.iter().zip(writers).zip(readers).enumerate();
        for (index, ((planned, writers), readers)) in roles {
            crew.push(spawn(scope, &planned.name, move || {
                let place = threads.settle(index, &planned.name);
                // Close the writers in any case, so that no reader waits forever.
                writers.into_iter().for_each(write);
                let seen: u64 = readers.into_iter().map(read).sum();
                let mut place = place?;
                place.look();
                Ok::<_, EngineError>((place, seen))
            })?);
        }
        let (mut places, mut packets) = (Vec::new(), 0);
        for thread in crew {
            let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (place, seen) = done?;
            places.push(place);
            packets += seen;
        }
        Ok((places, packets))
    })
}

fn write(mut writer: Writer) {
    for number in 0..PACKETS {
        let mut packet = [0; PACKET_BYTES];
        packet[..8].copy_from_slice(&number.to_ne_bytes());
        // They fit into one segment: the log is never full.
        let _ = writer.append(&packet, &Meta::new(number, PACKET_BYTES as u32, 0));
    }
    writer.publish();
}

/// Returns how many packets arrived with the contents that were written.
fn read(mut reader: Reader) -> u64 {
    let mut seen: u64 = 0;
    while !reader.is_finished() {
        match reader.next_burst() {
            Some(burst) => {
                for packet in burst.packets() {
                    let is_next = packet.bytes().first_chunk() == Some(&seen.to_ne_bytes());
                    seen += u64::from(is_next);
                }
            }
            None => reader.wait(PATIENCE_NS),
        }
    }
    seen
}

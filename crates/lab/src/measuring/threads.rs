//! Runs two threads on two cores, started and timed together.

use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;

use burstline_sys::affinity::{self, CoreId};
use burstline_sys::clock;

/// The cores of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    /// The producer's core.
    pub producer: CoreId,
    /// The consumer's core. It equals the producer's if only one is allowed, which raises a doubt.
    pub consumer: CoreId,
}

impl Cores {
    /// Returns the first two allowed cores.
    pub fn allowed() -> Self {
        let cores = affinity::allowed_cores().unwrap_or_default();
        let producer = cores.first().copied().unwrap_or(CoreId(0));
        Self { producer, consumer: cores.get(1).copied().unwrap_or(producer) }
    }

    /// Returns whether the cores differ.
    pub fn are_two(&self) -> bool {
        self.producer != self.consumer
    }
}

/// The results of both threads, and the time from the common start to the later end.
#[derive(Clone, Copy, Debug)]
pub struct Together<P, C> {
    /// Result of the producer.
    pub producer: P,
    /// Result of the consumer.
    pub consumer: C,
    /// Wall time, in s.
    pub seconds: f64,
}

/// Runs both from a common start, each pinned to its core. If pinning fails, the kernel chooses the
/// core.
///
/// # Panics
/// If a thread panics.
pub fn run_together<P: Send, C: Send>(
    cores: Cores,
    producer: impl FnOnce() -> P + Send,
    consumer: impl FnOnce() -> C + Send,
) -> Together<P, C> {
    let ready = AtomicU32::new(0);
    let gate = |core: CoreId| {
        let _ = affinity::pin_to(core);
        ready.fetch_add(1, Release); // pairs with the load below
        while ready.load(Acquire) != 2 {
            pause(&cores);
        }
        clock::monotonic_ns()
    };
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            gate(cores.consumer);
            (consumer(), clock::monotonic_ns())
        });
        let producer = scope.spawn(|| {
            let start_ns = gate(cores.producer);
            (producer(), start_ns, clock::monotonic_ns())
        });
        let (consumer, consumed_ns) = consumer.join().expect("the consumer does not panic");
        let (producer, start_ns, produced_ns) = producer.join().expect("nor does the producer");
        let seconds = (consumed_ns.max(produced_ns) - start_ns) as f64 / 1e9;
        Together { producer, consumer, seconds }
    })
}

fn pause(cores: &Cores) {
    match cores.are_two() {
        true => std::hint::spin_loop(),
        false => thread::yield_now(),
    }
}

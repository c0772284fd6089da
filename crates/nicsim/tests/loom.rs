//! Loom models of the five edges of `ring`, over its production code: who may touch a buffer when.
//!
//! Run with `make loom`. Each model has a variant that breaks the rule and must fail, which proves
//! that the model can detect the fault.
#![cfg(loom)]

use burstline_nicsim::descriptor::{DONE, Metadata, SENT, buffer_of, is_sent, receive_read};
use burstline_nicsim::ring::Ring;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// A ring of one descriptor, and the buffer that it points to. Loom fails a model in which one side
/// touches the cell while the other may.
struct Shared {
    ring: Ring,
    buffer: UnsafeCell<u32>,
}

// SAFETY: the models test that one thread at a time touches the cell; loom fails a model that
// breaks this before the access happens.
unsafe impl Sync for Shared {}
// SAFETY: the value is touched by one thread at a time, or loom fails the model.
unsafe impl Send for Shared {}

impl Shared {
    fn new() -> Arc<Self> {
        Arc::new(Self { ring: Ring::new(1), buffer: UnsafeCell::new(0) })
    }

    fn get(&self) -> u32 {
        // SAFETY: loom has checked that nobody writes the cell now.
        self.buffer.with(|buffer| unsafe { *buffer })
    }

    fn set(&self, value: u32) {
        // SAFETY: loom has checked that nobody reads or writes the cell now.
        self.buffer.with_mut(|buffer| unsafe { *buffer = value });
    }
}

fn wait(is_true: impl Fn() -> bool) {
    while !is_true() {
        thread::yield_now();
    }
}

/// Receives twice with the same buffer: E1 hands it to the device, E2 back.
fn receive(breaks: Breaks) {
    loom::model(move || {
        let shared = Shared::new();
        let device = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            for position in 0..2 {
                wait(|| device.ring.tail.read() > position);
                let slot = device.ring.slot(position);
                assert_eq!(buffer_of(slot.words()), 64);
                let words = Metadata { length: 60, ..Metadata::default() }.write_back(true);
                if breaks == Breaks::Device {
                    slot.store(words);
                    device.set(7 + position);
                    continue;
                }
                device.set(7 + position);
                slot.store(words);
            }
        });
        for position in 0..2 {
            shared.ring.slot(position).store(receive_read(64));
            shared.ring.tail.write(position + 1);
            if breaks == Breaks::Driver {
                shared.set(0);
            }
            wait(|| shared.ring.slot(position).second() & DONE != 0);
            assert_eq!(shared.get(), 7 + position);
        }
        thread.join().unwrap();
    });
}

/// Sends twice from the same buffer: E1 hands it to the device; E2, or E3 through `head`, back.
fn send(is_by_head: bool, breaks: Breaks) {
    loom::model(move || {
        let shared = Shared::new();
        let device = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            for position in 0..2 {
                wait(|| device.ring.tail.read() > position);
                if breaks == Breaks::Device {
                    device.ring.head.write(position + 1);
                }
                assert_eq!(device.get(), 7 + position);
                device.ring.slot(position).store([0, SENT]);
                device.ring.head.write(position + 1);
            }
        });
        for position in 0..2 {
            shared.set(7 + position);
            shared.ring.slot(position).store([64, 60]);
            shared.ring.tail.write(position + 1);
            match is_by_head {
                true => wait(|| shared.ring.head.read() > position),
                false => wait(|| is_sent(shared.ring.slot(position).second())),
            }
        }
        thread.join().unwrap();
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Breaks {
    Nobody,
    Device,
    Driver,
}

#[test]
fn a_buffer_is_received_into_and_read_by_turns() {
    receive(Breaks::Nobody);
}

#[test]
#[should_panic]
fn a_device_that_says_done_too_early_is_caught() {
    receive(Breaks::Device);
}

#[test]
#[should_panic]
fn a_driver_that_touches_a_posted_buffer_is_caught() {
    receive(Breaks::Driver);
}

#[test]
fn a_buffer_is_sent_from_and_written_by_turns() {
    send(false, Breaks::Nobody);
    send(true, Breaks::Nobody);
}

#[test]
#[should_panic]
fn a_head_that_passes_a_packet_too_early_is_caught() {
    send(true, Breaks::Device);
}

/// E4: a device that restarts reads the ring only after it was laid out again.
#[test]
fn a_ring_is_laid_out_anew_before_the_device_goes_on() {
    loom::model(|| {
        let shared = Shared::new();
        let device = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            device.ring.epoch.write(1);
            wait(|| device.ring.acknowledged.read() == 1);
            assert_eq!(buffer_of(device.ring.slot(0).words()), 128);
            assert_eq!(device.get(), 9);
        });
        wait(|| shared.ring.epoch.read() == 1);
        shared.set(9);
        shared.ring.slot(0).store(receive_read(128));
        shared.ring.tail.write(1);
        shared.ring.acknowledged.write(1);
        thread.join().unwrap();
    });
}

/// E5: contiguous packets in two buffers: the pointer hands each packet over, and the driver posts
/// the next buffer when it has processed all of one.
fn contiguous(is_too_early: bool) {
    loom::model(move || {
        let shared = Shared::new();
        let device = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            for units in 1..3 {
                // The second packet fills the same buffer again, which was posted again.
                wait(|| device.ring.tail.read() >= units);
                assert_eq!(buffer_of(device.ring.slot(units - 1).words()), 64);
                if is_too_early {
                    device.ring.head.write(units);
                }
                device.set(7 + units);
                device.ring.head.write(units);
            }
        });
        for units in 1..3 {
            shared.ring.slot(units - 1).store(receive_read(64));
            shared.ring.tail.write(units);
            wait(|| shared.ring.head.read() >= units);
            assert_eq!(shared.get(), 7 + units);
        }
        thread.join().unwrap();
    });
}

#[test]
fn what_lies_below_the_pointer_is_the_drivers() {
    contiguous(false);
}

#[test]
#[should_panic]
fn a_pointer_that_runs_ahead_is_caught() {
    contiguous(true);
}

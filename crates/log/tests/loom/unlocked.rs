//! A writer that finds the seats locked takes a segment that it retired before (`Reuse`, I7).

use std::mem;

use burstline_log::protocol::{self, Entry, Word64};
use burstline_log::reuse::{Reuse, Seat};
use burstline_log::watermark::Watermark;
use loom::sync::atomic::Ordering::Relaxed;
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::explore::exhaust;
use crate::{Log, Place, pages};

/// Fills one segment without the lock. Returns false if there is none.
fn write_unlocked(log: &Log, reuse: &mut Reuse, known: &[Place]) -> bool {
    let pages = known.iter().map(|place| (place.page(), place.window()));
    let Some(segment) = reuse.take_retired(log, pages, 0) else { return false };
    let sequence = reuse.newest();
    protocol::open(log, sequence, segment);
    // SAFETY: loom fails the model if another thread accesses the packet.
    log.packets[segment as usize].with_mut(|packet| unsafe { *packet = sequence });
    protocol::publish(log, segment, Watermark::open(sequence).with_count(1).sealed());
    true
}

/// A reader gets its seat and reads the first segment, past which its cursor already is. The writer
/// retires that segment under the lock, and then takes it without. `is_up_to_date`: it knows the
/// seats that were there when it retired the segment, not only earlier ones.
fn take_unlocked(is_up_to_date: bool) {
    let log = Log::new(3, true);
    let seats = Arc::new(Mutex::new(Vec::<Place>::new()));
    let mut reuse = Reuse::new(3).cycling(3);
    (0..2).for_each(|_| assert!(log.write::<Place>(&mut reuse, &[])));
    let reader = {
        let (log, seats) = (Arc::clone(&log), Arc::clone(&seats));
        thread::spawn(move || {
            let place = pages(1).remove(0);
            place.0.cursor.store(9, Relaxed);
            seats.lock().unwrap().push(place.clone());
            if let Entry::Entered { segment, mark } = protocol::enter(&*log, &*place.0, 0, 1) {
                log.check_packet(1, segment, mark);
                protocol::release(&*place.0, 0);
            }
        })
    };
    let mut known = seats.lock().unwrap().clone();
    {
        let seats = seats.lock().unwrap();
        assert!(log.write(&mut reuse, &seats), "the third segment is a spare");
        if is_up_to_date {
            drop(mem::replace(&mut known, seats.clone()));
        }
    }
    let has_taken = write_unlocked(&log, &mut reuse, &known);
    assert!(has_taken || !known.is_empty(), "nobody else pins it");
    reader.join().unwrap();
}

#[test]
fn e2_holds_where_the_seats_are_locked() {
    exhaust(|| take_unlocked(true));
}

#[test]
#[should_panic]
fn e2_fails_where_the_writer_knows_earlier_seats_only() {
    exhaust(|| take_unlocked(false));
}

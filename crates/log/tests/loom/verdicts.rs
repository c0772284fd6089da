//! Models the edges of `verdict`: a reader gives two verdicts, each with a replacement, in one
//! place, and a publisher takes them.

use burstline_log::verdict::{self, VerdictWords};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::explore::exhaust;
use super::word::Word;

const REPLACE: u8 = 3;

/// A column of one word, with room for one replacement.
struct Column {
    word: Word,
    place: Word,
    settled: Word,
    room: UnsafeCell<u64>,
}

// SAFETY: loom checks every access to the cell, which is the purpose of the models.
unsafe impl Sync for Column {}
// SAFETY: loom checks every access to the cell, from any thread.
unsafe impl Send for Column {}

impl VerdictWords for Column {
    type Word = Word;
    fn word(&self, _number: u64) -> &Word {
        &self.word
    }
    fn place(&self, _number: u64) -> &Word {
        &self.place
    }
    fn settled(&self) -> &Word {
        &self.settled
    }
}

fn replace(column: &Column, number: u64) {
    // SAFETY: loom fails the model if another thread accesses the room.
    column.room.with_mut(|room| unsafe { *room = 100 + number });
    verdict::give(column, number, REPLACE, Some(10 + number));
}

fn take(column: &Column, number: u64) {
    while verdict::look(column, number).is_none() {
        thread::yield_now();
    }
    assert_eq!(verdict::look(column, number), Some(REPLACE));
    assert_eq!(verdict::place(column, number), 10 + number, "the place of another");
    // SAFETY: loom fails the model if another thread writes the room at the same time.
    let bytes = column.room.with(|room| unsafe { *room });
    assert_eq!(bytes, 100 + number, "the replacement of another");
    verdict::settle(column, number + 1);
}

/// `is_seen`: E5 holds. `is_settled`: E6 holds.
fn replaced_twice(is_seen: bool, is_settled: bool) {
    let column = Arc::new(Column {
        word: Word::new(is_seen),
        place: Word::new(true),
        settled: Word::new(is_settled),
        room: UnsafeCell::new(0),
    });
    let reader = thread::spawn({
        let column = Arc::clone(&column);
        move || {
            replace(&column, 1);
            while verdict::settled(&*column) <= 1 {
                thread::yield_now();
            }
            replace(&column, 2);
        }
    });
    take(&column, 1);
    take(&column, 2);
    reader.join().unwrap();
}

#[test]
fn e5_verdict_and_e6_settled() {
    exhaust(|| replaced_twice(true, true));
}

#[test]
#[should_panic]
fn e5_fails_without_its_order() {
    exhaust(|| replaced_twice(false, true));
}

#[test]
#[should_panic]
fn e6_fails_without_its_order() {
    exhaust(|| replaced_twice(true, false));
}

//! Models the edge of `promise`: what was published before a promise is there for who has seen the
//! promise. The same holds for a packet that one thread has read and named to another.

use burstline_log::reuse::Reuse;
use burstline_log::{promise, protocol};
use loom::sync::Arc;
use loom::thread;

use super::explore::exhaust;
use super::word::Word;
use super::{Log, Place, pages};

/// The time that the only packet is older than.
const LATER_NS: u64 = 2;

/// Fills a segment and promises that what comes is later.
fn fill(log: Arc<Log>, pages: Vec<Place>, word: Arc<Word>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        assert!(log.write(&mut Reuse::new(2), &pages));
        promise::make(&*word, LATER_NS);
    })
}

fn promised(is_ordered: bool) {
    let (log, pages, word) = (Log::new(2, true), pages(1), Arc::new(Word::new(is_ordered)));
    let writer = fill(Arc::clone(&log), pages.clone(), Arc::clone(&word));
    if promise::look(&*word) == LATER_NS {
        assert!(log.read(&pages[0].0, 1), "older than the promise, and not there");
    }
    writer.join().unwrap();
}

/// A leader reads the packet and names it; a follower reads what is named. The writer opens the
/// segment beforehand or, if `opens`, beside them.
fn followed(opens: bool, is_ordered: bool) {
    let (log, pages, name) = (Log::new(2, true), pages(2), Arc::new(Word::new(is_ordered)));
    let segment = Reuse::new(2).take(&*log, &pages, 0, |_| false).unwrap();
    if !opens {
        protocol::open(&*log, 1, segment);
    }
    let writer = {
        let log = Arc::clone(&log);
        thread::spawn(move || {
            if opens {
                protocol::open(&*log, 1, segment);
            }
            log.put(segment, 1);
        })
    };
    let leader = {
        let (log, Place(page, _), name) = (Arc::clone(&log), pages[0].clone(), Arc::clone(&name));
        thread::spawn(move || {
            if log.read(&page, 1) {
                promise::make(&*name, 1);
            }
        })
    };
    if promise::look(&*name) == 1 {
        assert!(log.read(&pages[1].0, 1), "named, and not there");
    }
    writer.join().unwrap();
    leader.join().unwrap();
}

#[test]
fn e7_promise() {
    exhaust(|| promised(true));
}

#[test]
#[should_panic(expected = "and not there")]
fn e7_fails_without_its_order() {
    exhaust(|| promised(false));
}

#[test]
fn e7_what_a_leader_names_is_there_for_followers() {
    exhaust(|| followed(true, true));
}

#[test]
#[should_panic(expected = "and not there")]
fn e7_fails_where_names_have_no_order() {
    exhaust(|| followed(true, false));
}

//! The exported functions, called as from C: content of bursts, held bursts, and threads.

use std::ffi::{CStr, CString};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use burstline::{
    BurstView, FLAG_FACTS, FOREVER, NO_FOLLOW, Options, PortName, Reader, Statistics, Status,
    TRUST_NOBODY, VERDICT_DROP, VERDICT_PASS, VERDICTS, burstline_account, burstline_close,
    burstline_error_text, burstline_next, burstline_open, burstline_port_name, burstline_release,
    burstline_replace, burstline_verdict, burstline_version,
};
use burstline_log::{Ending, Log, LogConfig, Ruling, VerdictTaker, Writer};
use burstline_share::{PublishConfig, Publisher};

use crate::common::{Directory, append, log, packet, time_ns, until};

fn publish(name: &str, logs: usize) -> (Publisher, Vec<Writer>) {
    let (logs, writers): (Vec<Log>, Vec<Writer>) = (0..logs).map(|_| log()).unzip();
    (Publisher::start(&PublishConfig::new(name), logs).unwrap(), writers)
}

/// A reader as C holds it.
struct Open(*mut Reader);

// SAFETY: the pointer is a number, and the functions state which threads may call them.
unsafe impl Send for Open {}
// SAFETY: shared, it is still a number, and the functions state which threads may call them.
unsafe impl Sync for Open {}

impl Open {
    fn new(name: &str, options: Options) -> Self {
        let (name, mut reader) = (CString::new(name).unwrap(), ptr::null_mut());
        // SAFETY: all three arguments satisfy the header's contract.
        let status = unsafe { burstline_open(name.as_ptr(), &options, &mut reader) };
        assert_eq!(status, Status::Ok, "{}", text(ptr::null()));
        Self(reader)
    }

    fn next(&self, timeout_ns: u64) -> Result<BurstView, Status> {
        // SAFETY: an all-zero burst is valid.
        let mut burst: BurstView = unsafe { std::mem::zeroed() };
        // SAFETY: it may be written.
        match unsafe { burstline_next(self.0, timeout_ns, &mut burst) } {
            Status::Ok => Ok(burst),
            status => Err(status),
        }
    }

    fn release(&self, mut burst: BurstView) -> Status {
        // SAFETY: it may be written.
        unsafe { burstline_release(self.0, &mut burst) }
    }

    fn verdict(&self, burst: &BurstView, from: u32, count: u32, verdict: u32) -> Status {
        // SAFETY: the burst may be read.
        unsafe { burstline_verdict(self.0, burst, from, count, verdict) }
    }

    fn replace(&self, burst: &BurstView, index: u32, bytes: &[u8]) -> Status {
        // SAFETY: the burst and that many bytes may be read.
        unsafe { burstline_replace(self.0, burst, index, bytes.as_ptr(), bytes.len() as u64) }
    }

    fn account(&self) -> Result<Statistics, Status> {
        // SAFETY: all-zero statistics are valid.
        let mut found: Statistics = unsafe { std::mem::zeroed() };
        found.size = size_of::<Statistics>() as u32;
        // SAFETY: it may be written, up to the size that it states.
        match unsafe { burstline_account(self.0, &mut found) } {
            Status::Ok => Ok(found),
            status => Err(status),
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        burstline_close(self.0);
    }
}

fn text(reader: *const Reader) -> String {
    // SAFETY: never null; a string that lives until this thread's next call.
    unsafe { CStr::from_ptr(burstline_error_text(reader)) }.to_str().unwrap().to_owned()
}

/// Returns the bytes of packet `index` of a burst, found like the header's functions do.
fn bytes_of(burst: &BurstView, index: u32) -> &[u8] {
    // SAFETY: the worklist has `count` descs and the burst is held.
    let desc = unsafe { *burst.worklist.add((burst.count - 1 - index) as usize) };
    let (offset, length) = (desc.place as u32 as usize, (desc.place >> 45) as usize);
    assert!(offset + length <= burst.bytes as usize);
    // SAFETY: in bounds, as just checked.
    unsafe { slice::from_raw_parts(burst.base.add(offset), length) }
}

/// Checks that a burst's packets match their numbers.
fn check(burst: &BurstView) {
    for index in 0..burst.count {
        let number = burst.first_packet + u64::from(index);
        assert_eq!(bytes_of(burst, index), packet(number));
        // SAFETY: the library has lent `count` descs there.
        let desc = unsafe { *burst.worklist.add((burst.count - 1 - index) as usize) };
        assert_eq!((desc.flow as u32, desc.place >> 32 & 0xff), (number as u32, number % 3));
        if desc.place >> 40 & u64::from(FLAG_FACTS) == 0 {
            assert_eq!(burst.base_time_ns + (desc.flow >> 32), time_ns(number));
        }
    }
}

#[test]
fn bursts_are_held_up_to_the_window_and_released_in_any_order() {
    let directory = Directory::new();
    let (_publisher, mut writers) = publish(&directory.name("tap"), 1);
    for options in [
        Options { window: 2, ..Options::default() },
        Options { window: 2, trust: TRUST_NOBODY, ..Options::default() },
    ] {
        let reader = Open::new(&directory.name("tap"), options);
        // As many packets as fill three segments.
        append(&mut writers[0], 0, 1000);
        let mut held = Vec::new();
        let full = loop {
            match reader.next(FOREVER) {
                Ok(burst) => held.push(burst),
                Err(status) => break status,
            }
        };
        assert_eq!(full, Status::ErrorWindow);
        assert!(text(reader.0).contains("all 2 segments of the window"), "{}", text(reader.0));
        assert_eq!(held.len(), 2);
        assert_eq!(reader.account().unwrap().held, 2);
        // The writer reuses every segment that is not held.
        append(&mut writers[0], 1000, 20_000);
        let first = held[0].first_packet;
        for burst in &mut held {
            // `append` numbers its packets from 0.
            burst.first_packet -= first;
            check(burst);
        }
        let mut later = held.pop().unwrap();
        assert_eq!(reader.release(later), Status::Ok);
        assert_eq!(reader.release(later), Status::ErrorNotHeld);
        later = reader.next(FOREVER).unwrap();
        assert_eq!(reader.release(held[0]), Status::Ok);
        assert_eq!(reader.release(later), Status::Ok);
    }
}

/// What C says of a packet is what the publisher takes, for this packet and no other.
#[test]
fn verdicts_and_replacements_are_those_of_their_packets() {
    let directory = Directory::new();
    let config = LogConfig { bytes: 8 << 20, takes_verdicts: true, ..LogConfig::default() };
    let (log, mut writer) = Log::create(config).unwrap();
    let mut taker = VerdictTaker::new(&log);
    let name = directory.name("ips");
    let _publisher = Publisher::start(&PublishConfig::new(&name), vec![log]).unwrap();
    let reader = Open::new(&name, Options { verdicts: VERDICTS, ..Options::default() });
    assert!(taker.has_changed() && taker.has_giver());
    append(&mut writer, 0, 6);
    let burst = reader.next(FOREVER).unwrap();
    assert_eq!((burst.first_packet, burst.count), (0, 6));

    let bytes = packet(77);
    assert_eq!(reader.replace(&burst, 4, &bytes), Status::Ok);
    assert_eq!(reader.replace(&burst, 0, &bytes[..13]), Status::ErrorArgument);
    assert_eq!(reader.verdict(&burst, 1, 2, VERDICT_DROP), Status::Ok);
    assert_eq!(reader.verdict(&burst, 5, 1, VERDICT_PASS), Status::Ok);
    assert_eq!(reader.verdict(&burst, 5, 2, VERDICT_DROP), Status::ErrorArgument);
    assert_eq!(text(reader.0), "packets [5, 7) of a burst of 6");
    assert_eq!(reader.release(burst), Status::Ok);
    assert_eq!(reader.verdict(&burst, 0, 1, VERDICT_DROP), Status::ErrorNotHeld);
    assert_eq!(reader.replace(&burst, 0, &bytes), Status::ErrorNotHeld);

    let taken: Vec<_> = (0..6).map(|number| taker.look(number)).collect();
    let [None, Some(Ruling::Drop), Some(Ruling::Drop), None, Some(Ruling::Replace(place)), last] =
        taken[..]
    else {
        panic!("{taken:?}")
    };
    assert_eq!(last, Some(Ruling::Pass));
    let mut copy = Vec::new();
    taker.replacement(place, &mut copy);
    assert_eq!(copy, bytes);
}

#[test]
fn several_logs_are_read_in_turn_or_one_of_them() {
    let directory = Directory::new();
    let (publisher, mut writers) = publish(&directory.name("tap"), 3);
    let all = Open::new(&directory.name("tap"), Options::default());
    let only = Open::new(&directory.name("tap"), Options { log: 2, ..Options::default() });
    for (log, writer) in (1..).zip(&mut writers) {
        append(writer, 0, 10 * log);
    }
    let mut packets = [0; 3];
    while let Ok(burst) = all.next(0) {
        check(&burst);
        packets[burst.log as usize] += burst.count;
        all.release(burst);
    }
    assert_eq!(packets, [10, 20, 30]);
    let burst = only.next(0).unwrap();
    assert_eq!((burst.log, burst.count, burst.epoch), (2, 30, publisher.epoch()));
    let found = all.account().unwrap();
    assert_eq!((found.logs, found.offered, found.delivered, found.lag), (3, 60, 60, 0));
    append(&mut writers[0], 10, 15);
    let found = all.account().unwrap();
    assert_eq!((found.offered, found.delivered, found.lag, found.held), (65, 60, 5, 0));
    assert_eq!(found.writer_pid, std::process::id());

    let mut port = PortName { link_type: 0, name: [0; 60] };
    // SAFETY: it may be written.
    let status = unsafe { burstline_port_name(only.0, 2, 1, &mut port) };
    let name: Vec<u8> = port.name.iter().map(|&c| c as u8).take_while(|&b| b != 0).collect();
    assert_eq!((status, port.link_type, name), (Status::Ok, 1, b"eth1".to_vec()));
    // SAFETY: it may be written.
    let status = unsafe { burstline_port_name(only.0, 0, 1, &mut port) };
    assert_eq!(status, Status::ErrorArgument);
    assert_eq!(text(only.0), "log 0: this reader has only logs [2, 3)");
}

#[test]
fn a_stopped_writer_is_followed_by_the_next_or_is_the_end() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let (publisher, mut writers) = publish(&name, 1);
    let follower = Open::new(&name, Options::default());
    let stayer = Open::new(&name, Options { restarts: NO_FOLLOW, ..Options::default() });
    append(&mut writers[0], 0, 100);
    writers.remove(0).finish(Ending::Stopped);
    let read = |reader: &Open| {
        let mut packets = 0;
        loop {
            match reader.next(0) {
                Ok(burst) => {
                    packets += burst.count;
                    reader.release(burst);
                }
                Err(status) => return (packets, status),
            }
        }
    };
    assert_eq!(read(&stayer), (100, Status::End));
    assert_eq!(read(&follower), (100, Status::None));
    assert_eq!(follower.account().unwrap().is_waiting, 1);
    // The same publisher still exists, and is not mistaken for the next one.
    assert_eq!(follower.next(200_000_000).unwrap_err(), Status::None);
    let next = publisher.epoch() + 1;
    drop(publisher);
    assert_eq!(follower.next(0).unwrap_err(), Status::None);

    let (_publisher, mut writers) = publish(&name, 1);
    // Packets that the next publisher writes before it is found are read, too.
    append(&mut writers[0], 0, 30);
    let burst = follower.next(FOREVER).unwrap();
    assert_eq!((burst.first_packet, burst.epoch), (0, next));
    let count = burst.count;
    follower.release(burst);
    writers.remove(0).finish(Ending::Final);
    let (rest, status) = read(&follower);
    assert_eq!((count + rest, status), (30, Status::End));
    let found = follower.account().unwrap();
    assert_eq!((found.offered, found.delivered, found.missed), (130, 130, 0));
    assert_eq!((found.writer_down, found.epoch, found.is_waiting), (1, next, 0));
}

#[test]
fn one_thread_reads_and_any_thread_releases_or_closes() {
    let directory = Directory::new();
    let (_publisher, mut writers) = publish(&directory.name("tap"), 1);
    let reader = Open::new(&directory.name("tap"), Options { window: 2, ..Options::default() });
    append(&mut writers[0], 0, 10);
    let burst = reader.next(FOREVER).unwrap();
    let is_reading = AtomicBool::new(false);
    thread::scope(|scope| {
        let sleeper = scope.spawn(|| {
            is_reading.store(true, Relaxed); // a thread that sees it waits for the rest, below
            loop {
                // The other thread may be polling this reader at the moment.
                match reader.next(FOREVER).unwrap_err() {
                    Status::ErrorBusy => {}
                    status => return status,
                }
            }
        });
        until("it reads", || is_reading.load(Relaxed));
        until("it is in the call", || reader.account() == Err(Status::ErrorBusy));
        assert_eq!(text(reader.0), "another thread is in a call with this reader");
        check(&burst);
        assert_eq!(reader.release(burst), Status::Ok);
        assert_eq!(burstline_close(reader.0), Status::Ok);
        assert_eq!(sleeper.join().unwrap(), Status::ErrorClosed);
    });
}

#[test]
fn the_text_of_an_open_is_its_threads_own() {
    let directory = Directory::new();
    let fail = |name: String| {
        let (name, mut reader) = (CString::new(name).unwrap(), ptr::null_mut());
        // SAFETY: a C string, a place for a handle, and NULL for no options.
        let status = unsafe { burstline_open(name.as_ptr(), ptr::null(), &mut reader) };
        assert_eq!((status, reader), (Status::ErrorAbsent, ptr::null_mut()));
    };
    fail(directory.name("here"));
    let there = thread::scope(|scope| {
        let there = scope.spawn(|| {
            let before = text(ptr::null());
            fail(directory.name("there"));
            (before, text(ptr::null()))
        });
        there.join().unwrap()
    });
    assert!(there.0.is_empty() && there.1.contains("/there:"), "{there:?}");
    assert!(text(ptr::null()).contains("/here:"));
    // SAFETY: a constant string.
    let version = unsafe { CStr::from_ptr(burstline_version()) };
    assert_eq!(version.to_str().unwrap(), env!("CARGO_PKG_VERSION"));
}

/// B1 of the crate: code outside `border` could unwind into C.
#[test]
fn each_exported_function_is_one_call_of_border() {
    let exports = include_str!("../../src/exports.rs");
    let source = [exports, include_str!("../../src/publishing.rs")].concat();
    let functions = source.split("#[unsafe(no_mangle)]").skip(1);
    let bodies = functions.map(|text| text.split_once(" {\n").expect("a body").1.trim_start());
    let outside: Vec<&str> = bodies
        .filter(|body| !body.starts_with("border("))
        .map(|body| body.lines().next().unwrap())
        .collect();
    assert_eq!(outside, ["border::deliberate::ask(place);"], "it only sets a flag, for tests");
}

//! Publishing as from C: packets that readers get, the fate of the rest, and threads.

use std::ffi::{CStr, CString, c_char};
use std::ptr;
use std::thread;
use std::time::Duration;

use burstline::{
    Flow, LogWriter, PacketToWrite, PublishOptions, Status, WriterStatistics, burstline_error_text,
    burstline_finish, burstline_packet_flow, burstline_publish, burstline_write,
    burstline_writer_account, burstline_writer_port,
};
use burstline_log::Policy;
use burstline_share::{AttachConfig, Follower, Next};

use crate::common::Directory;

/// A writer as C holds it.
struct Open(*mut LogWriter);

// SAFETY: the pointer is a number, and the functions state which threads may call them.
unsafe impl Sync for Open {}

fn text() -> String {
    // SAFETY: never null; a string that lives until this thread's next call.
    unsafe { CStr::from_ptr(burstline_error_text(ptr::null())) }.to_str().unwrap().to_owned()
}

fn publish(name: &str, options: &PublishOptions) -> Result<Open, Status> {
    let (name, mut writer) = (CString::new(name).unwrap(), ptr::null_mut());
    // SAFETY: all three arguments satisfy the header's contract.
    match unsafe { burstline_publish(name.as_ptr(), options, &mut writer) } {
        Status::Ok => Ok(Open(writer)),
        status => {
            assert!(writer.is_null());
            Err(status)
        }
    }
}

fn plain(bytes: &[u8]) -> PacketToWrite {
    PacketToWrite {
        bytes: bytes.as_ptr(),
        length: bytes.len() as u32,
        original_length: 0,
        time_ns: 0,
        drops_before: 0,
        port: 0,
        flags: 0,
    }
}

impl Open {
    fn write(&self, packets: &[PacketToWrite]) -> (Status, u64) {
        let mut written = 77;
        let (at, count) = (packets.as_ptr(), packets.len() as u64);
        // SAFETY: `packets` has `count` elements, each with its bytes.
        (unsafe { burstline_write(self.0, at, count, &mut written) }, written)
    }

    fn account(&self) -> WriterStatistics {
        // SAFETY: all-zero statistics are valid.
        let mut found: WriterStatistics = unsafe { std::mem::zeroed() };
        found.size = size_of::<WriterStatistics>() as u32;
        // SAFETY: it may be written, up to the size that it states.
        assert_eq!(unsafe { burstline_writer_account(self.0, &mut found) }, Status::Ok);
        assert_eq!(found.offered, found.published + found.full, "the ledger closes");
        found
    }
}

fn follow(name: &str, policy: Policy) -> Follower {
    let attach = AttachConfig { policy, ..AttachConfig::default() };
    Follower::open(name, &attach, false).unwrap()
}

#[test]
fn readers_get_what_c_publishes() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let writer = publish(&name, &PublishOptions::default()).unwrap();
    // SAFETY: a C string.
    let named = unsafe { burstline_writer_port(writer.0, 3, 101, c"tun0".as_ptr()) };
    assert_eq!(named, Status::Ok);
    let mut reader = follow(&name, Policy::Lossy);
    let (one, two) = ([0x45; 60], [7; 1500]);
    let cut = PacketToWrite { original_length: 9000, drops_before: 4, port: 3, ..plain(&two) };
    let late = PacketToWrite { time_ns: 123_456_789, flags: 16 | 8, ..plain(&one) };
    assert_eq!(writer.write(&[plain(&one), cut, late]), (Status::Ok, 3));
    assert_eq!(burstline_finish(writer.0), Status::Ok);
    let mut seen = Vec::new();
    loop {
        match reader.next(10_000_000_000, || false).unwrap() {
            Next::Burst { held, .. } => seen.extend(held.burst().packets().map(|packet| {
                let facts = (packet.original_length(), packet.drops_before(), packet.port());
                let flags = packet.meta().flags.bits();
                (packet.bytes().to_vec(), facts, flags, packet.time_ns())
            })),
            Next::End => break,
            _ => panic!("neither packets nor an end"),
        }
    }
    let now = burstline_sys::clock::realtime_ns();
    assert_eq!(seen.len(), 3);
    assert_eq!((&seen[0].0[..], seen[0].1, seen[0].2), (&one[..], (60, 0, 0), 0));
    assert!(now - seen[0].3 < 60_000_000_000, "it has the time of the call");
    assert_eq!((&seen[1].0[..], seen[1].1), (&two[..], (9000, 4, 3)));
    assert_eq!((seen[2].2, seen[2].3), (24, 123_456_789));
    assert_eq!(reader.port_name(0, 3), Some((101, "tun0".to_owned())));
    assert_eq!(reader.port_name(0, 0), Some((1, "tap".to_owned())), "nothing was said of it");
}

#[test]
fn a_port_that_was_not_named_has_the_link_type_of_the_options() {
    let directory = Directory::new();
    let name = directory.name("raw");
    let options = PublishOptions { link_type: 101, ..PublishOptions::default() };
    let writer = publish(&name, &options).unwrap();
    let reader = follow(&name, Policy::Lossy);
    assert_eq!(writer.write(&[plain(&[0x45; 60])]), (Status::Ok, 1));
    assert_eq!(reader.port_name(0, 0), Some((101, "raw".to_owned())));
    assert_eq!(burstline_finish(writer.0), Status::Ok);
}

#[test]
fn a_reader_that_stands_still_costs_one_wait_and_packets_by_name() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let options =
        PublishOptions { lossless: 1, log_bytes: 2 << 20, wait_ms: 20, ..Default::default() };
    let writer = publish(&name, &options).unwrap();
    let mut reader = follow(&name, Policy::Lossless);
    let bytes = [1; 1000];
    let packets = vec![plain(&bytes); 4000];
    let (status, written) = writer.write(&packets);
    assert_eq!(status, Status::None);
    assert!((1000..4000).contains(&written), "{written} fit");
    let before = writer.account();
    assert_eq!((before.offered, before.published, before.readers), (4000, written, 1));
    assert_eq!(writer.write(&packets), (Status::None, 0), "nothing has moved");
    let mut delivered = 0;
    while delivered < written {
        match reader.next(10_000_000_000, || false).unwrap() {
            Next::Burst { held, .. } => delivered += held.burst().len() as u64,
            _ => panic!("{delivered} of {written}"),
        }
    }
    let (status, again) = writer.write(&packets[..10]);
    assert_eq!((status, again), (Status::Ok, 10), "and it goes on");
    assert_eq!(writer.account().full, 8000 - written);
    assert_eq!(burstline_finish(writer.0), Status::Ok);
}

#[test]
fn mistakes_are_a_status_and_a_text() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let fine = PublishOptions::default();
    for (wrong, words) in [
        (PublishOptions { size: 31, ..fine }, "options.size is 31"),
        (PublishOptions { mode: 0o1000, ..fine }, "options.mode is 512"),
        (PublishOptions { log_bytes: 5, ..fine }, "options.log_bytes is 5"),
        (PublishOptions { hash: 1, ..fine }, "options.hash is 1"),
        (PublishOptions { lossless: 2, ..fine }, "options.lossless is 2"),
        (PublishOptions { wait_ms: 60_001, ..fine }, "options.wait_ms is 60001"),
        (PublishOptions { link_type: 1 << 16, ..fine }, "options.link_type is 65536"),
    ] {
        assert_eq!(publish(&name, &wrong).err(), Some(Status::ErrorArgument));
        assert!(text().contains(words), "{}", text());
    }
    let writer = publish(&name, &fine).unwrap();
    assert!(matches!(publish(&name, &fine), Err(Status::ErrorSystem | Status::ErrorRefused)));
    let bytes = [0; 60];
    let short = PacketToWrite { length: 0, ..plain(&bytes) };
    for (wrong, words) in [
        (short, "packets[1] has 0 bytes"),
        (PacketToWrite { length: 131_073, ..plain(&bytes) }, "packets[1] has 131073 bytes"),
        (PacketToWrite { bytes: ptr::null(), ..plain(&bytes) }, "packets[1] has 60 bytes"),
        (PacketToWrite { port: 256, ..plain(&bytes) }, "packets[1] has port 256"),
        (PacketToWrite { flags: 1, ..plain(&bytes) }, "flags 0x1"),
        (PacketToWrite { flags: 64, ..plain(&bytes) }, "flags 0x40"),
    ] {
        assert_eq!(writer.write(&[plain(&bytes), wrong]), (Status::ErrorArgument, 1));
        assert!(text().contains(words), "{}", text());
    }
    assert_eq!(writer.account().published, 6, "those before them are published");
    // SAFETY: NULL is checked.
    let status = unsafe { burstline_write(writer.0, ptr::null(), 1, ptr::null_mut()) };
    assert_eq!((status, text()), (Status::ErrorArgument, "packets is NULL".to_owned()));
    // SAFETY: NULL is checked.
    let status = unsafe { burstline_writer_port(writer.0, 0, 1, ptr::null::<c_char>()) };
    assert_eq!(status, Status::ErrorArgument);
    assert_eq!(burstline_finish(writer.0), Status::Ok);
    assert_eq!(burstline_finish(writer.0), Status::ErrorClosed);
    assert_eq!(writer.write(&[plain(&bytes)]), (Status::ErrorClosed, 0));
    assert_eq!(burstline_finish(ptr::null_mut()), Status::Ok);
}

#[test]
fn one_thread_writes_at_a_time() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let writer = publish(&name, &PublishOptions::default()).unwrap();
    let bytes = [3; 60];
    let published: u64 = thread::scope(|scope| {
        let write = || {
            let packets = [plain(&bytes); 100];
            (0..200).fold(0, |sum, _| match writer.write(&packets) {
                (Status::Ok, written) => sum + written,
                (Status::ErrorBusy, 0) => sum,
                other => panic!("{other:?}"),
            })
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(write)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(writer.account().published, published);
    burstline_finish(writer.0);
}

#[test]
fn a_log_ends_though_another_thread_is_in_a_call() {
    let directory = Directory::new();
    let name = directory.name("tap");
    let bytes = [3; 60];
    for _ in 0..4 {
        let writer = publish(&name, &PublishOptions::default()).unwrap();
        let mut reader = follow(&name, Policy::Lossy);
        thread::scope(|scope| {
            let write = || while writer.write(&[plain(&bytes)]).0 == Status::Ok {};
            let thread = scope.spawn(write);
            thread::sleep(Duration::from_millis(2));
            assert_eq!(burstline_finish(writer.0), Status::Ok);
            thread.join().unwrap();
        });
        assert_eq!(writer.write(&[plain(&bytes)]), (Status::ErrorClosed, 0));
        loop {
            match reader.next(10_000_000_000, || false).unwrap() {
                Next::Burst { .. } => {}
                Next::End => break,
                _ => panic!("neither packets nor an end"),
            }
        }
    }
}

#[test]
fn a_packets_flow_is_what_its_bytes_say() {
    let mut packet = [0; 60];
    packet[12..15].copy_from_slice(&[8, 0, 0x45]);
    packet[16..18].copy_from_slice(&46_u16.to_be_bytes());
    packet[22..24].copy_from_slice(&[64, 17]);
    packet[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    packet[34..38].copy_from_slice(&[0x03, 0xe8, 0x00, 0x35]);
    packet[38..40].copy_from_slice(&26_u16.to_be_bytes());
    let flow = |packet: &[u8]| {
        // SAFETY: an all-zero flow is valid.
        let mut flow: Flow = unsafe { std::mem::zeroed() };
        let (at, length) = (packet.as_ptr(), packet.len() as u64);
        // SAFETY: `length` bytes, and a place for the flow.
        (unsafe { burstline_packet_flow(1, at, length, &mut flow) }, flow)
    };
    let (status, found) = flow(&packet);
    assert_eq!(status, Status::Ok);
    assert_eq!((&found.source[10..], found.source_port), (&[255, 255, 10, 0, 0, 1][..], 1000));
    assert_eq!((found.destination[15], found.destination_port, found.protocol), (2, 53, 17));
    assert_eq!((found.version, found.has_ports), (4, 1));
    let mut answer = packet;
    answer[26..34].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    answer[34..38].copy_from_slice(&[0x00, 0x35, 0x03, 0xe8]);
    let back = flow(&answer).1;
    assert_eq!((back.hash, back.source_port), (found.hash, 53));
    assert_ne!(found.hash, 0);
    assert_eq!(flow(&packet[..13]).0, Status::None);
    assert_eq!(flow(&[]).0, Status::None);
}

//! A publisher that damages its own log, and each kind of reader that does not trust it.

use std::hint::black_box;
use std::process::Command;
use std::{env, fs};

use burstline_log::{Burst, Start};
use burstline_share::{AttachConfig, Attachment, Feed, Trust};

use crate::common::{Directory, Role, SEGMENT_BYTES, until};

/// Packets that the publisher writes before it scribbles, and then while it scribbles.
pub(crate) const PACKETS: u64 = 2_000;

/// Polls of each reader of a log that is scribbled over.
const LOOKS: u32 = 20_000;

/// Starts the publisher as another program: a copy of the file, with another inode.
fn start(directory: &Directory, name: &str, what: &str) -> Role {
    let program = directory.path().join(format!("other-{what}"));
    // A separate process copies it, with no other files open. A child started by another test in
    // this process would keep the file open for writing, and nobody could run it (ETXTBSY).
    let copied = Command::new("cp").arg(env::current_exe().unwrap()).arg(&program).status();
    assert!(copied.unwrap().success());
    let arguments = [name, what];
    let role = Role::start_program(&program, "mad::mad_publisher", &arguments, &[]);
    fs::remove_file(program).unwrap();
    role
}

/// Uses everything in a burst that code might use.
fn use_all_of(burst: &Burst<'_>) {
    assert!(burst.len() <= SEGMENT_BYTES / 16 && burst.extent() <= SEGMENT_BYTES);
    let mut sum = burst.first_packet() + burst.len() as u64;
    let mut mix = 0;
    for packet in burst.packets() {
        assert_eq!(packet.bytes().len(), packet.length());
        assert!(packet.original_length() >= packet.length());
        sum += packet.drops_before() + u64::from(packet.port());
        mix ^= packet.time_ns();
        mix ^= packet.bytes().iter().map(|&byte| u64::from(byte)).sum::<u64>();
    }
    black_box((sum, mix));
}

fn oldest(trust: Trust) -> AttachConfig {
    AttachConfig { trust, start: Start::Oldest, window: 2, ..AttachConfig::default() }
}

/// The writer changes descs. Its counts stay correct, so each packet that is not delivered is torn.
#[test]
fn every_packet_of_a_publisher_that_scribbles_over_its_descs_is_delivered_or_torn() {
    let (directory, name) = Directory::with_tap();
    let mut role = start(&directory, &name, "descs");
    role.hear("written");
    for trust in [Trust::NOBODY, Trust::PROGRAM] {
        let mut attachment = Attachment::open(&name, &oldest(trust)).unwrap();
        let reader = &mut attachment.readers[0];
        assert!(reader.is_wary(), "{trust:?}: it is another program's");
        let (mut lent, mut looks) = (0, 0);
        while reader.lag() > 0 {
            if let Some(burst) = reader.next_burst() {
                use_all_of(&burst);
                lent += burst.len() as u64;
            }
            looks += 1;
            assert!(looks < LOOKS, "{:?}", reader.statistics());
        }
        let seen = reader.statistics();
        assert_eq!((seen.delivered, seen.laps), (lent, 0));
        assert_eq!((seen.missed, lent + seen.torn), (seen.torn, reader.offered()));
        assert!(lent > 0 && seen.torn > 0, "{seen:?}");
    }
    role.go_on();
    role.end();
}

/// Packets, descs and all words of control memory change while readers of every kind read.
#[test]
fn a_publisher_that_scribbles_over_everything_harms_no_reader() {
    let (directory, name) = Directory::with_tap();
    let mut role = start(&directory, &name, "everything");
    role.hear("written");
    for config in [oldest(Trust::NOBODY), oldest(Trust::PROGRAM)] {
        // A header that is scribbled over is refused; it is soon restored.
        let mut attachment = None;
        until("it can be attached to", || {
            attachment = Attachment::open(&name, &config).ok();
            attachment.is_some()
        });
        let mut attachment = attachment.unwrap();
        assert!(attachment.readers[0].is_wary());
        for look in 0..LOOKS {
            look_once(&mut attachment.readers[0], look);
        }
        assert!(!attachment.link.is_gone(), "the publisher is alive");
    }
    role.go_on();
    role.end();
}

/// Reads in turn in each possible way.
fn look_once(reader: &mut Feed, look: u32) {
    match look % 3 {
        0 => reader.next_burst().iter().for_each(use_all_of),
        1 => {
            let held = [reader.hold_burst(), reader.hold_burst()];
            held.iter().flatten().for_each(|held| use_all_of(&held.burst()));
        }
        _ => {
            let taken = reader.take_up_to(7);
            assert_eq!(reader.taken().map_or(0, |burst| burst.len() as u64), taken);
            reader.put_back(taken / 2);
            reader.taken().iter().for_each(use_all_of);
        }
    }
    let seen = reader.statistics();
    assert!(seen.torn <= seen.missed, "{seen:?}");
    black_box((reader.lag(), reader.offered(), reader.is_demoted(), reader.is_finished()));
    black_box((reader.port_name(look as u8), reader.hash_kind(), reader.clock_kind()));
    reader.wait(100);
}

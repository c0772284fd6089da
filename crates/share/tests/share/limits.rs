//! A publisher that runs out of descriptors.

use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use burstline_share::{Refusal, query};
use burstline_sys::seqpacket::SeqPacket;

use crate::common::{Directory, Role, open, read, refusal, until};

/// Descriptors in messages that nobody has received count for all processes of a user.
static IN_FLIGHT: Mutex<()> = Mutex::new(());

#[test]
fn without_descriptors_it_serves_those_it_has_and_recovers() {
    let _alone = IN_FLIGHT.lock();
    // One reader takes three descriptors: whichever of them is one too many, it gets an answer.
    for spare in [6, 7, 8] {
        let (_directory, name) = Directory::with_tap();
        let mut role = Role::start("poor_publisher", &[&name, &spare.to_string()]);
        let limit: u64 = role.hear("limit").parse().unwrap();
        let mut readers = Vec::new();
        // Other tests, too, have descriptors in flight.
        until("the first reader is there", || {
            readers.extend(open(&name));
            !readers.is_empty()
        });
        let refused = loop {
            match open(&name) {
                Ok(attachment) => readers.push(attachment),
                Err(error) => break error,
            }
        };
        let told = Refusal::Descriptors { limit };
        assert_eq!(refusal(refused), told);
        // A refusal may be due to descriptors of other tests, which are in flight for a moment.
        let mut refusals = 1;
        while refusals <= 20 {
            match open(&name) {
                Ok(attachment) => {
                    readers.push(attachment);
                    refusals = 0;
                }
                Err(again) => {
                    assert_eq!(refusal(again), told);
                    refusals += 1;
                }
            }
        }
        assert!((1..=spare / 2).contains(&readers.len()), "{} readers", readers.len());
        role.go_on();
        role.hear("written");
        for reader in readers.iter_mut().flat_map(|attachment| &mut attachment.readers) {
            assert_eq!(read(reader), 500);
        }
        readers.pop();
        until("there is room again", || {
            role.go_on();
            open(&name).is_ok()
        });
        until("only those are left", || {
            query(&name).is_ok_and(|status| status.readers.len() == readers.len())
        });
        role.kill();
    }
}

#[test]
fn too_many_descriptors_in_flight_are_a_refusal() {
    let _alone = IN_FLIGHT.lock();
    let (directory, name) = Directory::with_tap();
    let mut role = Role::start("poor_publisher", &[&name, "40"]);
    let limit: u64 = role.hear("limit").parse().unwrap();
    let path = directory.name("pair");
    let listener = SeqPacket::bind(Path::new(&path)).unwrap();
    listener.listen(1).unwrap();
    let sender = SeqPacket::connect(Path::new(&path), Duration::from_secs(5)).unwrap();
    let receiver = listener.accept().unwrap();
    // The kernel refuses once the user has more than the limit.
    for _ in 0..=limit {
        sender.send(b"kept", &[listener.as_fd()]).unwrap();
    }
    assert_eq!(refusal(open(&name).unwrap_err()), Refusal::Descriptors { limit });
    drop(receiver);
    until("there is room again", || open(&name).is_ok());
    role.kill();
}

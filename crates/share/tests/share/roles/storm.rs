//! A publisher beside another user's storm of attaches, for campaign R17.

use std::env;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use burstline_log::{Appended, Meta, Writer};
use burstline_share::PublishConfig;

use super::{arguments, told_to_stop};
use crate::common::{Role, open, publish};
use crate::permissions::{as_nobody, for_root};

/// The least number of packets, and of attaches beside them.
const PACKETS: u64 = 300_000;
const ATTACHES: u64 = 200;

/// Writes; if `BURSTLINE_STORMS` is 1, another user attaches meanwhile as often as it may, and the
/// writer goes on until [`ATTACHES`] were heard. The campaign counts the instructions of
/// [`write_beside_a_storm`] and of the publisher's thread with and without it.
#[test]
#[ignore = "campaign R17 runs it under valgrind"]
fn publisher_of_a_storm() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&config);
    let has_storm = env::var("BURSTLINE_STORMS").as_deref() == Ok("1");
    let has_enough = AtomicBool::new(!has_storm);
    let written = thread::scope(|scope| {
        if has_storm {
            let mut stormer = Role::start("storm::stormer", &[&name]);
            stormer.hear("attached");
            scope.spawn(|| {
                let mut stormer = stormer;
                stormer.hear("enough");
                has_enough.store(true, Relaxed); // orders no memory
                stormer.go_on();
                println!("\n{} attaches beside the writer", stormer.hear("attaches"));
                stormer.end();
            });
        }
        write_beside_a_storm(&mut writer, &has_enough)
    });
    println!("\n{written} packets written");
}

#[inline(never)]
fn write_beside_a_storm(writer: &mut Writer, has_enough: &AtomicBool) -> u64 {
    let mut number = 0;
    while number < PACKETS || !has_enough.load(Relaxed) {
        for _ in 0..16 {
            let meta = Meta::new(number, 48, 0);
            assert_eq!(writer.append(&[number as u8; 48], &meta), Appended::Whole, "{number}");
            number += 1;
        }
        writer.publish();
    }
    number
}

/// Attaches as another user, again and again, until the test commands it to stop.
#[test]
#[ignore = "another process of the tests"]
fn stormer() {
    let (name, stop) = (&arguments()[0], told_to_stop());
    as_nobody(&[], || {
        let mut attaches = 0_u64;
        while !stop.load(Relaxed) {
            // A refusal is no attach: the share of its user is used up for a moment.
            if open(name).is_ok() {
                attaches += 1;
                match attaches {
                    1 => println!("say attached"),
                    ATTACHES => println!("say enough"),
                    _ => {}
                }
            }
        }
        println!("say attaches {attaches}");
    });
}

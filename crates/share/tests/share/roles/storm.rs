//! A publisher beside another user's storm of attaches, for campaign R17.

use std::env;
use std::sync::atomic::Ordering::Relaxed;

use burstline_log::{Appended, Meta, Writer};
use burstline_share::PublishConfig;

use super::{arguments, told_to_stop};
use crate::common::{Role, open, publish};
use crate::permissions::{as_nobody, for_root};

const PACKETS: u64 = 300_000;

/// Writes; if `BURSTLINE_STORMS` is 1, another user attaches meanwhile as often as it may. The
/// campaign counts the instructions of [`write_beside_a_storm`] with and without it.
#[test]
#[ignore = "campaign R17 runs it under valgrind"]
fn publisher_of_a_storm() {
    let Some((_directory, name)) = for_root() else { return };
    let config = PublishConfig { mode: 0o666, ..PublishConfig::new(&name) };
    let (_publisher, _log, mut writer) = publish(&config);
    let mut stormer = (env::var("BURSTLINE_STORMS").as_deref() == Ok("1")).then(|| {
        let mut stormer = Role::start("storm::stormer", &[&name]);
        stormer.hear("attached");
        stormer
    });
    write_beside_a_storm(&mut writer);
    if let Some(mut stormer) = stormer.take() {
        stormer.go_on();
        println!("\n{} attaches beside the writer", stormer.hear("attaches"));
        stormer.end();
    }
}

#[inline(never)]
fn write_beside_a_storm(writer: &mut Writer) {
    for number in 0..PACKETS {
        let meta = Meta::new(number, 48, 0);
        assert_eq!(writer.append(&[number as u8; 48], &meta), Appended::Whole, "{number}");
        if number % 16 == 15 {
            writer.publish();
        }
    }
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
                if attaches == 1 {
                    println!("say attached");
                }
            }
        }
        println!("say attaches {attaches}");
    });
}

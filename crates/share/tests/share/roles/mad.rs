//! A publisher that scribbles over its own log.

use std::io::{self, BufRead};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;

use burstline_share::PublishConfig;

use super::arguments;
use crate::common::{append, publish};
use crate::mad::PACKETS;
use crate::scribbler::memory::own_memory;
use crate::scribbler::scribble;

/// `NAME descs`: some descs point elsewhere before a reader attaches. `NAME everything`: all of the
/// log is scribbled over while it is read, and restored, again and again.
#[test]
#[ignore = "another process of the tests"]
fn mad_publisher() {
    let arguments = arguments();
    let (_publisher, log, mut writer) = publish(&PublishConfig::new(&arguments[0]));
    append(&mut writer, 0, PACKETS);
    if arguments[1] == "descs" {
        // A desc's first word has the offset; no packet begins at these. In every other segment
        // only: a reader finds two that were filled one after the other.
        let words = crate::common::SEGMENT_BYTES / size_of::<AtomicU64>();
        for segment in own_memory(&log, "burstline-share").chunks_exact(words).step_by(2) {
            segment[words - 2 * 40].fetch_or(0xffff_fff0, Relaxed);
        }
        println!("say written");
        io::stdin().lock().read_line(&mut String::new()).unwrap();
        return;
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        println!("say written");
        scope.spawn(|| scribble(&log, "share", &is_over, || append(&mut writer, 0, 32)));
        io::stdin().lock().read_line(&mut String::new()).unwrap();
        is_over.store(true, Relaxed);
    });
}

//! Tests which losses the packets of a file report.

use std::sync::atomic::AtomicBool;

use burstline_log::{Appended, LogConfig, Meta};
use burstline_port::{Losses, PortError};

use super::super::files::NamedFile;
use super::*;
use crate::runtime::logs::gaps::tests::{Heard, Told};
use crate::{Progress, Run, Threads};

#[test]
fn a_file_tells_the_losses_of_its_own_time() {
    let (stop, progress, threads) = (AtomicBool::new(false), Progress::new(1), Threads::default());
    let job = Job::start(&threads, &Run::new(&stop, &progress));
    let trigger = &AtomicBool::new(false);
    let options = FlightOptions { trigger, after_ns: 1000, triggers_on_loss: false };
    let config = LogConfig { bytes: 4 << 20, keep_ns: Some(1000), ..LogConfig::default() };
    let (log, mut writer) = Log::create(config).unwrap();
    let logs = [log];
    let told = Told::default();
    let mut open = || -> Result<NamedFile, PortError> {
        let file: Box<dyn Sink> = Box::new(Heard::new(&told));
        Ok(("x".to_owned(), file))
    };
    let mut files = Files::new(&mut open);
    let origins = vec![Origin::unmarked(0)];
    let mut recorder =
        FlightRecorder::new(&job, &options, Policy::Lossy, &logs, &mut files, origins);
    // Packets arrive, and so many are lost by then.
    let mut come = |packets: u64, lost: u64| {
        for number in 0..packets {
            assert_eq!(writer.append(&[0; 60], &Meta::new(number, 60, 0)), Appended::Whole);
        }
        writer.publish();
        let mut losses = Losses::default();
        losses.add(Loss::RxRingFull, lost);
        progress.set_losses(0, losses);
    };
    recorder.poll(0);
    come(3, 500);
    recorder.poll(5000);
    come(2, 507);
    recorder.poll(10_000);
    // The file begins behind the third packet: 500 were lost before.
    trigger.store(true, Relaxed);
    recorder.poll(10_500);
    recorder.poll(10_600);
    assert_eq!(*told.lock().unwrap(), [(0, 7)]);
    // The next file goes on where this one ends.
    recorder.poll(11_500);
    come(1, 510);
    trigger.store(true, Relaxed);
    recorder.poll(11_600);
    recorder.poll(11_700);
    assert_eq!(*told.lock().unwrap(), [(0, 7), (0, 3)]);
    // Before the third one, packets expire and others are lost.
    recorder.poll(12_600);
    come(2, 1110);
    recorder.poll(20_000);
    trigger.store(true, Relaxed);
    recorder.poll(30_000);
    recorder.poll(30_100);
    assert_eq!(*told.lock().unwrap(), [(0, 7), (0, 3)]);
    let home = recorder.end();
    assert_eq!((home.files.len(), home.recorded.total().packets), (3, 3));
    assert_eq!(home.recorded.expired, [5]);
}

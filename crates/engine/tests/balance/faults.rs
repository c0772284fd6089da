//! Every fault has its own name, and counts that do not add up are reported.

use super::*;

/// Bytes of the longest packet in a segment of 4 KiB. Source: crates/log, `max_packet_bytes`.
const MOST: u64 = 4096 - 16 - 32;
/// A segment with each packet's bucket holds this many bytes less. Source: crates/log, `Geometry`.
const COLUMN: u64 = 64;

#[test]
fn packets_that_no_segment_holds_whole_are_counted_as_cut() {
    const PACKETS: u64 = 500;
    let mut job = Job::new(&["gen:?packets=500&flows=50&size=9000"], &[2, 1]);
    job.options.job.log.segment_bytes = 4096;
    for (mode, has_workers) in [(Mode::Copy, true), (Mode::Share, true), (Mode::Copy, false)] {
        (job.options.mode, job.options.has_workers) = (mode, has_workers);
        let report = job.run();
        for row in &report.ports {
            assert_eq!((row.truncated, row.delivered), (PACKETS, PACKETS), "{mode:?} {row:?}");
            let most = if mode == Mode::Share { MOST - COLUMN } else { MOST };
            assert_eq!((row.bytes, row.wire_bytes), (PACKETS * most, PACKETS * 8996), "{row:?}");
        }
        assert_eq!(report.total.truncated, 2 * PACKETS, "once for each group");
    }
    // A packet that was cut before counts once.
    job.ports.snapshot_bytes = Some(8000);
    job.options.has_workers = true;
    assert_eq!(job.run().total.truncated, 2 * PACKETS);
}

/// A sink that reports one packet less than it was given.
struct Forgetful(Box<dyn Sink>);

impl Port for Forgetful {
    fn info(&self) -> &PortInfo {
        self.0.info()
    }

    fn account(&self) -> PortAccount {
        let account = self.0.account();
        PortAccount { offered: account.offered.saturating_sub(1), ..account }
    }
}

impl Sink for Forgetful {
    fn transmit(&mut self, burst: &Burst<'_>) -> Result<u64, PortError> {
        self.0.transmit(burst)
    }

    fn lost(&self) -> LostPackets {
        self.0.lost()
    }
}

#[test]
fn what_a_sink_counts_is_held_against_its_worker() {
    let job = Job::new(&["gen:?packets=3000&flows=100"], &[2, 1]);
    let open = |number: usize| {
        let sink = open_sink(&"null:".parse().unwrap(), &job.ports)?;
        Ok(if number == 1 { Box::new(Forgetful(sink)) as Box<dyn Sink> } else { sink })
    };
    let report = job.run_unchecked(open, &Progress::with_workers(1, 3));
    let group = &of(&report).groups[0];
    let unaccounted: Vec<_> = group.workers.iter().map(|worker| worker.unaccounted).collect();
    assert_eq!((unaccounted, group.unaccounted), (vec![0, 1], 1));
    assert_eq!((report.total.unaccounted, report.is_success()), (1, false));
    assert!(report.notes.iter().any(|note| note.starts_with("worker 1 del")), "{:?}", report.notes);
}

/// Blocks of pcapng. Source: draft-ietf-opsawg-pcapng, sections 4.1 to 4.3.
fn block(kind: u32, body: &[&[u8]]) -> Vec<u8> {
    let mut body = body.concat();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}

fn section() -> Vec<u8> {
    block(0x0a0d_0d0a, &[&0x1a2b_3c4d_u32.to_le_bytes(), &[1, 0, 0, 0], &[0xff; 8]])
}

fn interface(link: u16) -> Vec<u8> {
    block(1, &[&link.to_le_bytes(), &[0; 6]])
}

/// Returns a packet of this time, in us since 1970.
fn packet(interface: u32, time_us: u64, bytes: &[u8]) -> Vec<u8> {
    let length = bytes.len() as u32;
    let words = [interface, (time_us >> 32) as u32, time_us as u32, length, length];
    block(6, &[&words.map(u32::to_le_bytes).concat(), bytes])
}

#[test]
fn packets_that_a_rule_means_nothing_on_are_not_shed() {
    let ethernet = frame(1, 1, false, None);
    // A packet without a link header, on an interface that is unknown when the job begins.
    let raw = &ethernet[14..];
    let mut bytes = [section(), interface(1)].concat();
    (0..3).for_each(|_| bytes.extend(packet(0, 1, &ethernet)));
    bytes.extend(interface(101));
    (0..5).for_each(|_| bytes.extend(packet(1, 2, raw)));
    (0..2).for_each(|_| bytes.extend(packet(0, 3, &ethernet)));
    let trace = Trace::new(&[]);
    fs::write(trace.address(), bytes).unwrap();
    for mode in [Mode::Copy, Mode::Share] {
        // The same source twice: the second one meets a rule that is already broken.
        let mut job = Job::new(&[&trace.address(), &trace.address()], &[2]);
        job.options.mode = mode;
        job.options.shed = Some("ether broadcast".parse().unwrap());
        let report = job.run();
        let lost = &report.total.lost;
        assert_eq!((report.errors.len(), report.is_success()), (2, false), "{:?}", report.errors);
        assert_eq!((report.total.delivered, lost.of(Loss::Shed)), (6, 0), "{lost:?}");
        assert!(lost.of(Loss::Unjudged) >= 2 && lost.missing() == lost.total(), "{lost:?}");
    }
}

#[test]
fn a_clock_that_steps_back_changes_nothing_but_times() {
    let frames = conversation(3000);
    let mut bytes = [section(), interface(1)].concat();
    for (number, frame) in (0..).zip(&frames) {
        // Times go back by a day every hundred packets, and a little within them.
        let time_us = 1_700_000_000_000_000 - number / 100 * 86_400_000_000 - number * 7;
        bytes.extend(packet(0, time_us, frame));
    }
    let trace = Trace::new(&[]);
    fs::write(trace.address(), bytes).unwrap();
    for (mode, cutoff_bytes) in [(Mode::Copy, None), (Mode::Share, None), (Mode::Copy, Some(64))] {
        let mut job = Job::new(&[&trace.address()], &[3]);
        (job.options.mode, job.options.cutoff_bytes) = (mode, cutoff_bytes);
        let seen = Seen::default();
        let report = job.run_into(|number| Ok(Witness::open(number, &seen, || {})));
        let cut_off = report.total.lost.of(Loss::CutOff);
        assert_eq!(report.total.delivered + cut_off, frames.len() as u64);
        // The clock goes back, so no flow is ever silent for a minute: 64 bytes of each pass, and
        // more of two that share a slot in the table.
        let most = cutoff_bytes.map_or(frames.len(), |_| 2 * usize::from(FLOWS));
        assert!(report.total.delivered <= most as u64, "{:?}", report.total);
        let mut newest = HashMap::new();
        for (worker, bytes) in seen.lock().unwrap().iter() {
            let before = newest.insert((word(bytes, 8), *worker), word(bytes, 4));
            assert!(before.is_none_or(|before| before <= word(bytes, 4)));
        }
        assert_eq!(newest.len(), usize::from(FLOWS), "each flow at one worker");
    }
}

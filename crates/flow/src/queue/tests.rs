use std::sync::{Arc, Mutex};
use std::thread;

use burstline_wire::flow::FlowKey;

use super::*;
use crate::record::Place;
use crate::sink::SinkAccount;

pub(crate) fn record(packets: u64) -> Record {
    let (source, destination) = ([1; 16], [2; 16]);
    let key = FlowKey { protocol: 17, source, destination, ..FlowKey::default() };
    let place = Place { number: 1, ..Place::default() };
    Record { key, first_ns: 1, last_ns: 2, packets, bytes: 60, place, ..Record::default() }
}

#[derive(Clone, Default)]
struct Sum(Arc<Mutex<Vec<(u64, usize, u64)>>>, Arc<Mutex<bool>>);

impl RecordSink for Sum {
    fn write(&mut self, batch: &Batch) {
        let packets = batch.records.iter().map(|record| record.packets).sum();
        self.0.lock().unwrap().push((batch.number, batch.records.len(), packets));
    }

    fn tick(&mut self, _: &Made) {}

    fn finish(&mut self, _: &Made) {
        *self.1.lock().unwrap() = true;
    }

    fn account(&self) -> SinkAccount {
        SinkAccount::default()
    }
}

#[test]
fn without_a_writer_in_time_records_are_dropped_and_counted() {
    let shows = Shows::new(1);
    let (mut outboxes, writer) = queue(&[false], &shows);
    let mut outbox = outboxes.remove(0);
    let most = (BATCHES * BATCH_RECORDS) as u64;
    for _ in 0..most + 7 {
        outbox.push(&record(3));
    }
    outbox.show(&TableCounts { records: most + 7, ..TableCounts::default() });
    let made = shows.made();
    assert_eq!((made.records_dropped, made.packets_dropped), (7, 21));
    drop(outbox);
    let sum = Sum::default();
    writer.run(&mut [Box::new(sum.clone())]);
    let records: usize = sum.0.lock().unwrap().iter().map(|(_, records, _)| records).sum();
    assert_eq!(records as u64, most);
    assert!(*sum.1.lock().unwrap());
}

#[test]
fn who_can_wait_loses_nothing_and_batches_are_numbered() {
    let shows = Shows::new(2);
    let (outboxes, writer) = queue(&[true, true], &shows);
    let sum = Sum::default();
    let mut sinks: [Box<dyn RecordSink>; 1] = [Box::new(sum.clone())];
    thread::scope(|scope| {
        for mut outbox in outboxes {
            scope.spawn(move || {
                (0..200_000).for_each(|_| outbox.push(&record(1)));
                outbox.flush();
            });
        }
        writer.run(&mut sinks);
    });
    let batches = sum.0.lock().unwrap();
    assert!(batches.iter().enumerate().all(|(at, batch)| batch.0 == at as u64));
    assert_eq!(batches.iter().map(|batch| batch.2).sum::<u64>(), 400_000);
}

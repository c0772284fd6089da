//! Logs published by this process, with the packets of a file.

use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};

use burstline_log::{Ending, Log, LogConfig};
use burstline_port::{PortState, Source};
use burstline_share::{LosslessReaders, PublishConfig, Publisher};
use burstline_sys::memory::PageChoice;

use crate::backends::{Backend, options};
use crate::common::{Folder, source};

/// Returns a log for each way to read one, with the packets of `file`.
pub(crate) fn logs(folder: &Folder, file: &str) -> Vec<Backend> {
    let path = Rc::new(folder.path("log"));
    let file: Rc<str> = file.into();
    let queries = ["", "?lossless&from=oldest", "?untrusted", "?untrusted&lossless&window=4"];
    let backends = queries.into_iter().map(|query| {
        let (path, file) = (Rc::clone(&path), Rc::clone(&file));
        let open = move || open(&path.display().to_string(), &file, query);
        Backend { is_live: true, ..Backend::new(&format!("log:{query}"), open) }
    });
    backends.collect()
}

fn open(path: &str, file: &str, query: &str) -> Box<dyn Source> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = format!("{path}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
    let (log, mut writer) = Log::create(LogConfig {
        bytes: 16 << 20,
        segment_bytes: 64 << 10,
        pages: PageChoice::Size4K,
        ..LogConfig::default()
    })
    .unwrap();
    let config = PublishConfig { lossless: LosslessReaders::Forever, ..PublishConfig::new(&name) };
    let job = options();
    let table = job.table.clone();
    let mut from = source(file, &job).unwrap();
    let publisher = Publisher::start(&config, vec![log.clone()]).unwrap();
    // The job already has entries: the publisher's numbers differ from the reader's.
    let reader = options();
    reader.table.add("another", burstline_wire::headers::LinkType::RAW).unwrap();
    let port = source(&format!("log:{name}{query}"), &reader).unwrap();
    while from.receive(&mut writer, u64::MAX).unwrap().state != PortState::Ended {}
    for (number, entry) in (0..).zip(table.entries_from(0)) {
        log.name_port(number, entry.link.0.into(), &entry.name);
    }
    writer.finish(Ending::Final);
    drop(publisher);
    port
}

//! Handles a failed output, and determines which of its packets are safe.

use std::io;
use std::path::PathBuf;

use super::super::recording::{Mark, PortTally, Unsafe};
use super::{Body, ClosingCounts, FileSink, InFile};
use crate::{Loss, PortError};

/// Why an output takes no more packets.
pub(super) struct Failure {
    path: PathBuf,
    /// The system's error.
    error: io::Error,
    /// How far the file at `path` is safe.
    safe: Mark,
    is_synced: bool,
    /// The output, until its closing counts are known. `None` if it gets none, after a failed sync.
    body: Option<Box<Body>>,
}

impl Failure {
    pub(super) fn error(&self) -> PortError {
        PortError::OutputFailed {
            path: self.path.clone(),
            error: copy_of(&self.error),
            kept_packets: self.safe.packets,
            bytes: self.safe.bytes,
            is_synced: self.is_synced,
        }
    }
}

impl FileSink {
    /// Reports to the sync thread how far the file is written.
    pub(super) fn tell_written(&mut self) {
        if let Body::Segmented(_) | Body::Plain(_) = self.body {
            let written = self.written();
            self.files.wrote(&written);
        }
    }

    /// Fails if a sync has failed. Cost: a lock.
    pub(super) fn look_at_syncs(&mut self) -> Result<(), PortError> {
        match self.files.failed_sync() {
            None => Ok(()),
            Some(failed) => Err(self.fail_sync(failed)),
        }
    }

    /// Truncates the file to its safe part, and counts the other packets as lost.
    #[cold]
    pub(super) fn fail(&mut self, error: io::Error) -> PortError {
        // After a failed sync, another one of the same file proves nothing.
        if let Some(failed) = self.files.failed_sync() {
            return self.fail_unsynced(failed, true);
        }
        let written = self.written();
        let mut cut = self.body.cut(written.bytes);
        let safe = self.files.sync(&written);
        if safe != written {
            cut = self.body.cut(safe.bytes);
        }
        self.note_uncut(cut, safe.bytes);
        let (path, is_synced) = (self.files.path().to_owned(), self.files.syncs());
        let body = Some(Box::new(std::mem::replace(&mut self.body, Body::Closed)));
        self.break_off(Failure { path, error, safe: safe.clone(), is_synced, body }, &safe)
    }

    /// Writes the closing counts of a truncated file after its safe part, and hands it on as any
    /// other. Best effort: a full disk may have no room for them either, and then the file has no
    /// end mark.
    pub(super) fn close_failed(&mut self) {
        let Body::Failed(failure) = &mut self.body else { return };
        let Some(mut body) = failure.body.take() else { return };
        let safe = failure.safe.clone();
        let kept = self.kept_of(&safe);
        let closing = kept.iter().map(|(number, kept)| self.closing_counts(*number, kept));
        let closing: Vec<ClosingCounts> = closing.collect();
        let written = match body.append_closing(safe.bytes, &closing) {
            Ok(bytes) => {
                let written = Mark { bytes, ..safe };
                self.files.sync(&written);
                let kept: Vec<InFile> = kept.into_iter().map(|(_, kept)| kept).collect();
                self.count_closed(&kept);
                written
            }
            Err(_) => {
                // If that is refused, a note says so since the first try.
                let _ = body.cut(safe.bytes);
                if safe.bytes == 0 {
                    self.files.remove_empty();
                    return;
                }
                safe
            }
        };
        self.files.close(body, written);
    }

    /// Returns the interfaces certainly described before a mark, with their numbers and packets.
    /// The first one starts the file, and the others are described before their packets.
    fn kept_of(&self, safe: &Mark) -> Vec<(u32, InFile)> {
        let kept = |(number, interface): (u32, &InFile)| {
            let of = safe.by_port.iter().find(|of| of.port == interface.port);
            let tally = of.map(|of| of.tally).unwrap_or_default();
            let kept = InFile { port: interface.port, tally };
            (number == 0 || tally.packets > 0).then_some((number, kept))
        };
        (0..).zip(&self.interfaces).filter_map(kept).collect()
    }

    /// As [`fail`](Self::fail), because this file, or an earlier one, could not be synced.
    #[cold]
    pub(super) fn fail_sync(&mut self, failed: Unsafe) -> PortError {
        self.fail_unsynced(failed, false)
    }

    /// As [`fail_sync`](Self::fail_sync). `has_torn`: a write of the open file has failed, too.
    fn fail_unsynced(&mut self, failed: Unsafe, has_torn: bool) -> PortError {
        let Unsafe { path, error, synced, lost } = failed;
        self.lose(Loss::WriteError, &lost);
        if let Body::Failed(failure) = &self.body {
            return failure.error();
        }
        // The kernel reports a failure only once: a later sync of this file proves nothing.
        let is_open = path == self.files.path() && lost.is_empty();
        let written = self.written();
        let safe = if is_open { synced.clone() } else { self.files.sync(&written) };
        // Writes in progress count as lost, and must not reach the file later.
        if safe != written || !self.under_way.is_empty() || has_torn {
            let cut = self.body.cut(safe.bytes);
            self.note_uncut(cut, safe.bytes);
        }
        let failure = Failure { path, error, safe: synced, is_synced: true, body: None };
        self.break_off(failure, &safe)
    }

    /// Notes that a file could not be truncated: a disk that is read-only, or of a quota that only
    /// a removed file makes room in.
    fn note_uncut(&mut self, cut: io::Result<()>, bytes: u64) {
        if let Err(error) = cut {
            let path = self.files.path().display();
            self.account.note(|| {
                let what = "could not be cut off, and is in no count";
                format!("{path}: what follows its first {bytes} bytes {what}: {error}")
            });
        }
    }

    /// Ends the open file: packets after `safe` are lost.
    fn break_off(&mut self, failure: Failure, safe: &Mark) -> PortError {
        let error = failure.error();
        let lost = self.given().since(safe);
        self.lose(error.loss(), &lost);
        self.body = Body::Failed(failure);
        error
    }

    fn lose(&mut self, cause: Loss, lost: &[PortTally]) {
        lost.iter().for_each(|of| self.lost.add(of.port, cause, &of.tally));
    }

    /// Returns a mark of all packets passed to the open file.
    fn given(&self) -> Mark {
        let by_port = self.interfaces.iter();
        let by_port = by_port.map(|&InFile { port, tally }| PortTally { port, tally });
        Mark { packets: self.accepted, bytes: 0, by_port: by_port.collect() }
    }

    /// Records completed writes, and writes in progress. An output hands all its packets to a write
    /// before it takes the next one, or when it is flushed.
    #[inline]
    pub(super) fn note_written(&mut self) {
        let last = self.under_way.back().unwrap_or(&self.written).packets;
        if self.handed() != last {
            self.under_way.push_back(self.given());
        }
        let kept = self.kept().0;
        while let Some(mark) = self.under_way.pop_front_if(|mark| mark.packets <= kept) {
            self.written = mark;
        }
    }

    /// Returns how far the open file is written.
    pub(super) fn written(&mut self) -> Mark {
        self.note_written();
        Mark { bytes: self.kept().1, ..self.written.clone() }
    }
}

impl Body {
    /// Truncates the output to `bytes`, after an error.
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        match self {
            Self::Segmented(body) => body.cut(bytes),
            Self::Plain(body) => body.cut(bytes),
            _ => Ok(()),
        }
    }

    /// Writes closing counts after the first `bytes`, to which the output was truncated. Returns
    /// its new size.
    fn append_closing(&mut self, bytes: u64, closing: &[ClosingCounts]) -> io::Result<u64> {
        match self {
            Self::Segmented(body) => body.append_closing(bytes, closing),
            Self::Plain(body) => body.append_closing(closing),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}

/// Copies an error, because `io::Error` cannot be cloned.
fn copy_of(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::fs;
    use std::path::Path;

    use burstline_log::{Meta, Scratch};
    use burstline_sys::temporary::TemporaryFolder;
    use burstline_wire::headers::LinkType;

    use super::*;
    use crate::{
        CaptureReader, Found, InterfaceTotals, OpenOptions, OpenedFiles, OutputOptions, Port, Sink,
        Tally,
    };

    fn path(name: &str) -> PathBuf {
        let folder = TemporaryFolder::create("burstline-failure-").unwrap().keep();
        folder.join(name).with_extension("pcapng")
    }

    /// Removes a file with its folder, and returns its packets by interface.
    fn taken_out(path: &Path) -> [u64; 3] {
        let mut reader =
            CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default()).unwrap();
        let mut kept = [0; 3];
        loop {
            match reader.read_next().unwrap() {
                Found::Packet(record) => kept[record.interface as usize] += 1,
                Found::End => break,
                _ => {}
            }
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        kept
    }

    #[test]
    fn a_plain_file_that_cannot_be_synced_gives_way_to_the_segment_that_was() {
        let path = path("plain");
        let address = format!("file:{}", path.display()).parse().unwrap();
        let mut sink = FileSink::open(&address, &OpenOptions::default()).unwrap();
        let (bytes, mut scratch) = ([0; 1000], Scratch::new());
        for number in 0..10 {
            scratch.push(0, 1000, &Meta::new(number, 1000, 0));
        }
        sink.transmit(&scratch.burst(&bytes, 0)).unwrap();
        sink.flush().unwrap();
        let written = sink.written();
        let synced = sink.files.sync(&written);
        assert_eq!((synced.packets, &synced), (10, &written));
        sink.transmit(&scratch.burst(&bytes, 10)).unwrap();
        let Body::Segmented(body) = &mut sink.body else { panic!("it has segments") };
        assert!(body.end().unwrap(), "there is a segment behind it");
        assert_eq!(sink.written().packets, 20);
        let (error, lost) = (io::Error::other("a disk"), Vec::new());
        let of_it = Unsafe { path: path.clone(), error, synced: synced.clone(), lost };
        let error = sink.fail_sync(of_it).to_string();
        assert!(error.contains(&format!("10 packets in {} bytes", synced.bytes)), "{error}");
        assert_eq!(sink.lost().total().packets, 10);
        drop(sink);
        assert_eq!(fs::metadata(&path).unwrap().len(), synced.bytes);
        assert_eq!(taken_out(&path), [10, 0, 0]);
    }

    #[test]
    fn losses_of_interfaces_that_the_last_file_does_not_describe_are_named() {
        let path = path("uncounted");
        let address = format!("file:{}", path.display()).parse().unwrap();
        let options = OpenOptions::default();
        for name in ["eth0", "eth1", "eth2"] {
            options.table.add(name, LinkType::ETHERNET).unwrap();
        }
        let mut sink = FileSink::open(&address, &options).unwrap();
        let (bytes, mut scratch) = ([0; 1000], Scratch::new());
        for number in 0..10 {
            scratch.push(0, 1000, &Meta::new(number, 1000, 0));
        }
        sink.transmit(&scratch.burst(&bytes, 0)).unwrap();
        sink.flush().unwrap();
        sink.fail(io::Error::other("a disk"));
        let totals = [(0, 5), (1, 7), (2, 0)];
        let totals =
            totals.map(|(port, lost)| InterfaceTotals { port, lost, ..Default::default() });
        sink.set_totals(&totals);
        let _ = sink.finish();
        let notes = sink.account().notes;
        drop(sink);
        fs::remove_file(&path).unwrap();
        assert_eq!(notes, ["eth1: no file has these losses in its counts: 7"]);
    }

    #[test]
    fn what_is_under_way_when_another_file_fails_is_not_in_this_one() {
        let path = path("under-way");
        let address = format!("file:{}?segment=64k", path.display()).parse().unwrap();
        let output = OutputOptions { flush: None, ..OutputOptions::default() };
        let options = OpenOptions { output, ..OpenOptions::default() };
        let mut sink = FileSink::open(&address, &options).unwrap();
        let (bytes, mut scratch) = ([0; 1000], Scratch::new());
        for number in 0..400 {
            scratch.push(0, 1000, &Meta::new(number, 1000, (number % 3) as u8));
        }
        assert_eq!(sink.transmit(&scratch.burst(&bytes, 0)).unwrap(), 400);
        let lost = vec![PortTally { port: 0, tally: Tally::default() }];
        let (error, synced) = (io::Error::other("a disk"), Mark::default());
        sink.fail_sync(Unsafe { path: "closed".into(), error, synced, lost });
        let lost = sink.lost();
        drop(sink);
        let kept = taken_out(&path);
        for (port, given) in [(0, 134), (1, 133), (2, 133)] {
            assert_eq!(kept[usize::from(port)], given - lost.tally_of(port).packets, "{port}");
        }
    }
}

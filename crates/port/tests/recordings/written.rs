//! Recordings that the sink writes, step by step: what is in the file after each flush.

use std::fs;
use std::path::PathBuf;

use burstline_log::{Meta, Scratch};
use burstline_port::{OpenOptions, OutputOptions, Sink};

use crate::common::{Folder, sink};

/// The time of the first packet, in ns since 1970.
const BEGAN_NS: u64 = 1_700_000_000_000_000_000;

/// A file after a flush.
#[derive(Clone)]
pub(crate) struct Step {
    pub(crate) file: Vec<u8>,
    /// Packets written up to here.
    pub(crate) packets: usize,
}

/// A recording in the making.
pub(crate) struct Written {
    sink: Box<dyn Sink>,
    path: PathBuf,
    pub(crate) packets: Vec<Vec<u8>>,
    /// The first one is the empty file.
    pub(crate) steps: Vec<Step>,
}

impl Written {
    /// Opens a file in the folder; `address` is its name and the keys behind it. The sink syncs
    /// nothing by itself.
    pub(crate) fn open(folder: &Folder, name: &str, keys: &str) -> Self {
        let path = folder.path(name);
        let output = OutputOptions { flush: None, ..OutputOptions::default() };
        let options = OpenOptions { output, ..OpenOptions::default() };
        let sink = sink(&format!("file:{}?{keys}", path.display()), &options).unwrap();
        let steps = vec![Step { file: Vec::new(), packets: 0 }];
        Self { sink, path, packets: Vec::new(), steps }
    }

    /// Gives packets to the sink.
    pub(crate) fn give(&mut self, packets: &[Vec<u8>]) {
        let (mut scratch, mut offset) = (Scratch::new(), 0);
        for (number, packet) in (self.packets.len() as u64..).zip(packets) {
            let length = packet.len() as u32;
            scratch.push(offset, length, &Meta::new(BEGAN_NS + 1000 * number, length, 0));
            offset += length;
        }
        let bytes = packets.concat();
        let burst = scratch.burst(&bytes, self.packets.len() as u64);
        assert_eq!(self.sink.transmit(&burst).unwrap(), packets.len() as u64);
        self.packets.extend_from_slice(packets);
    }

    /// Flushes, and keeps what is in the file now.
    pub(crate) fn flush(&mut self) {
        self.sink.flush().unwrap();
        self.keep();
    }

    /// Ends the recording, and keeps what is in the file then.
    pub(crate) fn end(&mut self) {
        self.sink.finish().unwrap();
        self.keep();
    }

    /// Returns the finished file.
    pub(crate) fn file(&self) -> &[u8] {
        &self.steps.last().unwrap().file
    }

    fn keep(&mut self) {
        let (file, packets) = (fs::read(&self.path).unwrap(), self.packets.len());
        self.steps.push(Step { file, packets });
    }
}

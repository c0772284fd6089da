//! Programs that record packets to a file: tcpdump, dumpcap, netsniff-ng.

use crate::contenders::Job;
use crate::contenders::live::{Live, Own};
use crate::live::Need;
use crate::programs::{Capture, Launch, first_line};
use crate::scenario::Work;

impl Live for Capture {
    fn name(&self) -> &'static str {
        self.program
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Record]
    }

    fn needs(&self) -> &'static [Need] {
        self.needs
    }

    fn version(&self) -> String {
        first_line(self.program, &["--version"])
    }

    fn has_remote(&self) -> bool {
        true
    }

    fn launch(&self, job: &Job<'_>) -> Box<dyn Launch> {
        Box::new(self.on(&job.comes_in[0]))
    }

    fn own(&self, said: &str, _: u64) -> Result<Own, String> {
        Ok(Own { delivered: self.captured(said)?, ..Own::default() })
    }
}

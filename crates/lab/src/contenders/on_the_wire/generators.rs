//! Programs that send packets: trafgen and tcpreplay.

use std::fs;

use crate::contenders::Job;
use crate::contenders::live::{Live, Running, start_process};
use crate::live::{Need, Road};
use crate::programs::{Generator, Launch, first_line};
use crate::scenario::Work;

impl Live for Generator {
    fn name(&self) -> &'static str {
        self.program
    }

    fn works(&self) -> &'static [Work] {
        &[Work::Generate]
    }

    fn needs(&self) -> &'static [Need] {
        self.needs
    }

    fn version(&self) -> String {
        first_line(self.program, &["--version"])
    }

    fn launch(&self, _: &Job<'_>) -> Box<dyn Launch> {
        Box::new(*self)
    }

    fn start<'a>(&'a self, job: &Job<'_>, road: &'a Road) -> Result<Box<dyn Running + 'a>, String> {
        let file = road.data_file();
        fs::write(&file, self.file(job.frame_bytes()))
            .map_err(|error| format!("{file}: {error}"))?;
        start_process(self, job, road)
    }
}

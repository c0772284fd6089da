//! The common data of every record: machine, time, program and disturbances.

use std::time::Instant;

use super::doubts::Watch;
use super::{machine, time};
use crate::record::{Machine, Record, SCHEMA};

/// A running measurement.
#[derive(Clone, Debug)]
pub struct Begun {
    started: String,
    began: Instant,
    machine: Machine,
    watch: Watch,
}

impl Begun {
    /// Examines the machine and starts to watch it.
    pub fn now() -> Self {
        let (started, began) = (time::now(), Instant::now());
        let machine = machine::examine();
        Self { started, began, machine, watch: Watch::start() }
    }

    /// Returns the machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Ends it and returns the record without metrics, for the command line `command` and the file
    /// name `name`. Its doubts are those about the machine.
    pub fn record(self, name: &str, command: &str) -> Record {
        Record {
            schema: SCHEMA.to_owned(),
            scenario: name.to_owned(),
            command: command.to_owned(),
            started: self.started,
            elapsed_s: self.began.elapsed().as_secs_f64(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: machine::commit(),
            doubts: self.watch.doubts(),
            build: machine::build(),
            machine: self.machine,
            ..Record::default()
        }
    }
}

//! What every record has: where, when and by what it was measured, and what happened besides.

use std::time::Instant;

use super::doubts::Watch;
use super::{machine, time};
use crate::record::{Machine, Record, SCHEMA};

/// A measurement that has begun.
#[derive(Clone, Debug)]
pub struct Begun {
    started: String,
    began: Instant,
    machine: Machine,
    watch: Watch,
}

impl Begun {
    /// Looks at the machine, and watches it from now on.
    pub fn now() -> Self {
        let (started, began) = (time::now(), Instant::now());
        let machine = machine::examine();
        Self { started, began, machine, watch: Watch::start() }
    }

    /// Where it runs.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The record at its end, without figures: of what was typed as `command`, and whose file will
    /// be called `name`. Doubts are those of the machine.
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

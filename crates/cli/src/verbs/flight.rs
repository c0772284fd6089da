//! `burstline capture --keep`: the flight recorder's triggers and file names.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_engine::{CaptureOptions, EngineError, FlightOptions, Inlet, Report, Run};
use burstline_port::{OpenOptions, PortError, Sink, numbered, open_sink, striped_paths};
use burstline_sys::late::{self, Opening};
use burstline_sys::privileges;

use crate::args::{CaptureArgs, FormatArgs, NOTHING, Trigger};
use crate::failure::Failure;
use crate::job::apart;
use crate::paths::address_of;
use crate::signals;

/// What to do when a trigger asks for the history.
pub(super) struct Plan {
    after_ns: u64,
    triggers_on_loss: bool,
    trigger: Arc<AtomicBool>,
    names: Names,
    format: FormatArgs,
}

/// Returns the plan for `--keep`, if given. Checks it before anything is opened, so that a file
/// that cannot be created is reported now and not at the trigger.
pub(super) fn plan(args: &CaptureArgs) -> Result<Option<Plan>, Failure> {
    if args.keep.is_none() {
        return Ok(None);
    }
    if args.write() == "-" {
        let what = "--keep writes a file for each trigger: name one with --write, not -";
        return Err(Failure::usage(what));
    }
    if striped_paths(args.write()).is_ok_and(|paths| paths.len() > 1) {
        return Err(Failure::usage("--keep writes one file for each trigger: name one folder"));
    }
    let names = Names::new(args.write());
    names.rehearse(args.common.keep_privileges)?;
    let caught = signals::trigger_flag()?;
    let trigger = match args.trigger {
        // Catch the signal but ignore it, so that it does not end the program.
        Trigger::Drop => Arc::new(AtomicBool::new(false)),
        Trigger::Sigusr1 | Trigger::Both => caught,
    };
    let triggers_on_loss = args.trigger != Trigger::Sigusr1;
    let after_ns = args.after;
    Ok(Some(Plan { after_ns, triggers_on_loss, trigger, names, format: args.format }))
}

impl Plan {
    /// Runs the job.
    pub(super) fn run(
        self,
        sources: Vec<Inlet>,
        options: &CaptureOptions,
        ports: &OpenOptions,
        run: &Run<'_>,
    ) -> Result<Report, EngineError> {
        let (mut names, format) = (self.names, self.format);
        let open = || -> Result<(String, Box<dyn Sink>), PortError> {
            let path = names.take()?;
            let file = open_sink(&address_of(&path, format)?, ports)?;
            Ok((path, file))
        };
        let (after_ns, triggers_on_loss) = (self.after_ns, self.triggers_on_loss);
        let flight = FlightOptions { after_ns, triggers_on_loss, trigger: &self.trigger };
        burstline_engine::capture_flight(sources, open, options, &flight, run)
    }
}

/// The names of the files: `FILE`, `FILE-2`, ..., except those in use.
pub(super) struct Names {
    path: String,
    /// The last number that was tried.
    used: u32,
}

impl Names {
    pub(super) fn new(path: &str) -> Self {
        Self { path: path.to_owned(), used: 0 }
    }

    /// Creates an empty file of the next free name, and returns the name. Only its owner may read
    /// it: opening an existing file for writing keeps its mode.
    fn take(&mut self) -> Result<String, PortError> {
        if self.path == NOTHING {
            return Ok(self.path.clone());
        }
        loop {
            self.used += 1;
            let path = numbered(&self.path, self.used);
            match Opening::write().create_new().open(Path::new(&path)) {
                Ok(_) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(PortError::Io { action: "create", path: path.into(), error });
                }
            }
        }
    }

    /// Creates and removes the first file with the privileges that the recorder will have.
    pub(super) fn rehearse(&self, keeps_privileges: bool) -> Result<(), Failure> {
        let mut names = Self::new(&self.path);
        let attempt = || {
            // If dropping fails, the job reports it.
            let _ = keeps_privileges || privileges::give_up().is_ok();
            let path = names.take()?;
            if path != NOTHING {
                late::remove_file(Path::new(&path)).map_err(|error| PortError::Io {
                    action: "remove",
                    path: path.into(),
                    error,
                })?;
            }
            Ok(())
        };
        // On a separate thread, so that only that one loses its privileges.
        let outcome: Result<(), PortError> = apart("remove", attempt)?;
        outcome.map_err(|error| {
            let mend = match keeps_privileges {
                true => "",
                false => "; files are made without root's rights: see --keep-privileges",
            };
            Failure::new(format!("{error}{mend}"))
        })
    }
}

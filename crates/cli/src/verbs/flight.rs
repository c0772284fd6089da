//! `burstline capture --keep`: the flight recorder's triggers, and the names of its files.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use burstline_engine::{CaptureOptions, EngineError, FlightOptions, Inlet, Report, Run};
use burstline_port::{OpenOptions, PortError, Sink, open_sink};
use burstline_sys::privileges;

use super::capture::address_of;
use crate::args::{CaptureArgs, Format, NOTHING, Trigger};
use crate::failure::Failure;
use crate::signals;

/// What there is to do when something asks for the past.
pub(super) struct Plan {
    after_ns: u64,
    triggers_on_loss: bool,
    trigger: Arc<AtomicBool>,
    names: Names,
    format: Option<Format>,
}

/// What `--keep` asks for, if it is there. Found wanting before anything is opened: a file that
/// cannot be made must not be a surprise when it is needed.
pub(super) fn plan(args: &CaptureArgs) -> Result<Option<Plan>, Failure> {
    if args.keep.is_none() {
        return Ok(None);
    }
    if args.write() == "-" {
        let what = "--keep writes a file for each trigger: name one with --write, not -";
        return Err(Failure::usage(what));
    }
    let names = Names { path: args.write().to_owned(), used: 0 };
    names.rehearse(args.common.keep_privileges)?;
    let caught = signals::trigger_flag()?;
    let trigger = match args.trigger {
        // Caught and not heard, so that it does not end the program.
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

/// The names of the files: `FILE`, `FILE-2`, ..., without those that are taken.
struct Names {
    path: String,
    /// Numbers that are used up.
    used: u32,
}

impl Names {
    /// Makes an empty file of the next name that is free, and returns the name.
    fn take(&mut self) -> Result<String, PortError> {
        if self.path == NOTHING {
            return Ok(self.path.clone());
        }
        loop {
            self.used += 1;
            let path = numbered(&self.path, self.used);
            match fs::File::create_new(&path) {
                Ok(_) => return Ok(path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    return Err(PortError::Io { action: "create", path: path.into(), error });
                }
            }
        }
    }

    /// Makes the first file and takes it away again, with the rights that the recorder will have.
    fn rehearse(&self, keeps_privileges: bool) -> Result<(), Failure> {
        let mut names = Self { path: self.path.clone(), used: 0 };
        let attempt = || {
            // Where giving up is refused, the job says so.
            let _ = keeps_privileges || privileges::drop_all_capabilities().is_ok();
            let path = names.take()?;
            if path != NOTHING {
                fs::remove_file(&path).map_err(|error| PortError::Io {
                    action: "remove",
                    path: path.into(),
                    error,
                })?;
            }
            Ok(())
        };
        // On a thread of its own, with which the loss of rights ends.
        let outcome = std::thread::scope(|scope| scope.spawn(attempt).join());
        let outcome: Result<(), PortError> =
            outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        outcome.map_err(|error| {
            let mend = match keeps_privileges {
                true => "",
                false => "; files are made without root's rights: see --keep-privileges",
            };
            Failure::new(format!("{error}{mend}"))
        })
    }
}

/// The name of file number `number`, from 1: the number stands before the extension, and that of
/// a compressed file before both.
fn numbered(path: &str, number: u32) -> String {
    if number == 1 {
        return path.to_owned();
    }
    let name_at = path.rfind('/').map_or(0, |slash| slash + 1);
    // A dot at the start of a name begins no extension.
    let name = &path[name_at..];
    let dot_of = |name: &str| name.rfind('.').filter(|&dot| dot > 0);
    let compressed = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end));
    match compressed.and_then(dot_of).or(dot_of(name)) {
        Some(dot) => {
            let (stem, extension) = path.split_at(name_at + dot);
            format!("{stem}-{number}{extension}")
        }
        None => format!("{path}-{number}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_stands_before_the_extension() {
        assert_eq!(numbered("a.b/x.pcapng", 1), "a.b/x.pcapng");
        assert_eq!(numbered("a.b/x.pcapng", 2), "a.b/x-2.pcapng");
        assert_eq!(numbered("a.b/x", 3), "a.b/x-3");
        assert_eq!(numbered(".hidden", 2), ".hidden-2");
        assert_eq!(numbered("x.tar.gz", 10), "x-10.tar.gz");
        assert_eq!(numbered("a.b/x.zst", 2), "a.b/x-2.zst");
    }
}

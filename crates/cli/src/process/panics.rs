//! A panic of any thread ends the process: a job that goes on without one of its threads would
//! wait for it forever, or lose packets unseen.
//!
//! Release builds abort on a panic anyway. Builds that unwind, for tests, do the same by the hook
//! here, so both print the same line and end with the same code: 134, by SIGABRT.

use std::panic::{self, PanicHookInfo};
use std::{env, process, thread};

use crate::failure::complain;

/// Ends the process with one line on standard error when a thread panics. With `RUST_BACKTRACE` the
/// usual message follows the line.
pub(crate) fn end_the_process() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        complain(&line(thread::current().name().unwrap_or("unnamed"), what));
        if env::var_os("RUST_BACKTRACE").is_some_and(|wanted| wanted != "0") {
            usual(what);
        }
        process::abort();
    }));
}

fn line(name: &str, what: &PanicHookInfo<'_>) -> String {
    let place = what.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let why = what.payload_as_str().unwrap_or("without a message");
    format!("a defect: the thread `{name}` panicked at {place}: {why}; please report this")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::sync::mpsc;

    use super::*;

    /// The child of the test below: this program again, whose main thread waits for one that
    /// panics, as a job's watcher waits for the job.
    #[test]
    #[ignore = "run by a_panic_of_any_thread_ends_the_process"]
    fn panics_beside_a_thread_that_waits() {
        if env::var_os("BURSTLINE_TEST_PANIC").is_none() {
            return;
        }
        end_the_process();
        let (held, waiting) = mpsc::channel::<()>();
        let job = thread::Builder::new().name("job".to_owned()).spawn(|| panic!("on\npurpose"));
        let _ = waiting.recv();
        drop((job, held));
    }

    #[test]
    fn a_panic_of_any_thread_ends_the_process() {
        let name = "process::panics::tests::panics_beside_a_thread_that_waits";
        let mut child = Command::new(env::current_exe().unwrap());
        child.args(["--exact", name, "--ignored", "--nocapture"]);
        let child = child.env("BURSTLINE_TEST_PANIC", "yes").env_remove("RUST_BACKTRACE");
        let output = child.output().unwrap();
        assert_eq!(output.status.signal(), Some(6), "{output:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        let begin =
            "burstline: a defect: the thread `job` panicked at crates/cli/src/process/panics";
        assert!(errors.starts_with(begin), "{errors}");
        assert!(errors.ends_with(": on purpose; please report this\n"), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

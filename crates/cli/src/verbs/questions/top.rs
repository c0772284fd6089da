//! `burstline top`: shows a running job, or the published logs, in a terminal.
//!
//! ```text
//!   a job's /events ──┐ thread                 ┌─► draw ──► terminal, only changed cells
//!                     ├──────► News ──► Series ┤
//!   published names ──┘                        └─► text, if there is no terminal
//! ```
//!
//! A job sends the same object to its page, with the names of the `--json` report.
//!
//! Rights: all threads give up theirs first. A helper connects to publishers.
//!
//! Ownership: the asking thread owns its connection and is not joined at the end. The
//! [`Screen`](screen::Screen) owns the terminal, and restores it however the program ends.

mod board;
mod draw;
mod parts;
mod screen;
mod source;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use crate::args::TopArgs;
use crate::confinement::give_up;
use crate::failure::Failure;
use crate::view;
use board::Series;
use source::Source;
pub(crate) use source::port as top_port;

/// Width of a frame that is printed as text.
const TEXT_COLUMNS: u16 = 100;

/// Shows figures until the user ends it.
pub(crate) fn top(args: &TopArgs) -> Result<ExitCode, Failure> {
    give_up()?;
    let source = Source::of(args.address.as_deref())?;
    let mut series = Series::new(source.name());
    if args.once || !io::stdout().is_terminal() {
        let news = source.look()?;
        series.hear(news);
        view::print(&draw::text(&series.board(), TEXT_COLUMNS))?;
        return Ok(ExitCode::SUCCESS);
    }
    screen::watch(source, series, Duration::from_nanos(args.interval))?;
    Ok(ExitCode::SUCCESS)
}

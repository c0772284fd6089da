//! The program's output: lines while a job runs, and at its end the ledger or JSON.

mod balance;
mod bounce;
pub(crate) mod flows;
mod inline;
mod json;
mod ledger;
mod line;
pub(crate) mod live;
mod merge;
mod questions;
pub(crate) mod rfc2544;
pub(crate) mod scenario;
mod summary;
pub(crate) mod switch;
mod test;
mod values;

pub(crate) use questions::{archive, doctor, fetch, logs, query};

use std::cell::RefCell;
use std::fs::Metadata;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use burstline_engine::{
    Bounced, Counted, Generated, InlineReport, Report, Snapshot, SwitchStatus, Verdict,
};
use burstline_port::Address;

use crate::args::{JobArgs, NOTHING, SourceArgs};
use crate::failure::{Failure, complain};
use crate::foreign::{harmless, one_line};
use crate::live::About;
use crate::outcome::Outcome;
use crate::serving::{Places, Server};
use crate::signals;
use crate::words::time_text;
use summary::Summary;

/// The stream that text is printed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    /// Used when standard output carries packets.
    Stderr,
}

impl Stream {
    /// Returns the stream for text beside packets sent to `sinks`.
    pub(crate) fn beside(sinks: &[Address]) -> Self {
        let takes_packets = sinks.iter().any(Address::is_standard);
        if takes_packets { Self::Stderr } else { Self::Stdout }
    }

    /// Prints a part of a report with control characters escaped, and flushes.
    pub(crate) fn print(self, text: &str) -> io::Result<()> {
        signals::now_reporting();
        self.draw(&harmless(text))
    }

    /// Prints text that may move the cursor.
    fn draw(self, text: &str) -> io::Result<()> {
        match self {
            Self::Stdout => write(text),
            Self::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        }
    }
}

/// The style of progress output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// One line that is overwritten.
    Live,
    /// A line per interval.
    Lines,
    /// A JSON object per interval.
    Json,
    /// No output while the job runs.
    Silent,
}

/// The output of one job.
pub(crate) struct View {
    command: &'static str,
    stream: Stream,
    style: Style,
    is_json: bool,
    is_quiet: bool,
    is_verbose: bool,
    /// Where the packets go, for the report.
    sink: Option<String>,
    /// Total size of the input, if all sources are plain files.
    input_bytes: Option<u64>,
    interval: Duration,
    /// Addresses where the job can be watched.
    places: Places,
    /// The server that has shown the job, kept until the outcome is known.
    server: RefCell<Option<Server>>,
    begun: Instant,
    shown: Mark,
    /// The separate series of lines that a signal asks for.
    answered: Mark,
    findings: Findings,
}

/// Position in a series of lines.
#[derive(Clone, Debug)]
struct Mark {
    at: Instant,
    last: Snapshot,
    lines: u64,
}

impl Mark {
    fn new(at: Instant) -> Self {
        Self { at, last: Snapshot::default(), lines: 0 }
    }
}

/// Results of a job besides its ledger.
#[derive(Debug, Default)]
struct Findings {
    bounced: Option<Bounced>,
    /// What a bounce found when it counted its frames meanwhile, in the order of its frames.
    counted: Vec<Counted>,
    generated: Option<Generated>,
    switched: Option<SwitchStatus>,
    /// The fate of packets that waited for verdicts in a switch.
    inline: Option<InlineReport>,
    verdict: Option<Verdict>,
}

impl View {
    /// Creates the view of `command` according to its flags.
    pub(crate) fn new(command: &'static str, args: &JobArgs, stream: Stream) -> Self {
        let is_terminal = match stream {
            Stream::Stdout => io::stdout().is_terminal(),
            Stream::Stderr => io::stderr().is_terminal(),
        };
        let style = match (args.json, args.stats, is_terminal) {
            (true, Some(_), _) => Style::Json,
            (true, None, _) => Style::Silent,
            _ if args.quiet => Style::Silent,
            (false, _, true) => Style::Live,
            (false, Some(_), false) => Style::Lines,
            (false, None, false) => Style::Silent,
        };
        let interval = args.stats.map_or(Duration::from_secs(1), Duration::from_nanos);
        Self {
            is_json: args.json,
            is_quiet: args.quiet,
            is_verbose: args.verbose,
            places: Places::of(args),
            ..Self::with(command, stream, style, interval)
        }
    }

    /// Creates the view for a part of the demonstration.
    pub(crate) fn for_demo(command: &'static str) -> Self {
        // Its steps are short, so the live line is updated often.
        let (style, interval_ms) = match io::stdout().is_terminal() {
            true => (Style::Live, 200),
            false => (Style::Lines, 1000),
        };
        let interval = Duration::from_millis(interval_ms);
        Self { is_verbose: true, ..Self::with(command, Stream::Stdout, style, interval) }
    }

    fn with(command: &'static str, stream: Stream, style: Style, interval: Duration) -> Self {
        let now = Instant::now();
        Self {
            command,
            stream,
            style,
            is_json: false,
            is_quiet: false,
            is_verbose: false,
            sink: None,
            input_bytes: None,
            interval,
            places: Places::default(),
            server: RefCell::default(),
            begun: now,
            shown: Mark::new(now),
            answered: Mark::new(now),
            findings: Findings::default(),
        }
    }

    /// Adds the only sink of the job.
    pub(crate) fn with_sink(mut self, sink: &Address) -> Self {
        self.sink = match sink.target() {
            _ if sink.is_standard() => Some("standard output".to_owned()),
            path if sink.is_file() => Some(path.to_owned()),
            _ if sink.to_string() == NOTHING => None,
            _ => Some(sink.to_string()),
        };
        self
    }

    /// Adds the sources: for files the view shows the time left.
    pub(crate) fn with_sources(mut self, sources: &SourceArgs) -> Self {
        // Bytes of filtered packets are not counted.
        let sizes = sources.sources.iter().map(|source| {
            let is_plain = source.is_file()
                && !source.target().ends_with("z")
                && !source.target().ends_with(".zst");
            let found = std::fs::metadata(source.target()).ok().filter(|_| is_plain);
            found.filter(Metadata::is_file).map(|found| found.len())
        });
        self.input_bytes = sizes.sum::<Option<u64>>().filter(|_| sources.filter.is_none());
        self
    }

    /// Adds the result of a job that bounced packets.
    pub(crate) fn with_bounced(mut self, bounced: Bounced, counted: Vec<Counted>) -> Self {
        self.findings.bounced = Some(bounced);
        self.findings.counted = counted;
        self
    }

    /// Adds the result of a job that generated packets.
    pub(crate) fn with_generated(mut self, generated: Generated) -> Self {
        self.findings.generated = Some(generated);
        self
    }

    /// Adds the final state of a switch.
    pub(crate) fn with_switched(
        mut self,
        status: SwitchStatus,
        inline: Option<InlineReport>,
    ) -> Self {
        (self.findings.switched, self.findings.inline) = (Some(status), inline);
        self
    }

    /// Adds the result of verifying the packets that were sent.
    pub(crate) fn with_verdict(mut self, verdict: Option<Verdict>) -> Self {
        self.findings.verdict = verdict;
        self
    }

    /// Returns the addresses where the job can be watched.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// Describes the job for those who watch it.
    pub(crate) fn about(&self) -> About {
        About::new(self.command, self.sink.clone())
    }

    /// Keeps the server until the outcome is known.
    pub(crate) fn keep(&self, server: Server) {
        *self.server.borrow_mut() = Some(server);
    }

    /// Sends the outcome of the job to all who watch it.
    pub(crate) fn tell_end(&self, report: &Report, outcome: &Outcome) {
        if let Some(server) = self.server.take() {
            let is_success = outcome.is_success();
            let report = json::report(self.command, report, outcome);
            server.end(live::End::Report { is_success, report });
        }
    }

    /// Returns the interval between calls of `show`, or `None` for no calls.
    pub(crate) fn interval(&self) -> Option<Duration> {
        (self.style != Style::Silent).then_some(self.interval)
    }

    /// Marks the start of the job.
    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
        (self.shown, self.answered) = (Mark::new(self.begun), Mark::new(self.begun));
    }

    /// Shows the current state of the job.
    pub(crate) fn show(&mut self, now: &Snapshot) -> io::Result<()> {
        let mut moment = line::Moment::next(self.command, self.begun, now, &mut self.shown);
        moment.input_bytes = self.input_bytes;
        let text = match self.style {
            Style::Silent => return Ok(()),
            // Erase the rest of the previous line, and clip this one at the terminal's edge: a
            // wrapped line could not be overwritten. Source: ECMA-48 EL, DEC DECAWM.
            Style::Live => {
                let text = moment.text();
                let line = format!("\r\x1b[K\x1b[?7l{}\x1b[?7h", one_line(&text));
                return self.stream.draw(&line);
            }
            Style::Lines => format!("{}\n", moment.text()),
            Style::Json => format!("{}\n", json::interval(&moment)),
        };
        self.print(&text)
    }

    /// Prints progress on standard error for a signal; with `--json` as an object.
    pub(crate) fn answer(&mut self, now: &Snapshot) {
        self.clear_live();
        let moment = line::Moment::next(self.command, self.begun, now, &mut self.answered);
        match self.is_json {
            true => {
                // Standard error may be closed.
                let _ = writeln!(io::stderr().lock(), "{}", json::interval(&moment));
            }
            false => complain(moment.text().trim_start()),
        }
    }

    /// Erases the live line.
    pub(crate) fn clear_live(&self) {
        if self.style == Style::Live && self.shown.lines > 0 {
            // If the terminal is gone, so is the line.
            let _ = self.stream.draw("\r\x1b[K");
        }
    }

    /// Prints the result of the job.
    pub(crate) fn finish(&self, report: &Report, outcome: &Outcome) -> io::Result<()> {
        match (self.is_json, self.is_quiet) {
            (true, _) => {
                let mut object = json::report(self.command, report, outcome);
                test::add_to(&mut object, &self.findings);
                self.print(&format!("{object}\n"))
            }
            (false, true) => Ok(()),
            (false, false) => {
                let text = match self.is_verbose {
                    true => ledger::text(report, &test::text(&self.findings, true)),
                    false => self.summary(report).text(),
                };
                self.print(&format!("{text}{}\n", outcome.text(self.command)))
            }
        }
    }

    fn summary<'a>(&'a self, report: &'a Report) -> Summary<'a> {
        let sink = self.sink.as_deref();
        Summary { command: self.command, report, findings: &self.findings, sink }
    }

    /// Prints an event on standard error with the time of day: see [`announce`].
    pub(crate) fn announce(&self, what: &str) {
        if !self.is_quiet {
            self.clear_live();
            announce(what);
        }
    }

    /// Prints lines of a job, also while it runs: its report begins with the end of the job.
    fn print(&self, text: &str) -> io::Result<()> {
        self.stream.draw(&harmless(text))
    }
}

/// Prints an event on standard error with the time of day.
pub(crate) fn announce(what: &str) {
    let now = time_text(burstline_sys::clock::realtime_ns());
    // Milliseconds are enough for people.
    let now = now.get(..MILLISECONDS_END).unwrap_or(&now);
    complain(&format!("{now} UTC: {what}"));
}

/// End of the milliseconds in a date and time.
const MILLISECONDS_END: usize = "2026-11-21 21:44:01.123".len();

/// Prints a part of a report on standard output and flushes.
pub(crate) fn print(text: &str) -> io::Result<()> {
    Stream::Stdout.print(text)
}

/// Prints all that a verb has to say.
pub(crate) fn say(text: &str) -> Result<ExitCode, Failure> {
    print(text)?;
    Ok(ExitCode::SUCCESS)
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

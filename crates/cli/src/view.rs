//! What is printed: lines while a job runs, and at its end the ledger or JSON.

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
use std::time::{Duration, Instant};

use burstline_engine::{Bounced, Generated, InlineReport, Report, Snapshot, SwitchStatus, Verdict};
use burstline_port::Address;

use crate::args::{JobArgs, NOTHING, SourceArgs};
use crate::failure::complain;
use crate::foreign::{harmless, one_line};
use crate::live::About;
use crate::outcome::Outcome;
use crate::serving::{Places, Server};
use crate::words::time_text;
use summary::Summary;

/// Where text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    /// Standard output carries packets.
    Stderr,
}

impl Stream {
    /// Where text goes that stands beside what is sent to `sinks`.
    pub(crate) fn beside(sinks: &[Address]) -> Self {
        let takes_packets = sinks.iter().any(Address::is_standard);
        if takes_packets { Self::Stderr } else { Self::Stdout }
    }

    /// Prints there at once.
    pub(crate) fn print(self, text: &str) -> io::Result<()> {
        self.draw(&harmless(text))
    }

    /// Prints what may move the cursor.
    fn draw(self, text: &str) -> io::Result<()> {
        match self {
            Self::Stdout => write(text),
            Self::Stderr => io::stderr().lock().write_all(text.as_bytes()),
        }
    }
}

/// How a job is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// One line that is written over and over.
    Live,
    /// A line an interval.
    Lines,
    /// A JSON object an interval.
    Json,
    /// Nothing while it runs.
    Silent,
}

/// The view of one job.
pub(crate) struct View {
    command: &'static str,
    stream: Stream,
    style: Style,
    is_json: bool,
    is_quiet: bool,
    is_verbose: bool,
    /// Where the packets go, for the report.
    sink: Option<String>,
    /// Bytes of the files that are read, where nothing else is.
    input_bytes: Option<u64>,
    interval: Duration,
    /// Where it is to be seen while it runs.
    places: Places,
    /// Who has shown it there, until it is known how it ended.
    server: RefCell<Option<Server>>,
    begun: Instant,
    shown: Mark,
    /// Of what was asked for by a signal: its own series.
    answered: Mark,
    findings: Findings,
}

/// Where a series of lines is.
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

/// What a job has found besides its ledger.
#[derive(Debug, Default)]
struct Findings {
    bounced: Option<Bounced>,
    generated: Option<Generated>,
    switched: Option<SwitchStatus>,
    /// What became of packets that waited for verdicts in a switch.
    inline: Option<InlineReport>,
    verdict: Option<Verdict>,
}

impl View {
    /// The view of `command`, as its flags say.
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

    /// The view of a part of the demonstration.
    pub(crate) fn for_demo(command: &'static str) -> Self {
        // Its steps are short: a line that lives changes often.
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

    /// The view of a job whose packets go to one sink.
    pub(crate) fn with_sink(mut self, sink: &Address) -> Self {
        self.sink = match sink.target() {
            _ if sink.is_standard() => Some("standard output".to_owned()),
            path if sink.is_file() => Some(path.to_owned()),
            _ if sink.to_string() == NOTHING => None,
            _ => Some(sink.to_string()),
        };
        self
    }

    /// The view of a job of these sources: of files it says how much is left.
    pub(crate) fn with_sources(mut self, sources: &SourceArgs) -> Self {
        // What a filter leaves out is not counted in bytes.
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

    /// The view of a job that has passed packets on.
    pub(crate) fn with_bounced(mut self, bounced: Bounced) -> Self {
        self.findings.bounced = Some(bounced);
        self
    }

    /// The view of a job that has sent.
    pub(crate) fn with_generated(mut self, generated: Generated) -> Self {
        self.findings.generated = Some(generated);
        self
    }

    /// The view of a switch that has ended.
    pub(crate) fn with_switched(
        mut self,
        status: SwitchStatus,
        inline: Option<InlineReport>,
    ) -> Self {
        (self.findings.switched, self.findings.inline) = (Some(status), inline);
        self
    }

    /// The view of a job that has looked at what became of what was sent.
    pub(crate) fn with_verdict(mut self, verdict: Option<Verdict>) -> Self {
        self.findings.verdict = verdict;
        self
    }

    /// Where it is to be seen while it runs.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// What others see of it while it runs.
    pub(crate) fn about(&self) -> About {
        About::new(self.command, self.sink.clone())
    }

    /// Keeps who has shown it, until it is known how it ended.
    pub(crate) fn keep(&self, server: Server) {
        *self.server.borrow_mut() = Some(server);
    }

    /// Tells all who watch how the job ended.
    pub(crate) fn tell_end(&self, report: &Report, outcome: &Outcome) {
        if let Some(server) = self.server.take() {
            let is_success = outcome.is_success();
            let report = json::report(self.command, report, outcome);
            server.end(live::End::Report { is_success, report });
        }
    }

    /// How often `show` is wanted.
    pub(crate) fn interval(&self) -> Option<Duration> {
        (self.style != Style::Silent).then_some(self.interval)
    }

    /// The job runs from now on.
    pub(crate) fn begin(&mut self) {
        self.begun = Instant::now();
        (self.shown, self.answered) = (Mark::new(self.begun), Mark::new(self.begun));
    }

    /// Shows the job as it is now.
    pub(crate) fn show(&mut self, now: &Snapshot) -> io::Result<()> {
        let mut moment = line::Moment::next(self.command, self.begun, now, &mut self.shown);
        moment.input_bytes = self.input_bytes;
        let text = match self.style {
            Style::Silent => return Ok(()),
            // Erases what is left of the line before, and clips this one at the terminal's edge:
            // a line that wraps could not be written over. Source: ECMA-48 EL, DEC DECAWM.
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

    /// Says on standard error how far the job is, since a signal asked: with `--json` as an object.
    pub(crate) fn answer(&mut self, now: &Snapshot) {
        self.clear_live();
        let moment = line::Moment::next(self.command, self.begun, now, &mut self.answered);
        match self.is_json {
            true => {
                // A user who has closed it does not want to know.
                let _ = writeln!(io::stderr().lock(), "{}", json::interval(&moment));
            }
            false => complain(moment.text().trim_start()),
        }
    }

    /// Takes the live line away.
    pub(crate) fn clear_live(&self) {
        if self.style == Style::Live && self.shown.lines > 0 {
            // A terminal that has gone shows no line either.
            let _ = self.stream.draw("\r\x1b[K");
        }
    }

    /// Prints what came of the job.
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

    /// Says on standard error what has just happened, with the time of day: see [`announce`].
    pub(crate) fn announce(&self, what: &str) {
        if !self.is_quiet {
            self.clear_live();
            announce(what);
        }
    }

    fn print(&self, text: &str) -> io::Result<()> {
        self.stream.print(text)
    }
}

/// Says on standard error what has just happened, with the time of day.
pub(crate) fn announce(what: &str) {
    let now = time_text(burstline_sys::clock::realtime_ns());
    // Milliseconds are enough for people.
    let now = now.get(..MILLISECONDS_END).unwrap_or(&now);
    complain(&format!("{now} UTC: {what}"));
}

/// Where the milliseconds of a date and time end.
const MILLISECONDS_END: usize = "2026-11-21 21:44:01.123".len();

/// Prints on standard output at once.
pub(crate) fn print(text: &str) -> io::Result<()> {
    write(&harmless(text))
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

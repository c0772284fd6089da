//! The process that writes the log: it reads what jobs print, without rights.
//!
//! ```text
//!   supervisor ──lines of its own──────► main thread ──┐
//!        └──────pipes of a start──────►     │ starts    ├──► Output ──► standard output
//!   job ──what it prints──► pipe ──► two threads ──────┘
//! ```
//!
//! Threads that read give up nothing themselves: the main thread has no rights before it starts the
//! first of them. A pipe is read line by line, and each line has found its place before the next
//! one is read. So a job that prints without end blocks on its own pipe.
//!
//! Signals do not end it, because the service does: a manager may send SIGTERM to every process of
//! a service, whose last lines are still to come. A terminal stops no process that blocks SIGTTOU.
//! It ends when its line does, as it also does if the service is killed: the kernel continues it
//! then, were it stopped. First it reads what its pipes have: it may have got them just now. Any
//! failure ends it, too. Then the supervisor starts another.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use burstline_sys::seqpacket::SeqPacket;
use burstline_sys::{process, signals};
use serde_json::Value;

use super::entry::Event;
use super::line::{self, Message, Printer};
use super::output::Output;
use crate::args::LogFormat;
use crate::confinement;
use crate::failure::Failure;
use crate::supervised;

/// A longer line is split.
const LINE_BYTES_MAX: u64 = 4 << 20;

/// How long to read at the end. A pipe that is open in others may never end.
const LAST_LINES: Duration = Duration::from_millis(500);

/// Which pipe a line comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Output,
    Errors,
}

/// Writes the log of the service that has started this process, until it ends.
pub(in super::super) fn serve(format: LogFormat) -> Result<ExitCode, Failure> {
    signals::without_signals(|| {
        confinement::give_up()?;
        let given = supervised::receive_given()?;
        let line = given.ok_or_else(|| Failure::usage("--journal: only a service uses this"))?;
        let failed = |error| Failure::new(format!("the log: {error}"));
        process::go_on_when_parent_ends().map_err(failed)?;
        let (output, done) = Output::start(format).map_err(failed)?;
        // The supervisor kills this process if the line ends before.
        let line = Arc::new(SeqPacket::from(line));
        let outcome = follow(&line, &output);
        output.finish(&done);
        outcome.map(|()| ExitCode::SUCCESS).map_err(failed)
    })
}

/// Takes messages until the supervisor ends, and then what the pipes have.
fn follow(line: &Arc<SeqPacket>, output: &Arc<Output>) -> io::Result<()> {
    let (reads, all_read) = mpsc::channel();
    while let Some(message) = line::receive(line)? {
        match message {
            Message::Line(text) => output.put(text),
            Message::Pipes { printer, pipes } => {
                let (number, line, _reads) = (printer.number, Arc::clone(line), reads.clone());
                read(printer, pipes, End { number, line, _reads }, output)?;
            }
        }
    }
    drop(reads);
    let _ = all_read.recv_timeout(LAST_LINES); // disconnects when all have ended
    Ok(())
}

/// Reads pipes on threads of their own. The last one drops `end`.
fn read(printer: Printer, pipes: Vec<OwnedFd>, end: End, output: &Arc<Output>) -> io::Result<()> {
    let end = Arc::new(end);
    // The last pipe is that of errors.
    let streams = [Stream::Errors, Stream::Output];
    for (pipe, stream) in pipes.into_iter().rev().zip(streams) {
        let (end, output, job) = (Arc::clone(&end), Arc::clone(output), printer.job.clone());
        let name = format!("read {}", job.as_deref().unwrap_or("metrics"));
        thread::Builder::new().name(name).spawn(move || {
            for_each_line(File::from(pipe), |text| tell(&output, job.as_deref(), stream, text));
            drop(end);
        })?;
    }
    Ok(())
}

/// Tells the supervisor, when it is dropped, that all pipes of a start have ended.
struct End {
    number: u64,
    line: Arc<SeqPacket>,
    /// The main thread waits until nobody has one.
    _reads: Sender<()>,
}

impl Drop for End {
    fn drop(&mut self) {
        // The supervisor may have ended.
        let _ = line::send_end(&self.line, self.number);
    }
}

fn for_each_line(pipe: impl Read, mut tell: impl FnMut(&str)) {
    let mut lines = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => tell(&String::from_utf8_lossy(line.trim_ascii_end())),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Logs a line that a process has printed.
fn tell(output: &Output, job: Option<&str>, stream: Stream, line: &str) {
    let tell = |name, text, fields| output.tell(&Event { job, name, text, fields });
    match stream {
        Stream::Errors if job.is_none() => tell("metrics_message", without_stamp(line), vec![]),
        Stream::Errors => tell("message", without_stamp(line), vec![]),
        Stream::Output if output.format() == LogFormat::Text => tell("output", line, vec![]),
        // A line of a job's report or statistics.
        Stream::Output => match serde_json::from_str::<Value>(line) {
            Ok(object) if object.get("interval").is_some() => {
                tell("stats", "", vec![("stats", object)]);
            }
            Ok(object) => tell("ledger", "", vec![("report", object)]),
            Err(_) => tell("output", line, vec![]),
        },
    }
}

/// Removes the prefix of a job's message, since the log adds its own.
fn without_stamp(line: &str) -> &str {
    let line = line.strip_prefix("burstline: ").unwrap_or(line);
    match line.split_once(" UTC: ") {
        Some((stamp, rest)) if stamp.len() == "2026-11-21 21:44:01.123".len() => rest,
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn job(number: u64) -> Printer {
        Printer { number, job: Some("a".to_owned()) }
    }

    #[test]
    fn what_a_process_prints_is_logged_before_its_end_is_told() {
        let [here, there] = SeqPacket::pair().unwrap();
        let output = Arc::new(Output::new(LogFormat::Json));
        let line = Arc::new(there);
        let end = |number| End { number, line: Arc::clone(&line), _reads: mpsc::channel().0 };
        let (pipes, mut ends): (Vec<_>, Vec<_>) =
            (0..3).map(|_| io::pipe().unwrap()).map(|(read, write)| (read.into(), write)).unzip();
        let [out, errors, other] = <[OwnedFd; 3]>::try_from(pipes).unwrap();
        read(job(1), vec![out, errors], end(1), &output).unwrap();
        read(Printer { number: 2, job: None }, vec![other], end(2), &output).unwrap();
        let mut next = |end: usize, text: &str| {
            ends[end].write_all(text.as_bytes()).unwrap();
            let event: Value = serde_json::from_str(&output.take().unwrap().text).unwrap();
            ["job", "event", "text", "stats", "report"]
                .map(|key| event[key].to_string())
                .join(" ")
                .replace("null", "-")
        };
        let stamped = "burstline: 2026-11-21 21:44:01.123 UTC: x\n";
        assert_eq!(next(0, "{\"interval\":1}\n"), "\"a\" \"stats\" - {\"interval\":1} -");
        assert_eq!(next(0, "{\"x\":1}\n"), "\"a\" \"ledger\" - - {\"x\":1}");
        assert_eq!(next(0, "{x\n"), "\"a\" \"output\" \"{x\" - -");
        assert_eq!(next(1, stamped), "\"a\" \"message\" \"x\" - -");
        assert_eq!(next(2, stamped), "- \"metrics_message\" \"x\" - -");
        ends.truncate(2);
        assert_eq!(line::receive_end(&here), Some(2));
        write!(ends[0], "last").unwrap();
        drop(ends);
        assert_eq!(line::receive_end(&here), Some(1));
        assert!(output.take().unwrap().text.contains("\"last\""));
    }

    #[test]
    fn what_pipes_have_is_read_before_the_end() {
        let [here, there] = SeqPacket::pair().unwrap();
        let output = Arc::new(Output::new(LogFormat::Text));
        let (pipe, mut end) = io::pipe().unwrap();
        line::send_pipes(&here, &job(1), &[pipe.into()]).unwrap();
        here.end_sending();
        let printing = thread::spawn(move || {
            thread::sleep(LAST_LINES / 5);
            end.write_all(b"last")
        });
        follow(&Arc::new(there), &output).unwrap();
        assert!(output.take().unwrap().text.ends_with(" UTC a: last\n"));
        printing.join().unwrap().unwrap();
        // One that another process has open is not waited for.
        let [here, there] = SeqPacket::pair().unwrap();
        let (pipe, _end) = io::pipe().unwrap();
        line::send_pipes(&here, &job(1), &[pipe.into()]).unwrap();
        here.end_sending();
        follow(&Arc::new(there), &output).unwrap();
    }

    #[test]
    fn a_pipe_without_end_is_read_while_nobody_takes_the_log() {
        let output = Output::new(LogFormat::Text);
        let printed = io::repeat(b'\n').take(100_000);
        for_each_line(printed, |text| tell(&output, Some("a"), Stream::Output, text));
        output.end();
        let batches = std::iter::from_fn(|| output.take());
        assert_eq!(batches.map(|batch| batch.lines).sum::<u64>(), super::super::LINES as u64);
    }
}

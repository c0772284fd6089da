//! `burstline demo`: the program at work, on real packets, with other programs as judges.
//!
//! Every step prints what it does as the command that would do it, and leaves a count behind; at
//! the end all counts have to agree.

mod files;
mod judges;
mod worklist;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::{CaptureOptions, Limits, Policy, Progress, Report, Source, Threads};
use burstline_log::LogConfig;
use burstline_port::{Address, OpenOptions, open_sink};
use burstline_wire::hash::HashKind;

use super::file_address;
use crate::args::DemoArgs;
use crate::failure::Failure;
use crate::view::{self, View, count_text};
use crate::{job, signals};
use files::DemoFiles;

/// Copies of the real traffic that the second step records.
const COPIES: usize = 300;
/// What is recorded together with it.
const GENERATED: &str = "gen:?packets=1500000&size=random:64-128&flows=1000&protocol=mix&ip=mix";

/// Shows the program at work.
pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    let stop = signals::stop_flag()?;
    let files = DemoFiles::create(args.keep)?;
    let demo = Demo { files: &files, stop };
    say(
        "Burstline: packets back to back with a worklist beside them, and a ledger that closes.\n",
    )?;
    let real = demo.count_real_traffic()?;
    let written = demo.capture()?;
    say("\n3. What a burst is: packets back to back, and beside them 16 bytes for each.\n\n")?;
    say(&worklist::text(&file_address(&demo.files.real))?)?;
    let agreed = demo.judge(written.total.delivered)?;
    demo.conclude(&real, &written, agreed)
}

struct Demo<'a> {
    files: &'a DemoFiles,
    stop: Arc<AtomicBool>,
}

impl Demo<'_> {
    fn count_real_traffic(&self) -> Result<Report, Failure> {
        let path = &self.files.real;
        say(&format!(
            "\n1. Count real traffic (ping, DNS, HTTP between two namespaces), where it lies.\n   \
             $ burstline count {path}\n\n"
        ))?;
        self.count(path)
    }

    /// Real and generated traffic through the log into a segmented pcapng.
    fn capture(&self) -> Result<Report, Failure> {
        let (copies, recorded) = (&self.files.copies, &self.files.recorded);
        say(&format!(
            "\n2. Capture it {COPIES} times over, together with generated traffic: one thread \
             receives\n   into a contiguous log, another records from there.\n   \
             $ burstline capture {copies} \\\n       '{GENERATED}' \\\n       \
             -w {recorded} --hash symmetric\n\n"
        ))?;
        self.files.write_copies(COPIES)?;
        let ports = OpenOptions { hash: HashKind::Symmetric, ..OpenOptions::default() };
        let mut sources = Vec::new();
        for address in [file_address(copies), GENERATED.to_owned()] {
            sources.push(Source::open(&address.parse()?, &ports)?);
        }
        let options = CaptureOptions {
            limits: Limits::default(),
            threads: Threads::default(),
            log: LogConfig {
                name: "demo".to_owned(),
                max_readers: 1,
                hash_kind: HashKind::Symmetric as u32,
                ..LogConfig::default()
            },
            policy: Some(Policy::Lossless),
            table: ports.table.clone(),
        };
        let sink: Address = file_address(recorded).parse()?;
        let progress = Progress::new(sources.len());
        let mut view = View::for_demo("capture");
        let report = job::watch(&mut view, &progress, &self.stop, true, || {
            let open = || open_sink(&sink, &ports);
            burstline_engine::capture(sources, open, &options, &self.stop, &progress)
        })?;
        self.finish(&view, report)
    }

    fn count(&self, path: &str) -> Result<Report, Failure> {
        let source = Source::open(&file_address(path).parse()?, &OpenOptions::default())?;
        let progress = Progress::new(1);
        let mut view = View::for_demo("count");
        let (limits, threads) = (Limits::default(), Threads::default());
        let report = job::watch(&mut view, &progress, &self.stop, true, || {
            burstline_engine::count(vec![source], &limits, &threads, &self.stop, &progress)
        })?;
        self.finish(&view, report)
    }

    fn finish(&self, view: &View, report: Report) -> Result<Report, Failure> {
        if self.stop.load(Relaxed) {
            // The flag carries no memory; the files go with `DemoFiles`.
            return Err(Failure::new("the demonstration was interrupted"));
        }
        view.finish(&report)?;
        match report.is_success() && report.total.lost_total == 0 {
            true => Ok(report),
            false => {
                let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
                let lost = report.total.lost_total;
                Err(Failure::new(format!("{lost} packets lost; {}", errors.join("; "))))
            }
        }
    }

    /// Reads the recorded file back, here and with other programs. Returns whether all counts are
    /// `written`.
    fn judge(&self, written: u64) -> Result<bool, Failure> {
        let path = &self.files.recorded;
        say(&format!(
            "\n4. Read the recorded file back, and let other programs read it.\n   \
             $ burstline count {path}\n\n"
        ))?;
        let read = self.count(path)?;
        let mut verdicts = vec![("written by burstline".to_owned(), Some(written))];
        verdicts.push(("read by burstline".to_owned(), Some(read.total.delivered)));
        verdicts.extend(judges::ask(path));
        say("\n")?;
        for (who, count) in &verdicts {
            match count {
                Some(count) => say(&format!("   {who:<22} {:>12} packets\n", count_text(*count)))?,
                None => say(&format!("   {who:<22} not installed here\n"))?,
            }
        }
        let mut known = verdicts.iter().filter_map(|(_, count)| *count);
        let agreed = known.all(|count| count == written);
        say(if agreed { "   All counts agree.\n" } else { "   THE COUNTS DIFFER.\n" })?;
        Ok(agreed)
    }

    fn conclude(&self, real: &Report, written: &Report, agreed: bool) -> Result<ExitCode, Failure> {
        let total = &written.total;
        let is_whole = agreed && written.ports[0].delivered == real.total.delivered * COPIES as u64;
        say(&format!(
            "\n5. The ledger: offered {} = delivered {} + lost {} + in flight {}.\n   \
             unaccounted {}\n",
            count_text(total.offered),
            count_text(total.delivered),
            total.lost_total,
            total.in_flight,
            total.unaccounted,
        ))?;
        if self.files.is_kept {
            say(&format!("   The files are in {}\n", self.files.directory.display()))?;
        }
        match is_whole {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Failure::new("the demonstration's counts do not agree")),
        }
    }
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(view::print(text)?)
}

//! `burstline demo`: shows the program on real packets, checked by other programs.
//!
//! Every step prints the equivalent command and contributes a count. At the end all counts must
//! agree.
//!
//! This process gives up all rights before it reads a packet. Two others do what it may not: the
//! [`hosts`] keep their rights and send, and a launcher starts the programs that [judge](judges).

mod files;
mod hosts;
mod judges;
mod live;
mod worklist;

use std::fmt::Write;
use std::panic::resume_unwind;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use burstline_engine::{CaptureOptions, Inlet, Policy, Progress, Report, Run, Threads};
use burstline_log::LogConfig;
use burstline_port::{Address, OpenOptions, open_sink};
use burstline_wire::hash::HashKind;

use crate::args::DemoArgs;
use crate::confinement::{self, name_demo};
use crate::failure::Failure;
use crate::outcome::{Demands, Outcome};
use crate::paths::file_address;
use crate::view::{self, View};
use crate::words::count_text;
use crate::{job, signals};
use files::{COPIES, DemoFiles, REAL_PACKETS};
use judges::Verdict;
use live::Live;

/// Generated traffic recorded together with it.
const GENERATED: &str = "gen:?packets=1500000&size=random:64-128&flows=1000&protocol=mix&ip=mix";

/// Runs the demonstration.
pub(crate) fn demo(args: &DemoArgs) -> Result<ExitCode, Failure> {
    if args.network {
        return hosts::serve();
    }
    let files = DemoFiles::create(args.keep)?;
    let commands = judges::commands(&[&files.live, &files.recorded]);
    name_demo(&files.directory, commands, files.is_kept)?;
    let ports = OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() };
    let live = Live::new(&ports);
    let demo = Demo { files: &files, stop: signals::stop_flag(false)? };
    confinement::give_up()?;
    say(
        "Burstline: packets back to back with a worklist beside them, and a ledger that closes.\n",
    )?;
    let (shown, real) = demo.show_real_traffic(live, &ports)?;
    let written = demo.capture()?;
    say("\n3. What a burst is: packets back to back, and beside them 16 bytes for each.\n\n")?;
    say(&worklist::text(&file_address(&shown))?)?;
    demo.read_back(&written)?;
    demo.conclude(&[real, written])
}

struct Demo<'a> {
    files: &'a DemoFiles,
    stop: Arc<AtomicBool>,
}

impl Demo<'_> {
    /// Captures live traffic if possible, else uses a recorded file. Returns the path of the file
    /// and its ledger.
    fn show_real_traffic(
        &self,
        live: Result<Live, Failure>,
        ports: &OpenOptions,
    ) -> Result<(String, Report), Failure> {
        match live {
            Ok(live) => self.capture_live(live, ports),
            Err(reason) => {
                let path = &self.files.real;
                say(&format!(
                    "\n1. No live ports here: {reason}\n   Instead, count a recording of two \
                     hosts in place.\n   $ burstline count -v {path}\n\n"
                ))?;
                Ok((path.clone(), self.count(path)?))
            }
        }
    }

    /// Captures two live ports through the log into a file, checked with the kernel's counters.
    fn capture_live(
        &self,
        mut live: Live,
        ports: &OpenOptions,
    ) -> Result<(String, Report), Failure> {
        let path = &self.files.live;
        let (cables, taken, also) = match &live.without_xdp {
            None => (
                " on each of two cables",
                format!(" {} --only udp", live::TAKEN),
                "xdp: takes the UDP of w1 away from the host and passes the rest.".to_owned(),
            ),
            Some(reason) => ("", String::new(), reason.clone()),
        };
        say(&format!(
            "\n1. Live: two hosts, namespaces of this process, ping each other, fetch {} bytes \
             over TCP\n   and send {} datagrams{cables}.\n   afpacket: copies what v1 carries, \
             both ways.\n   {also}\n   $ burstline capture -v {}{taken} -w {path}\n\n",
            count_text(hosts::FETCHED_BYTES as u64),
            hosts::DATAGRAMS,
            live::COPIED,
        ))?;
        let (report, verdict) = self.run_live(&mut live, ports)?;
        say(&format!("\n{}", live_text(&report, &verdict)))?;
        if !verdict.agrees_with(&report) {
            return Err(Failure::new("the ports' counts differ from the kernel's"));
        }
        self.judge(path, report.total.delivered, &[])?;
        Ok((path.clone(), report))
    }

    fn run_live(
        &self,
        live: &mut Live,
        ports: &OpenOptions,
    ) -> Result<(Report, live::Verdict), Failure> {
        let sources = std::mem::take(&mut live.ports);
        let options = capture_options(ports);
        let sink: Address = file_address(&self.files.live).parse()?;
        let progress = Progress::new(sources.len());
        let mut view = View::for_demo("capture");
        let is_sent = AtomicBool::new(false);
        let (report, verdict) = thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let verdict = live.send();
                is_sent.store(true, Relaxed); // carries no memory
                verdict
            });
            let run = Run::new(&is_sent, &progress);
            let report = job::watch(&mut view, &run, false, || {
                let open = || open_sink(&sink, ports);
                burstline_engine::capture(sources, open, &options, &run)
            });
            (report, sender.join().unwrap_or_else(|panic| resume_unwind(panic)))
        });
        let (verdict, report) = (verdict?, report?);
        Ok((self.finish(&view, report)?, verdict))
    }

    /// Captures real and generated traffic through the log into a segmented pcapng.
    fn capture(&self) -> Result<Report, Failure> {
        let (copies, recorded) = (&self.files.copies, &self.files.recorded);
        say(&format!(
            "\n2. Capture it {COPIES} times over, together with generated traffic: one thread \
             receives\n   into a contiguous log, another records from there.\n   \
             $ burstline capture -v {copies} \\\n       '{GENERATED}' \\\n       \
             -w {recorded} --hash five-tuple\n\n"
        ))?;
        let ports = OpenOptions { hash: HashKind::FiveTuple, ..OpenOptions::default() };
        let mut sources = Vec::new();
        for address in [file_address(copies), GENERATED.to_owned()] {
            sources.push(Inlet::open(&address.parse()?, &ports)?);
        }
        let options = capture_options(&ports);
        let sink: Address = file_address(recorded).parse()?;
        let progress = Progress::new(sources.len());
        let mut view = View::for_demo("capture");
        let run = Run::new(&self.stop, &progress);
        let report = job::watch(&mut view, &run, false, || {
            let open = || open_sink(&sink, &ports);
            burstline_engine::capture(sources, open, &options, &run)
        })?;
        self.finish(&view, report)
    }

    fn count(&self, path: &str) -> Result<Report, Failure> {
        let source = Inlet::open(&file_address(path).parse()?, &OpenOptions::default())?;
        let progress = Progress::new(1);
        let mut view = View::for_demo("count");
        let (threads, run) = (Threads::default(), Run::new(&self.stop, &progress));
        let report = job::watch(&mut view, &run, false, || {
            burstline_engine::count(vec![source], &threads, &run)
        })?;
        self.finish(&view, report)
    }

    fn finish(&self, view: &View, report: Report) -> Result<Report, Failure> {
        if self.stop.load(Relaxed) {
            // The flag carries no memory; `DemoFiles` removes the files.
            return Err(Failure::new("the demonstration was interrupted"));
        }
        view.finish(&report, &Outcome::of(&report, &Demands::default()))?;
        let lost = report.total.lost.missing();
        match report.is_success() && lost == 0 {
            true => Ok(report),
            false => {
                let errors: Vec<_> = report.errors.iter().map(ToString::to_string).collect();
                Err(Failure::new(format!("{lost} packets lost; {}", errors.join("; "))))
            }
        }
    }

    /// Reads the recorded file back, with this and with other programs.
    fn read_back(&self, written: &Report) -> Result<(), Failure> {
        let path = &self.files.recorded;
        say(&format!(
            "\n4. Read the recorded file back, and let other programs read it.\n   \
             $ burstline count -v {path}\n\n"
        ))?;
        let read = self.count(path)?;
        say("\n")?;
        let ours = ("read by burstline".to_owned(), Some(read.total.delivered));
        self.judge(path, written.total.delivered, &[ours])
    }

    /// Has other programs count a file's packets. All counts must equal `written`.
    fn judge(&self, path: &str, written: u64, ours: &[Verdict]) -> Result<(), Failure> {
        let mut verdicts = vec![("written by burstline".to_owned(), Some(written))];
        verdicts.extend_from_slice(ours);
        verdicts.extend(judges::ask(path, written));
        for (who, count) in &verdicts {
            match count {
                Some(count) => say(&format!("   {who:<22} {:>12} packets\n", count_text(*count)))?,
                None => say(&format!("   {who:<22} no answer: is it installed?\n"))?,
            }
        }
        let mut known = verdicts.iter().filter_map(|(_, count)| *count);
        let agreed = known.all(|count| count == written);
        say(if agreed { "   All counts agree.\n" } else { "   THE COUNTS DIFFER.\n" })?;
        match agreed {
            true => Ok(()),
            false => Err(Failure::new("the demonstration's counts do not agree")),
        }
    }

    /// `ledgers`: the ledger of the real traffic and of the capture from files.
    fn conclude(&self, ledgers: &[Report; 2]) -> Result<ExitCode, Failure> {
        let is_whole = ledgers[1].ports[0].delivered == REAL_PACKETS * COPIES as u64;
        say("\n5. The ledgers.\n")?;
        for (step, report) in ledgers.iter().enumerate() {
            let total = &report.total;
            say(&format!(
                "   {}. offered {} = delivered {} + left to the host {} + lost {} + in flight {}\n",
                step + 1,
                count_text(total.offered),
                count_text(total.delivered),
                count_text(total.lost.unwanted()),
                total.lost.missing(),
                total.in_flight,
            ))?;
        }
        let unaccounted: i64 = ledgers.iter().map(|report| report.total.unaccounted).sum();
        say(&format!("   unaccounted {unaccounted}\n"))?;
        if self.files.is_kept {
            say(&format!("   The files are in {}\n", self.files.directory.display()))?;
        }
        match is_whole {
            true => Ok(ExitCode::SUCCESS),
            false => Err(Failure::new("the demonstration's counts do not agree")),
        }
    }
}

/// Returns the options for a lossless capture with the default segment size.
fn capture_options(ports: &OpenOptions) -> CaptureOptions {
    CaptureOptions {
        log: LogConfig {
            name: "demo".to_owned(),
            max_readers: 1,
            hash_kind: HashKind::FiveTuple.code().into(),
            ..LogConfig::default()
        },
        policy: Some(Policy::Lossless),
        threads: Threads::default(),
        ..CaptureOptions::new(ports.table.clone())
    }
}

/// Compares the ledger with the kernel's counters for the same packets.
fn live_text(report: &Report, verdict: &live::Verdict) -> String {
    let mut text = String::new();
    for (row, (carried, datagrams)) in
        report.ports.iter().zip(verdict.carried.iter().zip(&verdict.datagrams))
    {
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "   {:<12} {:>6} offered, {:>6} by the kernel's counter; \
             the host itself got {datagrams} of {} datagrams",
            row.port,
            count_text(row.offered),
            count_text(*carried),
            hosts::DATAGRAMS,
        );
    }
    text
}

fn say(text: &str) -> Result<(), Failure> {
    Ok(view::print(text)?)
}

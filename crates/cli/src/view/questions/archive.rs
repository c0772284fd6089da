//! The output of verbs that process whole files.

pub(crate) mod info;

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use burstline_engine::{Extracted, Fault, Recovered, Scanned};
use burstline_port::{Indexed, Losses, RunGap};
use burstline_sys::late;
use burstline_wire::files::FileKind;
use serde_json::{Value, json};

use crate::foreign::{one_line, path_text};
use crate::view::values::losses;
use crate::words::{bytes_text, count_text, left_text, size_text, time_text};

/// Interval between updates of a progress bar.
const STEP: Duration = Duration::from_millis(100);

/// Width of a progress bar, in characters.
const WIDTH: u64 = 30;

/// Progress of a pass over a file, shown on a terminal.
pub(crate) struct Bar {
    name: String,
    /// Size of the file; 0 if unknown.
    bytes: u64,
    begun: Instant,
    due: Option<Instant>,
    is_shown: bool,
}

impl Bar {
    /// Creates the bar for a file. It is shown on standard error, if that is a terminal.
    pub(crate) fn of(path: &Path, is_quiet: bool) -> Self {
        let is_wanted = !is_quiet && io::stderr().is_terminal();
        Self {
            name: path_text(path),
            bytes: late::metadata(path).map_or(0, |metadata| metadata.len()),
            begun: Instant::now(),
            due: is_wanted.then(|| Instant::now() + STEP),
            is_shown: false,
        }
    }

    /// Shows that `bytes` of the file have been read, at most once per [`STEP`].
    pub(crate) fn show(&mut self, bytes: u64) {
        let Some(due) = self.due.filter(|due| Instant::now() >= *due) else { return };
        self.due = Some(due.max(Instant::now()) + STEP);
        self.is_shown = true;
        // The terminal may be gone.
        let text = self.text(bytes, self.begun.elapsed());
        let _ = write!(io::stderr().lock(), "\r\x1b[K\x1b[?7l{text}\x1b[?7h");
    }

    fn text(&self, bytes: u64, elapsed: Duration) -> String {
        if self.bytes == 0 {
            return format!("{}: {}", self.name, bytes_text(bytes));
        }
        let part = |of: u64| (u128::from(bytes) * u128::from(of) / u128::from(self.bytes)) as u64;
        let done = part(WIDTH).min(WIDTH) as usize;
        let (full, left) = ("█".repeat(done), "░".repeat(WIDTH as usize - done));
        let (percent, read, all) = (part(100).min(100), bytes_text(bytes), bytes_text(self.bytes));
        let rest = left_text(bytes, self.bytes, elapsed);
        format!("{full}{left} {percent:>3} %  {read} of {all}{rest}  {}", self.name)
    }

    /// Erases the bar.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Formats `pcapng in segments of 256 KiB, in gzip`.
fn format_text(file: &Scanned) -> String {
    let kind = match file.kind {
        Some(FileKind::Pcap { nanoseconds, swapped, modified }) => {
            let unit = if nanoseconds { "ns" } else { "us" };
            let order = if swapped { ", big-endian" } else { "" };
            let patch = if modified { ", modified" } else { "" };
            format!("pcap in {unit}{order}{patch}")
        }
        _ => "pcapng".to_owned(),
    };
    let segments = file
        .segment_bytes
        .map_or(String::new(), |bytes| format!(" in segments of {}", size_text(bytes as usize)));
    let container = container_name(file).map_or(String::new(), |name| format!(", in {name}"));
    format!("{kind}{segments}{container}")
}

fn container_name(file: &Scanned) -> Option<&'static str> {
    match file.container? {
        FileKind::Gzip => Some("gzip"),
        FileKind::Zstd => Some("zstd"),
        _ => None,
    }
}

/// Returns the damage of a file, one line each.
fn fault_lines(file: &Scanned) -> String {
    let mut text = String::new();
    for fault in file.damage() {
        let _ = writeln!(text, "  {fault}");
    }
    if file.faults_omitted > 0 {
        let _ = writeln!(text, "  and {} more", count_text(file.faults_omitted));
    }
    text
}

/// Returns the line of a checked file, and its damage.
pub(crate) fn checked(file: &Scanned) -> String {
    let packets = count_text(file.packets);
    let mut text = format!("{}: ", path_text(&file.path));
    text += match (file.is_stopped, file.is_sound()) {
        (true, _) => "stopped before the end",
        (false, true) => "sound",
        (false, false) => "DAMAGED",
    };
    text += if file.is_being_written() { " so far, still being written" } else { "" };
    let _ = write!(text, ", {packets} packets");
    let checked = match (file.checked, file.packets) {
        (0, 0) => String::new(),
        (0, _) => ", none with a checksum".to_owned(),
        (checked, packets) if checked == packets => ", all with a checksum".to_owned(),
        (checked, _) => format!(", {} with a checksum", count_text(checked)),
    };
    text += &checked;
    for (name, count) in [
        ("corrupt", file.lost.corrupt),
        ("missing", file.lost.missing),
        ("out of time order", file.disordered),
    ] {
        if count > 0 {
            let _ = write!(text, ", {} {name}", count_text(count));
        }
    }
    let _ = writeln!(text, "; {}, {}", bytes_text(file.bytes), format_text(file));
    text + &fault_lines(file)
}

/// Returns the part about a file that all objects have.
fn file_object(file: &Scanned) -> Value {
    json!({
        "file": file.path.display().to_string(),
        "format": match file.kind {
            Some(FileKind::Pcap { .. }) => "pcap",
            _ => "pcapng",
        },
        "compression": container_name(file).unwrap_or("none"),
        "segment_bytes": file.segment_bytes,
        "segments": file.recorded.segments,
        "bytes": file.bytes,
        "packets": file.packets,
        "checked": file.checked,
        "corrupt": file.lost.corrupt,
        "missing_segments": file.lost.missing,
        "out_of_order": file.disordered,
        "sound": file.is_sound(),
        "being_written": file.is_being_written(),
        "faults": file.damage().map(fault_object).collect::<Vec<_>>(),
        "faults_omitted": file.faults_omitted,
    })
}

fn fault_object(fault: &Fault) -> Value {
    json!({
        "offset": fault.offset(),
        "packet": fault.packets().map(|(first, _)| first),
        "packets": fault.packets().map(|(_, packets)| packets),
        "text": fault.to_string(),
    })
}

fn line(object: &Value) -> String {
    format!("{object}\n")
}

/// Returns the line of packets that are missing between two files.
pub(crate) fn gap_line(gap: &RunGap) -> String {
    format!("MISSING: {}\n", one_line(&gap.to_string()))
}

/// Returns the object of `check`.
pub(crate) fn check_object(files: &[Scanned], gaps: &[RunGap], is_success: bool) -> String {
    let files: Vec<Value> = files.iter().map(file_object).collect();
    let gap = |gap: &RunGap| {
        json!({
            "after": gap.after.display().to_string(),
            "before": gap.before.display().to_string(),
            "missing": gap.packets(),
        })
    };
    let gaps: Vec<Value> = gaps.iter().map(gap).collect();
    line(&json!({ "command": "check", "files": files, "gaps": gaps, "success": is_success }))
}

fn losses_text(lost: &Losses) -> String {
    let named = lost.iter().filter(|(_, packets)| *packets > 0);
    named.map(|(cause, packets)| format!(", {cause} {}", count_text(packets))).collect()
}

/// Returns the result of `recover`.
pub(crate) fn recovered(recovered: &Recovered, output: &str) -> String {
    let mut text: String = recovered.files.iter().map(checked).collect();
    let (written, offered) = (count_text(recovered.written), count_text(recovered.offered));
    let lost = losses_text(&recovered.lost);
    let output = one_line(output);
    let _ = writeln!(text, "{output}: {written} of {offered} packets written{lost}");
    for note in &recovered.notes {
        let _ = writeln!(text, "note: {}", one_line(note));
    }
    text
}

/// Returns the object of `recover`.
pub(crate) fn recover_object(recovered: &Recovered, is_success: bool) -> String {
    line(&json!({
        "command": "recover",
        "files": recovered.files.iter().map(file_object).collect::<Vec<_>>(),
        "offered": recovered.offered,
        "written": recovered.written,
        "lost": losses(&recovered.lost),
        "unaccounted": recovered.unaccounted(),
        "notes": recovered.notes,
        "success": is_success,
    }))
}

/// Returns the result of `extract`.
pub(crate) fn extracted(extracted: &Extracted, output: Option<&str>) -> String {
    let packets = count_text(extracted.delivered());
    let offered = count_text(extracted.source.offered);
    let what = output.map_or_else(|| "found".to_owned(), |output| format!("written to {output}"));
    let bytes = bytes_text(extracted.bytes);
    let mut text = format!("{packets} of {offered} packets {what}, {bytes}");
    if let Some((earliest, latest)) = extracted.times_ns {
        let _ = write!(text, ", {} to {}", time_text(earliest), time_text(latest));
    }
    text += "\n";
    for lost in [&extracted.source.lost, &extracted.sink.lost] {
        for (cause, packets) in lost.iter().filter(|(cause, n)| *n > 0 && !cause.is_choice()) {
            let _ = writeln!(text, "lost: {cause} {}", count_text(packets));
        }
    }
    for note in extracted.source.notes.iter().chain(&extracted.sink.notes) {
        let _ = writeln!(text, "note: {}", one_line(note));
    }
    text
}

/// Returns the object of `extract`.
pub(crate) fn extract_object(extracted: &Extracted, is_success: bool) -> String {
    let mut lost = extracted.source.lost.clone();
    lost.merge(&extracted.sink.lost);
    line(&json!({
        "command": "extract",
        "offered": extracted.source.offered,
        "delivered": extracted.delivered(),
        "bytes": extracted.bytes,
        "lost": losses(&lost),
        "in_flight": extracted.source.in_flight,
        "unaccounted": extracted.unaccounted(),
        "packet_times_ns": extracted.times_ns.map(|(earliest, latest)| json!([earliest, latest])),
        "damaged": extracted.source.is_damaged,
        "notes": extracted.source.notes.iter().chain(&extracted.sink.notes).collect::<Vec<_>>(),
        "success": is_success,
    }))
}

/// Returns the line of a newly indexed file.
pub(crate) fn indexed(path: &Path, made: &Indexed) -> String {
    let (packets, runs) = (count_text(made.packets), count_text(made.runs));
    let damage = if made.is_damaged { "; damaged parts are always read" } else { "" };
    let (path, index, bytes) = (path_text(path), path_text(&made.path), bytes_text(made.bytes));
    format!("{path}: {packets} packets in {runs} runs, {index} has {bytes}{damage}\n")
}

/// Returns the object of `index`.
pub(crate) fn index_object(made: &[(PathBuf, Option<Indexed>)], is_success: bool) -> String {
    let file = |(path, made): &(PathBuf, Option<Indexed>)| {
        json!({
            "file": path.display().to_string(),
            "index": made.as_ref().map(|made| made.path.display().to_string()),
            "packets": made.as_ref().map(|made| made.packets),
            "runs": made.as_ref().map(|made| made.runs),
            "bytes": made.as_ref().map(|made| made.bytes),
            "damaged": made.as_ref().map(|made| made.is_damaged),
        })
    };
    let files: Vec<Value> = made.iter().map(file).collect();
    line(&json!({ "command": "index", "files": files, "success": is_success }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_shows_how_far_it_is() {
        let begun = Instant::now();
        let mut bar = Bar { name: "x".into(), bytes: 3000, begun, due: None, is_shown: false };
        let second = Duration::from_secs(1);
        let text = bar.text(1000, second);
        assert!(
            text.starts_with(&"█".repeat(10))
                && text.contains("░  33 %  1.00 kB of 3.00 kB, 2 s left"),
            "{text}"
        );
        assert!(bar.text(9000, second).contains(" 100 % "));
        bar.bytes = 0;
        assert_eq!(bar.text(7, second), "x: 7 B");
    }
}

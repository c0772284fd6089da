//! `burstline capture --resume`: examines an interrupted recording and chooses the next file. Files
//! that take turns are examined one by one: each is a recording in itself.
//!
//! Nothing is appended to the last file: a crash may have left a torn tail. Its packets are counted
//! again without privileges, and the comment of the next file reports them. It says how many
//! packets are in the files before it, too, so of them none is read at the next start.

use std::io;
use std::path::{Path, PathBuf};

use burstline_engine::{EngineError, Scanned};
use burstline_port::{
    CaptureReader, OpenedFiles, PortError, Resumed, check_rotated, link_siblings, numbered,
    rotated_as, rotated_link_siblings, striped_paths,
};
use burstline_sys::late;
use burstline_wire::files::{Counters, FileKind, MAX_NEED};

use crate::args::CaptureArgs;
use crate::confinement::without_rights;
use crate::failure::{Failure, complain};

/// The first words of the comment of a file that continues another.
const RESUMES: &str = "resumes after ";

/// How a recording continues.
pub(super) struct Plan {
    /// The file to write to, or with braces the files.
    pub(super) path: String,
    /// Each of them.
    pub(super) paths: Vec<String>,
    /// What each of them continues; `None` where there is no file yet.
    pub(super) resumed: Vec<Option<Resumed>>,
}

/// Checks what can be known before anything is opened. Returns the paths.
pub(super) fn check(args: &CaptureArgs) -> Result<Vec<String>, Failure> {
    let path = args.write();
    let paths = striped_paths(path).map_err(Failure::usage)?;
    if path == "-" {
        let what = "--resume continues regular files: name them with --write, not -";
        return Err(Failure::usage(what));
    }
    if paths.len() > 1 && args.files.links.splits() {
        let what = "--resume continues files that take turns, or one for each link type, not both";
        return Err(Failure::usage(what));
    }
    if let Some(rotation) = args.files.rotation() {
        for path in &paths {
            let checked = check_rotated(Path::new(path), rotation.naming);
            checked.map_err(|error| Failure::usage(error.to_string()))?;
        }
    }
    Ok(paths)
}

/// Examines the existing files. Returns `None` if there are none, so that a new recording begins.
pub(super) fn plan(args: &CaptureArgs) -> Result<Option<Plan>, Failure> {
    let (path, paths) = (args.write(), check(args)?);
    let splits = args.files.links.splits();
    let there = match args.files.rotation() {
        Some(rotation) => {
            let find = |of: &String| rotated_as(Path::new(of), rotation.naming);
            let files = paths.iter().map(find).collect::<Result<Vec<_>, _>>();
            There { files: files.map_err(EngineError::from)?, shown: path.to_owned(), next: paths }
        }
        None => There::unrotated(path, &paths, splits)?,
    };
    if there.files.iter().all(Vec::is_empty) {
        return Ok(None);
    }
    let look = |files: &Vec<PathBuf>| {
        let Some((last, before)) = files.split_last() else { return Ok(None) };
        let mut resumed = look_at(last, before)?;
        // Files of other link types tell of themselves, too, as far as they can be read.
        for sibling in if splits { newest_siblings(args, last) } else { Vec::new() } {
            let Ok(Resumed { comment, .. }) = look_at(&sibling, &[]) else { continue };
            resumed.comment += &format!("; {}", comment.strip_prefix(RESUMES).unwrap_or(&comment));
        }
        Ok(Some(resumed))
    };
    let resumed = there.files.iter().map(look).collect::<Result<Vec<_>, Failure>>()?;
    if !args.common.quiet {
        resumed.iter().flatten().for_each(|one| complain(&one.comment));
    }
    Ok(Some(Plan { path: there.shown, paths: there.next, resumed }))
}

/// Explains that another job has begun the next file since [`plan`] chose its name.
pub(super) fn taken(error: PortError) -> PortError {
    match error {
        PortError::Io { action, path, error } if error.kind() == io::ErrorKind::AlreadyExists => {
            let what = "another job began this file meanwhile: run it again";
            PortError::Io { action, path, error: io::Error::new(error.kind(), what) }
        }
        other => other,
    }
}

/// The files that are there.
struct There {
    /// Those of each disk, oldest first.
    files: Vec<Vec<PathBuf>>,
    /// The path of the next file, or with braces of the next files.
    shown: String,
    /// The path of the next file on each disk.
    next: Vec<String>,
}

impl There {
    /// Finds the files of a recording that is not rotated. The next files have one number on all
    /// disks, so that they are still one set.
    fn unrotated(path: &str, paths: &[String], splits: bool) -> Result<Self, Failure> {
        // A number is taken by a file of another link type, too: the first one may have been moved.
        let is_file = |path: &String| late::symlink_metadata(Path::new(path)).is_ok();
        let is_taken =
            |path: &String| is_file(path) || splits && !siblings(Path::new(path)).is_empty();
        let named = |number: u32| paths.iter().map(move |path| numbered(path, number));
        let mut next = 1_u32;
        while named(next).any(|path| is_taken(&path)) {
            next += 1;
        }
        let files = paths.iter().map(|path| {
            let names = (1..next).map(|number| numbered(path, number));
            names.filter(is_file).map(PathBuf::from).collect::<Vec<_>>()
        });
        let names: Vec<String> = named(next).collect();
        let stands = |path: &String| striped_paths(path).is_ok_and(|paths| paths == names);
        let shown = match Some(numbered(path, next)).filter(stands) {
            Some(path) => path,
            // A number may have no place beside the braces as they were typed: `{a.pcap,b.pcap}`.
            None if names.len() > 1 => format!("{{{}}}", names.join(",")),
            None => {
                let what = "--resume cannot number a file that has braces in its name";
                return Err(Failure::usage(format!("{path}: {what}")));
            }
        };
        Ok(Self { files: files.collect(), shown, next: names })
    }
}

/// Returns the files of other link types beside a file. If the folder cannot be read, creating the
/// next file reports it.
fn siblings(path: &Path) -> Vec<PathBuf> {
    link_siblings(path).unwrap_or_default()
}

/// Returns the newest file of each other link type: of a rotation, or beside the file `last`.
fn newest_siblings(args: &CaptureArgs, last: &Path) -> Vec<PathBuf> {
    let Some(rotation) = args.files.rotation() else { return siblings(last) };
    let found = rotated_link_siblings(Path::new(args.write()), rotation.naming);
    found.unwrap_or_default().into_iter().filter_map(|mut files| files.pop()).collect()
}

/// Counts the packets and losses of the last file. `before`: the files before it, oldest first.
fn look_at(path: &Path, before: &[PathBuf]) -> Result<Resumed, Failure> {
    let name = path.display().to_string();
    if is_empty(path) {
        let comment = format!("{RESUMES}{name}, which is empty");
        return Ok(Resumed { first_packet: packets_of(before), comment });
    }
    let examined = match Examined::of(path)? {
        Ok(examined) => examined,
        Err(reason) => {
            let comment = format!("{RESUMES}{name}, which cannot be read: {reason}");
            return Ok(Resumed { first_packet: packets_of(before), comment });
        }
    };
    let checked = &examined.checked;
    let first_packet = examined.next_packet().unwrap_or_else(|| match examined.is_alone(path) {
        true => checked.packets,
        false => packets_of(before) + checked.packets,
    });
    let state = examined.state();
    let (packets, corrupt, missing) = (checked.packets, checked.lost.corrupt, checked.lost.missing);
    let comment = format!(
        "{RESUMES}{name}, which {state}: {packets} packets, {corrupt} corrupt, \
         {missing} missing; packets that came between the two files are in no count"
    );
    Ok(Resumed { first_packet, comment })
}

fn is_empty(path: &Path) -> bool {
    late::metadata(path).is_ok_and(|found| found.len() == 0)
}

/// A file that was read from start to end.
struct Examined {
    checked: Scanned,
    /// Packets of its recording in the files before it, if its comment says so.
    before: Option<u64>,
}

impl Examined {
    /// The inner error is the reason why it is no capture: its start is torn, or zeros.
    fn of(path: &Path) -> Result<Result<Self, String>, Failure> {
        let opened = CaptureReader::open(&path.to_string_lossy(), &OpenedFiles::default());
        let examined = match opened {
            Ok(reader) => without_rights(|| Self::read(reader))?,
            Err(error) => Err(error.into()),
        };
        match examined {
            Err(EngineError::Port(PortError::NotACapture { reason, .. })) => Ok(Err(reason)),
            examined => Ok(Ok(examined?)),
        }
    }

    fn read(mut reader: CaptureReader) -> Result<Self, EngineError> {
        let before = reader.read_packets_before()?;
        let checked = burstline_engine::check(reader, &mut |_| true)?;
        Ok(Self { checked, before })
    }

    /// Returns the number of the packet after those of the file. `None` if the file does not
    /// contain it: pcap, and plain pcapng that is of an earlier version or began a recording.
    fn next_packet(&self) -> Option<u64> {
        let checked = &self.checked;
        let Some(last) = checked.recorded.last else { return Some(self.before? + checked.packets) };
        let unchecked = checked.packets - checked.checked;
        Some(last.first_packet + u64::from(last.packets) + unchecked)
    }

    /// Whether a file without numbers was never part of a recording with them: pcap has no place
    /// for them, and plain pcapng of an earlier version is not longer than a segment.
    fn is_alone(&self, path: &Path) -> bool {
        let is_classic = matches!(self.checked.kind, Some(FileKind::Pcap { .. }));
        let is_long = late::metadata(path).is_ok_and(|found| found.len() > MAX_NEED as u64);
        is_classic || is_long
    }

    /// Says whether the file is sound and whether its recorder ended it, with closing counts. pcap
    /// has no such counts: a recorder that was killed leaves the same file as one that ended.
    fn state(&self) -> &'static str {
        let mut counters = self.checked.interfaces.iter().map(|interface| &interface.counters);
        let is_pcapng = self.checked.kind == Some(FileKind::Pcapng);
        match self.checked.is_sound() {
            true if !is_pcapng => "is sound, but a pcap does not say whether it is complete",
            true if counters.any(|counters| *counters != Counters::default()) => "is whole",
            _ => "was broken off",
        }
    }
}

/// Returns the number of the packet after those of all files, oldest first. It is that of the last
/// file that says it, plus the packets of the files after it. A file that is no capture is passed
/// over, as an empty one is: a power cut leaves such files. Files before one that cannot be opened
/// do not count.
///
/// Cost: reads the newest file that says it, and those after it.
fn packets_of(files: &[PathBuf]) -> u64 {
    let mut packets = 0;
    for path in files.iter().rev().filter(|path| !is_empty(path)) {
        let Ok(examined) = Examined::of(path) else { break };
        let Ok(examined) = examined else { continue };
        if let Some(number) = examined.next_packet() {
            return number + packets;
        }
        packets += examined.checked.packets;
        if examined.is_alone(path) {
            break;
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_another_job_took_is_told() {
        let error = io::ErrorKind::AlreadyExists.into();
        let error = PortError::Io { action: "create", path: "x-2.pcap".into(), error };
        let told = "create x-2.pcap: another job began this file meanwhile: run it again";
        assert_eq!(taken(error).to_string(), told);
    }
}

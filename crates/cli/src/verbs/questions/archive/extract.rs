//! `burstline extract`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use burstline_engine::{Attempt, EngineError, first_time_ns, try_extract};
use burstline_port::{
    Capture, Chosen, OpenOptions, PortTable, Selection, catalogued, choose, is_index_stale,
    open_chosen, open_sink, write_index,
};
use burstline_sys::late;
use burstline_wire::hash::HashKind;

use super::{code, find};
use crate::args::{ExtractArgs, FilesArgs, Moment};
use crate::confinement;
use crate::failure::{Failure, complain, complain_of_ledger};
use crate::paths::address_of;
use crate::signals;
use crate::view::archive::Bar;
use crate::view::{Stream, archive};

/// The most interfaces that a note lists.
const PORTS_SHOWN: usize = 20;

/// Extracts packets from files.
pub(crate) fn extract(args: &ExtractArgs) -> Result<ExitCode, Failure> {
    let files = &args.files;
    let stop = signals::stop_flag(files.quiet)?;
    // A helper opens files, and writes catalogues and indexes.
    confinement::give_up()?;
    let write = args.write.as_deref();
    let sink = write.map(|path| address_of(path, args.format)).transpose()?;
    let stream = sink.as_ref().map_or(Stream::Stdout, |sink| Stream::beside(slice::from_ref(sink)));
    let captures = captures(files, &stop)?;
    let selection = selection(args, &captures)?;
    // Catalogues do not have the flows inside of tunnels.
    let (hash, known) = match args.inner {
        true => (HashKind::Inner, Selection { flow: None, ..selection.clone() }),
        false => (HashKind::None, selection.clone()),
    };
    let chosen = choose(captures, &known);
    refresh(&chosen.paths, &stop, files.quiet);
    let options = OpenOptions {
        hash,
        selection,
        filter: args.filter.clone().unwrap_or_default(),
        stop: Some(Arc::clone(&stop)),
        output: args.links.options(),
        ..OpenOptions::default()
    };
    let source = open_chosen("files", &chosen, &options).map_err(EngineError::from)?;
    let sink = sink.map(|sink| open_sink(&sink, &options)).transpose();
    let sink = sink.map_err(EngineError::from)?;
    let table = &options.table;
    let Attempt { mut extracted, failure } = try_extract(source, sink, table, &stop);
    if extracted.packets == 0 {
        extracted.source.notes.extend(unknown_port(args, &chosen, table));
        extracted.source.notes.extend(outer_only(args));
    }
    let lost = extracted.source.lost.missing() + extracted.sink.lost.missing();
    let is_closed = extracted.unaccounted() == 0;
    let is_whole = failure.is_none() && !extracted.source.is_damaged;
    let is_success = is_closed && lost == 0 && is_whole;
    match (files.json, files.quiet) {
        (true, _) => stream.print(&archive::extract_object(&extracted, is_success))?,
        (false, true) => {}
        (false, false) => stream.print(&archive::extracted(&extracted, write))?,
    }
    if let Some(failure) = failure {
        complain(&failure.to_string());
    }
    if !is_closed {
        complain_of_ledger(extracted.unaccounted());
    }
    Ok(code(is_success && !extracted.is_stopped))
}

/// Returns the captures that the arguments name, each once, from their folders' catalogues.
fn captures(args: &FilesArgs, stop: &AtomicBool) -> Result<Vec<Capture>, Failure> {
    let (mut bar, mut shown) = (None, PathBuf::new());
    let mut watch = |path: &Path, bytes| {
        if path != shown {
            (bar, shown) = (Some(Bar::of(path, args.quiet)), path.to_owned());
        }
        bar.iter_mut().for_each(|bar| bar.show(bytes));
        // The flag carries no memory.
        !stop.load(Relaxed)
    };
    let captures = find(
        args,
        |capture: &Capture| &capture.path,
        |target| {
            let found = catalogued(target, &mut watch).map_err(EngineError::from)?;
            if !args.quiet {
                found.notes.iter().for_each(|note| complain(note));
            }
            Ok((found.captures, found.skipped))
        },
    );
    bar.iter_mut().for_each(Bar::clear);
    let captures = captures?;
    if let Some(capture) = captures.iter().find(|capture| is_pipe(&capture.path)) {
        let what = "not a regular file; `capture --filter` reads pipes";
        return Err(Failure::usage(format!("extract {}: {what}", capture.path.display())));
    }
    Ok(captures)
}

/// Whether a path is there, but is no regular file. One that a ring has removed meanwhile is none.
fn is_pipe(path: &Path) -> bool {
    path.as_os_str() == "-" || late::metadata(path).is_ok_and(|found| !found.is_file())
}

fn selection(args: &ExtractArgs, captures: &[Capture]) -> Result<Selection, Failure> {
    let is_relative = |time: &Option<Moment>| matches!(time, Some(Moment::After(_)));
    let first_ns = match is_relative(&args.from) || is_relative(&args.to) {
        true => first_time_ns(captures)?.unwrap_or(0),
        false => 0,
    };
    let (from_ns, to_ns) =
        (args.from.map(|time| time.ns(first_ns)), args.to.map(|time| time.ns(first_ns)));
    if let (Some(from_ns), Some(to_ns)) = (from_ns, to_ns)
        && from_ns >= to_ns
    {
        return Err(Failure::usage("--from must be before --to: no packet can be in between"));
    }
    Ok(Selection {
        from_ns,
        to_ns,
        flow: args.flow,
        interface: args.port.clone(),
        may_be_open: true,
    })
}

/// Returns a note if no file has the wanted interface. None if that is unknown: not all files were
/// opened, or there are more interfaces than a job tells apart.
fn unknown_port(args: &ExtractArgs, chosen: &Chosen, table: &PortTable) -> Option<String> {
    let wanted = args.port.as_deref()?;
    let is_full = table.entries_from(0).len() >= PortTable::MAX_ENTRIES;
    if is_full || chosen.has_passed() {
        return None;
    }
    let entries = table.entries_from(0);
    let mut known: Vec<&str> = entries.iter().map(|entry| entry.name.as_str()).collect();
    if known.contains(&wanted) {
        return None;
    }
    known.sort_unstable();
    known.dedup();
    let shown = known[..known.len().min(PORTS_SHOWN)].join(", ");
    let has = match known.len() {
        0 => "no interface".to_owned(),
        all if all > PORTS_SHOWN => format!("{shown} and {} more", all - PORTS_SHOWN),
        _ => shown,
    };
    Some(format!("--port {wanted}: no interface is called so; what was read has {has}"))
}

/// Returns a note if a conversation was looked for only outside of tunnels.
fn outer_only(args: &ExtractArgs) -> Option<String> {
    let what = "--flow asks for the outermost packet; add --inner to look into tunnels, as `flows` \
                does";
    (args.flow.is_some() && !args.inner).then(|| what.to_owned())
}

/// Rewrites stale indexes. If one cannot be written, the file is read without it.
fn refresh(paths: &[PathBuf], stop: &AtomicBool, is_quiet: bool) {
    for path in paths.iter().filter(|path| is_index_stale(path)) {
        // The flag carries no memory.
        if let Err(error) = write_index(path, &mut |_| !stop.load(Relaxed))
            && !is_quiet
        {
            complain(&format!("{error}: {} is read from start to end", path.display()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_removed_is_no_pipe() {
        assert!(is_pipe(Path::new("-")) && is_pipe(Path::new("/dev/null")));
        assert!(!is_pipe(Path::new("/does/not/exist.pcap")));
        assert!(!is_pipe(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))));
    }
}

//! The output of `doctor logs`: published names, their logs and their readers.

use std::fmt::Write;
use std::path::Path;

use burstline_log::Policy;
use burstline_share::{PublisherStatus, ReaderStatus, ShareError};
use serde_json::{Value, json};

use crate::foreign::{one_line, path_text};
use crate::words::{count_text, size_text};

/// A socket and its publisher's answer.
pub(crate) struct Published {
    /// The path of the socket, or the name that was asked for.
    pub(crate) path: String,
    pub(crate) answer: Result<PublisherStatus, ShareError>,
}

impl Published {
    fn name(&self) -> &str {
        let path = Path::new(&self.path);
        path.file_name().and_then(|name| name.to_str()).unwrap_or(&self.path)
    }

    /// Returns whether the socket was left behind by a killed publisher.
    fn is_stale(&self) -> bool {
        matches!(self.answer, Err(ShareError::Absent { is_stale: true, .. }))
    }

    fn mend(&self) -> Option<String> {
        self.is_stale().then(|| format!("rm {}, or publish it again", self.path))
    }
}

/// Returns the text for people.
pub(crate) fn text(found: &[Published]) -> String {
    let mut text = String::new();
    for published in found {
        let name = &*one_line(published.name());
        // Writing to a string cannot fail, here and below.
        let _ = match (&published.answer, published.mend()) {
            (Ok(status), _) => publisher(&mut text, name, status),
            (Err(_), Some(mend)) => writeln!(text, "{name}: its publisher has gone; fix: {mend}"),
            (Err(error), None) => writeln!(text, "{name}: {error}"),
        };
    }
    if found.is_empty() {
        text += "no log is published: burstline capture SOURCE --publish NAME publishes one\n";
    }
    text
}

fn publisher(text: &mut String, name: &str, status: &PublisherStatus) -> std::fmt::Result {
    let PublisherStatus { epoch, pid, uid, path, .. } = status;
    let (up, path) = (span_text(status.up_s), path_text(path));
    writeln!(text, "{name}: epoch {epoch}, process {pid} of user {uid}, for {up}, at {path}")?;
    for (number, log) in status.logs.iter().enumerate() {
        let kept = match log.kept_ns {
            0 => String::new(),
            kept_ns => format!(", the last {:.1} s kept", kept_ns as f64 / 1e9),
        };
        writeln!(
            text,
            "  log {number}: {} packets, {} segments of {}, {} of {} seats taken{kept}",
            count_text(log.published),
            log.segments,
            size_text(log.segment_bytes as usize),
            log.readers,
            log.max_readers,
        )?;
    }
    status.readers.iter().try_for_each(|one| reader(text, one))
}

fn reader(text: &mut String, reader: &ReaderStatus) -> std::fmt::Result {
    let ReaderStatus { log, pid, uid, command, window, held_segments, .. } = reader;
    writeln!(
        text,
        "    reader of log {log}: {command} ({pid}, user {uid}) for {}, {}, {} read, {} missed, \
         {} behind, holds {held_segments} of {window} segments",
        span_text(reader.attached_s),
        policy(reader),
        count_text(reader.delivered),
        count_text(reader.missed),
        count_text(reader.lag_packets),
    )
}

/// Formats a reader's policy: `lossless`, `lossy, untrusting`, ...
pub(crate) fn policy(reader: &ReaderStatus) -> String {
    let policy = match (reader.policy, reader.is_demoted) {
        (_, true) => "lossless until it was too slow",
        (Policy::Lossless, false) => "lossless",
        (Policy::Lossy, false) => "lossy",
    };
    match reader.is_untrusted {
        true => format!("{policy}, untrusting"),
        false => policy.to_owned(),
    }
}

/// Formats `3 s`, `5 min`, `2 h`.
fn span_text(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// Returns one object; keys and units are an interface.
pub(crate) fn json(found: &[Published]) -> Value {
    let name = |published: &Published| match &published.answer {
        Ok(status) => publisher_json(published.name(), status),
        Err(error) => json!({
            "name": published.name(),
            "socket": published.path,
            "stale": published.is_stale(),
            "error": error.to_string(),
            "mend": published.mend(),
        }),
    };
    json!({ "command": "doctor logs", "names": found.iter().map(name).collect::<Vec<_>>() })
}

fn publisher_json(name: &str, status: &PublisherStatus) -> Value {
    let logs = status.logs.iter().map(|log| {
        json!({
            "packets": log.published,
            "segments": log.segments,
            "segment_bytes": log.segment_bytes,
            "seats_taken": log.readers,
            "seats": log.max_readers,
            "kept_s": log.kept_ns as f64 / 1e9,
        })
    });
    json!({
        "name": name,
        "socket": status.path.display().to_string(),
        "epoch": status.epoch,
        "pid": status.pid,
        "uid": status.uid,
        "up_s": status.up_s,
        "logs": logs.collect::<Vec<_>>(),
        "readers": status.readers.iter().map(|one| reader_json(one, true)).collect::<Vec<_>>(),
    })
}

/// Returns a reader's seat; `is_there`: whether the reader existed when it was sampled.
pub(crate) fn reader_json(reader: &ReaderStatus, is_there: bool) -> Value {
    json!({
        "log": reader.log,
        "seat": reader.seat,
        "pid": reader.pid,
        "uid": reader.uid,
        "command": reader.command,
        "policy": if reader.policy == Policy::Lossless { "lossless" } else { "lossy" },
        "untrusted": reader.is_untrusted,
        "demoted": reader.is_demoted,
        "delivered": reader.delivered,
        "missed": reader.missed,
        "lag": reader.lag_packets,
        "window": reader.window,
        "held_segments": reader.held_segments,
        "attached_s": reader.attached_s,
        "there": is_there,
    })
}

//! Queries the status of publishers.

use std::path::Path;

use burstline_sys::privileges;

use crate::error::ShareError;
use crate::link::Call;
use crate::message::{Reply, Request};
use crate::places;
use crate::status::{LOGS_MAX, PublisherStatus, READERS_MAX};

/// Queries the publisher of `name`. Takes up to 5 s if it does not answer. A thread without rights
/// reads the answer.
///
/// # Errors
/// As for [`Attachment::open`](crate::Attachment::open).
pub fn query(name: &str) -> Result<PublisherStatus, ShareError> {
    let call = Call::connect(name)?;
    privileges::without_rights(|| status(&call))
        .unwrap_or_else(|error| Err(ShareError::system("drop privileges for", &call.path, error)))
}

fn status(call: &Call) -> Result<PublisherStatus, ShareError> {
    call.send(&Request::Query)?;
    let path: &Path = &call.path;
    let (mut epoch, mut pid, mut up_s) = (0, 0, 0);
    let (mut logs, mut readers) = (Vec::new(), Vec::new());
    loop {
        match call.receive(None)? {
            Reply::Publisher { epoch: theirs, pid: process, up_s: up, .. } => {
                (epoch, pid, up_s) = (theirs, process, up)
            }
            Reply::Log(log) if logs.len() < LOGS_MAX => logs.push(log),
            Reply::Readers(more) if readers.len() < READERS_MAX => readers.extend(more),
            Reply::Refused(refusal) => {
                return Err(ShareError::Refused { path: path.to_owned(), refusal });
            }
            Reply::End => break,
            _ => return Err(call.broken("its answer does not fit a query")),
        }
    }
    let uid = call.peer.uid;
    Ok(PublisherStatus { path: path.to_owned(), epoch, pid, uid, up_s, logs, readers })
}

/// A name that is currently published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The name, which is its socket's file name.
    pub name: String,
    /// The publisher's answer.
    pub status: PublisherStatus,
}

/// Returns the names, sorted by path, that a reader finds and whose publishers answer. Takes up to
/// 5 s for each publisher that does not.
pub fn published() -> Vec<Published> {
    let answered = places::published_sockets().into_iter().filter_map(|path| {
        let name = path.file_name()?.to_str()?.to_owned();
        Some(Published { name, status: query(path.to_str()?).ok()? })
    });
    answered.collect()
}

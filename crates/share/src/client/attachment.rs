//! Attaches to logs that another process publishes.
//!
//! ```text
//! while let Some(burst) = reader.next_burst() { ... }
//! is there more?  reader.is_finished()        the writer has ended the log: no
//!                 link.is_gone()              it was killed: call next_burst once more, then no
//! then            Attachment::open_next(..)   the next writer, epoch + 1, once it publishes
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_log::{
    MAX_WINDOW, Policy, Reader, ReceivedFiles, Start, UntrustedReader, VerdictGiver,
};

use crate::error::ShareError;
use crate::feed::Feed;
use crate::link::{Call, WriterLink};
use crate::message::{AttachRequest, Reply, Request, Welcome};
use crate::query::query;
use crate::status::LOGS_MAX;
use crate::trust::Trust;

/// A reader's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachConfig {
    /// Whether the reader may be lapped, or holds up the writer.
    pub policy: Policy,
    /// The number of segments it may hold at the same time, in `[1, MAX_WINDOW]`.
    pub window: usize,
    /// The reader's start.
    pub start: Start,
    /// The number of a log of the name, from 0; all if `None`.
    pub log: Option<u32>,
    /// Publishers whose logs are read in place.
    pub trust: Trust,
    /// Whether it gives verdicts on the packets, to a publisher that waits for them. Each log
    /// accepts one such reader.
    pub gives_verdicts: bool,
}

impl Default for AttachConfig {
    fn default() -> Self {
        let (policy, start, trust) = (Policy::Lossy, Start::Now, Trust::NOBODY);
        Self { policy, window: 1, start, log: None, trust, gives_verdicts: false }
    }
}

/// Seats at the logs of a name, not mapped yet.
#[derive(Debug)]
pub struct Offer {
    /// The files of each log. The seats stay taken while `link`'s socket is open.
    pub logs: Vec<ReceivedFiles>,
    /// The connection.
    pub link: WriterLink,
    /// Whether this publisher's logs are read in place.
    pub is_in_place: bool,
}

impl Offer {
    /// Takes seats at the logs published as `name`, or, if it contains a slash, at that path. Takes
    /// up to 10 s if the publisher does not answer.
    ///
    /// # Errors
    /// [`ShareError::Absent`]: there is no publisher. [`ShareError::NotAllowed`] or
    /// [`ShareError::Refused`]: the publisher refuses this process. [`ShareError::NotTrusted`]:
    /// this process does not trust the publisher. Other errors say what is broken.
    pub fn ask(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let call = Call::connect(name)?;
        // Checked before the request is sent, so that the checked process is the one that answers.
        let is_in_place = config.trust.covers(&call.path, call.peer)?;
        call.send(&Request::Attach(AttachRequest {
            policy: config.policy,
            start: config.start,
            is_untrusted: !is_in_place,
            // A window that exceeds u32 exceeds every publisher's maximum.
            window: u32::try_from(config.window).unwrap_or(u32::MAX),
            log: config.log,
            gives_verdicts: config.gives_verdicts,
        }))?;
        let (mut logs, mut epoch) = (Vec::new(), 0);
        loop {
            let mut files = Vec::new();
            let welcome = match call.receive(Some(&mut files))? {
                Reply::Welcome(welcome) => welcome,
                Reply::Refused(refusal) => {
                    return Err(ShareError::Refused { path: call.path, refusal });
                }
                _ => return Err(call.broken("its answer does not fit an attach request")),
            };
            let Welcome { index, count, seat, window, part, .. } = welcome;
            if index as usize != logs.len() || index >= count || count as usize > LOGS_MAX {
                return Err(call.broken("its logs are not in order"));
            }
            if index > 0 && welcome.epoch != epoch {
                return Err(call.broken("its logs have different epochs"));
            }
            if window as usize > MAX_WINDOW {
                return Err(call.broken("it grants a window larger than the maximum"));
            }
            let verdicts = if config.gives_verdicts { files.pop() } else { None };
            let Ok([packets, control, page]) = <[OwnedFd; 3]>::try_from(files) else {
                return Err(call.broken("it passes the wrong number of descriptors"));
            };
            epoch = welcome.epoch;
            let (seat, window, start) = (seat as usize, window as usize, config.start);
            logs.push(ReceivedFiles {
                packets,
                control,
                page,
                seat,
                window,
                start,
                part,
                verdicts,
            });
            if index + 1 == count {
                return Ok(Self { logs, link: call.hang_on(epoch), is_in_place });
            }
        }
    }
}

/// Readers of a name's logs.
#[derive(Debug)]
pub struct Attachment {
    /// One for each log. They can be used independently: each keeps the seats taken while it lives.
    pub readers: Vec<Feed>,
    /// The receiver of each reader's verdicts; empty unless verdicts were requested.
    pub verdicts: Vec<Arc<VerdictGiver>>,
    /// The connection.
    pub link: Arc<WriterLink>,
}

impl Attachment {
    /// Attaches to the logs published as `name`. Packets are copied and checked, unless
    /// [`AttachConfig::trust`] covers the publisher: then they are read in place.
    ///
    /// # Errors
    /// As for [`Offer::ask`]; [`ShareError::Attach`] if the publisher passes no log.
    pub fn open(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let Offer { logs, link, is_in_place } = Offer::ask(name, config)?;
        let attach = |files| match is_in_place {
            // SAFETY: `Trust` covers the publisher. Either the caller has promised that it keeps to
            // the protocol. Or its process runs this program's file: its writer is the one compiled
            // into this process, and we assume no more of it than of a writer here. The seat stays
            // ours while the socket is open, and `tie_to` keeps that open while the reader or a
            // burst it holds lives.
            true => unsafe { Reader::attach(files) }.map(Feed::Trusting),
            false => UntrustedReader::attach(files).map(|reader| Feed::Wary(Box::new(reader))),
        };
        let failed = |error| ShareError::Attach { path: link.path().to_owned(), error };
        let (mut readers, mut verdicts) = (Vec::with_capacity(logs.len()), Vec::new());
        for mut files in logs {
            let column = files.verdicts.take();
            let reader = attach(files).map_err(failed)?;
            reader.tie_to(link.socket());
            if let Some(column) = column {
                verdicts.push(Arc::new(reader.verdicts(column).map_err(failed)?));
            }
            readers.push(reader);
        }
        Ok(Self { readers, verdicts, link: Arc::new(link) })
    }

    /// Attaches to the publisher that follows `link`'s publisher at the same place. Existing
    /// readers stay attached, to be drained. `None` if there is no publisher, or still the same
    /// one. A publisher that has ended stays for a moment, and its report would list a reader that
    /// read nothing.
    ///
    /// # Errors
    /// As for [`open`](Self::open), except `Absent`.
    pub fn open_next(link: &WriterLink, config: &AttachConfig) -> Result<Option<Self>, ShareError> {
        // The path has a slash, so no directories are searched.
        let path = link.path().to_string_lossy();
        let next = query(&path).and_then(|now| match now.epoch == link.epoch() {
            true => Ok(None),
            false => Self::open(&path, config).map(Some),
        });
        match next {
            Err(ShareError::Absent { .. }) => Ok(None),
            next => next,
        }
    }
}

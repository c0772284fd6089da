//! Reading what another process publishes.
//!
//! ```text
//! while let Some(burst) = reader.next_burst() { ... }
//! is there more?  reader.is_finished()        the writer has ended the log: no
//!                 link.is_gone()              it was killed: once more next_burst, then no
//! then            Attachment::open_next(..)   the next writer, epoch + 1, when it is there
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

/// What a reader asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttachConfig {
    /// Whether it may be lapped, or holds the writer up.
    pub policy: Policy,
    /// How many segments it may hold at once, in `[1, MAX_WINDOW]`.
    pub window: usize,
    /// Where it starts.
    pub start: Start,
    /// Which log of the name, from 0; all if `None`.
    pub log: Option<u32>,
    /// Whose logs are read in place.
    pub trust: Trust,
    /// Whether it gives verdicts on the packets, to a publisher that waits for them. One reader of
    /// a log can.
    pub gives_verdicts: bool,
}

impl Default for AttachConfig {
    fn default() -> Self {
        let (policy, start, trust) = (Policy::Lossy, Start::Now, Trust::NOBODY);
        Self { policy, window: 1, start, log: None, trust, gives_verdicts: false }
    }
}

/// Seats at the logs of a name, not yet mapped.
#[derive(Debug)]
pub struct Offer {
    /// What each log's reader needs. The seats stay taken while `link`'s socket is open.
    pub logs: Vec<ReceivedFiles>,
    /// The connection.
    pub link: WriterLink,
    /// Whether the publisher is one whose logs are read in place.
    pub is_in_place: bool,
}

impl Offer {
    /// Takes seats at the logs published as `name`, or, with a slash in it, at that path. Takes
    /// up to 10 s where the publisher does not answer.
    ///
    /// # Errors
    /// [`ShareError::Absent`]: there is no publisher. [`ShareError::NotAllowed`] or
    /// [`ShareError::Refused`]: it refuses us. [`ShareError::NotTrusted`]: we refuse it. The rest
    /// says what is broken.
    pub fn ask(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let call = Call::connect(name)?;
        // Before the call is answered: who answers is the process that was looked at.
        let is_in_place = config.trust.covers(&call.path, call.peer)?;
        call.send(&Request::Attach(AttachRequest {
            policy: config.policy,
            start: config.start,
            is_untrusted: !is_in_place,
            // More than a u32 is more than any publisher's most.
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
                _ => return Err(call.broken("its answer is not one to an attach")),
            };
            let Welcome { index, count, seat, window, part, .. } = welcome;
            if index as usize != logs.len() || index >= count || count as usize > LOGS_MAX {
                return Err(call.broken("its logs are not in order"));
            }
            if index > 0 && welcome.epoch != epoch {
                return Err(call.broken("its logs are of two epochs"));
            }
            if window as usize > MAX_WINDOW {
                return Err(call.broken("it gives a window larger than there can be"));
            }
            let verdicts = if config.gives_verdicts { files.pop() } else { None };
            let Ok([packets, control, page]) = <[OwnedFd; 3]>::try_from(files) else {
                return Err(call.broken("it does not pass as many descriptors as a log has"));
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
    /// One for each log. Each may go its own way: it keeps the seats taken as long as it lives.
    pub readers: Vec<Feed>,
    /// For each reader where its verdicts go; none unless they were asked for.
    pub verdicts: Vec<Arc<VerdictGiver>>,
    /// The connection.
    pub link: Arc<WriterLink>,
}

impl Attachment {
    /// Attaches to the logs published as `name`. What is read is copied and checked, unless
    /// [`AttachConfig::trust`] covers the publisher: then it is read in place.
    ///
    /// # Errors
    /// As for [`Offer::ask`]; [`ShareError::Attach`] where what it passes is no log.
    pub fn open(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let Offer { logs, link, is_in_place } = Offer::ask(name, config)?;
        let attach = |files| match is_in_place {
            // SAFETY: `Trust` covers the publisher. Either the caller has promised that it keeps to
            // the protocol. Or its process runs this program's file. Then its writer is the one
            // compiled into this process, and we assume no more of it than of a writer here. The
            // seat stays ours while the socket is open, and `tie_to` keeps that open as long as the
            // reader or a burst it holds lives.
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

    /// Attaches to the next publisher at the place of `link`'s publisher. What is attached already
    /// stays as it is, to be drained. `None` while there is no publisher, or still the same one: a
    /// publisher that has ended stays for a moment, and its report would name a reader that read
    /// nothing.
    ///
    /// # Errors
    /// As for [`open`](Self::open), except `Absent`.
    pub fn open_next(link: &WriterLink, config: &AttachConfig) -> Result<Option<Self>, ShareError> {
        // It has a slash, so it is looked for nowhere else.
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

//! Reading what another process publishes.
//!
//! ```text
//! while let Some(burst) = reader.next_burst() { ... }
//! is there more?  reader.is_finished()        the writer has ended the log: no
//!                 link.is_gone()              it was killed: once more next_burst, then no
//! then            Attachment::reopen(..)      the next writer, epoch + 1, when it is there
//! ```

use std::os::fd::OwnedFd;
use std::sync::Arc;

use burstline_log::{MAX_WINDOW, Policy, Reader, ReceivedFiles, Start};
use burstline_sys::users;

use crate::error::ShareError;
use crate::link::{Call, WriterLink};
use crate::message::{AttachRequest, Reply, Request, Welcome};
use crate::status::LOGS_MAX;

/// Whose logs may be read in place. A writer that breaks the rules could do to its readers what
/// a bad pointer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Trust {
    /// Those of our own user and of root, who could harm this process anyhow.
    #[default]
    Own,
    /// Anybody's whom the caller has reason to trust.
    Anyone,
}

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
    /// Whose logs may be read in place.
    pub trust: Trust,
    /// Says in the publisher's list of readers that this one copies and checks.
    pub is_untrusted: bool,
}

impl Default for AttachConfig {
    fn default() -> Self {
        let (policy, start, trust) = (Policy::Lossy, Start::Now, Trust::Own);
        Self { policy, window: 1, start, log: None, trust, is_untrusted: false }
    }
}

/// Seats at the logs of a name, not yet mapped.
#[derive(Debug)]
pub struct Offer {
    /// What each log's reader needs. The seats stay taken while `link`'s socket is open.
    pub logs: Vec<ReceivedFiles>,
    /// The connection.
    pub link: WriterLink,
}

impl Offer {
    /// Takes seats at the logs published as `name`, or, with a slash in it, at that path. Takes
    /// up to 10 s where the publisher does not answer.
    ///
    /// # Errors
    /// [`ShareError::Absent`] where there is no publisher; [`ShareError::NotAllowed`] or
    /// [`ShareError::Refused`] where it does not want us; the rest says what is broken.
    pub fn ask(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let call = Call::connect(name)?;
        call.send(&Request::Attach(AttachRequest {
            policy: config.policy,
            start: config.start,
            is_untrusted: config.is_untrusted,
            // More than a u32 is more than any publisher's most.
            window: u32::try_from(config.window).unwrap_or(u32::MAX),
            log: config.log,
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
            let Ok([packets, control, page]) = <[OwnedFd; 3]>::try_from(files) else {
                return Err(call.broken("it does not pass three descriptors for a log"));
            };
            epoch = welcome.epoch;
            let (seat, window, start) = (seat as usize, window as usize, config.start);
            logs.push(ReceivedFiles { packets, control, page, seat, window, start, part });
            if index + 1 == count {
                return Ok(Self { logs, link: call.hang_on(epoch) });
            }
        }
    }
}

/// Readers of a name's logs.
#[derive(Debug)]
pub struct Attachment {
    /// One for each log. Each may go its own way: it keeps the seats taken as long as it lives.
    pub readers: Vec<Reader>,
    /// The connection.
    pub link: Arc<WriterLink>,
}

impl Attachment {
    /// Attaches to the logs published as `name`.
    ///
    /// # Errors
    /// As for [`Offer::ask`]; [`ShareError::NotTrusted`] for a writer of another user;
    /// [`ShareError::Attach`] where what it passes is no log.
    pub fn open(name: &str, config: &AttachConfig) -> Result<Self, ShareError> {
        let Offer { logs, link } = Offer::ask(name, config)?;
        let (path, uid, pid) = (link.path(), link.uid(), link.pid());
        let ours = users::effective_user();
        if config.trust == Trust::Own && uid != ours && uid != 0 {
            return Err(ShareError::NotTrusted { path: path.to_owned(), uid, pid, ours });
        }
        let mut readers = Vec::with_capacity(logs.len());
        for files in logs {
            // SAFETY: by the check above the writer's process is root's or our own user's, which
            // could as well write into this process by ptrace(2), or the caller has vouched for
            // it. The seat stays ours while the socket is open, and `tie_to` keeps that open as
            // long as the reader or a burst it holds lives.
            let reader = unsafe { Reader::attach(files) };
            let reader =
                reader.map_err(|error| ShareError::Attach { path: path.to_owned(), error })?;
            reader.tie_to(link.socket());
            readers.push(reader);
        }
        Ok(Self { readers, link: Arc::new(link) })
    }

    /// Attaches to whoever publishes now where `link`'s publisher was. What is attached already
    /// stays as it is, to be drained.
    ///
    /// # Errors
    /// As for [`open`](Self::open): [`ShareError::Absent`] until the next publisher is there.
    pub fn reopen(link: &WriterLink, config: &AttachConfig) -> Result<Self, ShareError> {
        // It has a slash, so it is looked for nowhere else.
        Self::open(&link.path().to_string_lossy(), config)
    }
}

//! Sharing: logs published by name, for readers in other processes.
//!
//! ```text
//! publisher's process                          reader's process
//!   Writer ---> Log                              Attachment::open("tap")
//!                |                                    |
//!   Publisher: a thread, NAME, NAME.lock  <--Attach-- | socket
//!                |                        --Welcome-> | packets, control, a page: descriptors
//!                |                                    Reader: from here on only memory
//!                '--- end of the socket = the other one is gone ---'
//! ```
//!
//! A *name* is a socket in a directory (`places`); the kernel's permissions on it, and the
//! publisher's own look at who called (`access`), decide who may read. A name stands for one log
//! or several, one for each receive core; a reader gets a seat at each.
//!
//! Who owns what when:
//! - `NAME.lock`: whoever has locked it publishes NAME. The lock ends with its process, however
//!   that ends. The file stays: it holds the last publisher's *epoch*, and the next one counts on.
//!   A file without a number is a beginning: see `socket_file`.
//! - `NAME`: the lock's owner puts it there, over what a killed one left, and takes it away.
//! - a seat: the connection's. It is free when the socket has ended or its process has, whichever
//!   comes first; a reader therefore keeps its socket open for as long as it holds any burst.
//! - after the welcome nothing is said: the socket only tells that the other end still lives.
//!
//! A reader copies and checks what it reads, unless the publisher is one whose logs it reads in
//! place: see `trust`.
//!
//! Invariants:
//! - S1: nothing that a client sends, holds back or does makes the publisher wait, and none of it
//!   reaches the writer but through a reader's page, which is hostile input already.
//! - S2: everything received is of exactly the length of its kind, and checked, or refused.
//! - S3: after the publisher's end, however it came, nothing is left but `NAME.lock`, and after
//!   SIGKILL the socket file, which the next publisher replaces.
//! - S4: a seat is freed exactly once, and never while its reader can still read.

mod access;
mod attachment;
mod crowd;
mod error;
mod feed;
mod link;
mod message;
mod places;
mod publisher;
mod refusal;
mod roster;
mod server;
mod socket_file;
mod status;
mod trust;

pub use attachment::{AttachConfig, Attachment, Offer};
pub use error::ShareError;
pub use feed::{Feed, Held};
pub use link::WriterLink;
pub use message::{MESSAGE_BYTES_MAX, PROTOCOL_VERSION};
pub use places::{NAME_BYTES_MAX, published_sockets};
pub use publisher::{LosslessReaders, PublishConfig, Publisher};
pub use refusal::Refusal;
pub use status::{LogStatus, PublisherStatus, ReaderStatus, Visits, query};
pub use trust::Trust;

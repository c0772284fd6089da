//! Shares logs: publishes them by name, for readers in other processes.
//!
//! ```text
//! publisher's process                          reader's process
//!   Writer ---> Log                              Attachment::open("tap")
//!                |                                    |
//! Publisher: a thread, NAME, NAME.lock  <--Attach-- | socket
//!                |                        --Welcome-> | packets, control, a page: descriptors
//!                |                                    Reader: from here on only memory
//!                '--- end of the socket = the other one is gone ---'
//! ```
//!
//! A *name* is a socket in a directory (`places`). The kernel's permissions on it, and the
//! publisher's check of the caller (`access`), decide who may read. A name stands for one log or
//! several, one for each receive core; a reader gets a seat at each.
//!
//! Ownership:
//! - `NAME.lock`: the process that holds the lock publishes NAME. The lock ends with its process,
//!   however that ends. The file stays, because it holds the last publisher's *epoch*; the next
//!   publisher takes the next number. Without a number, counting restarts: see `socket_file`.
//! - `NAME`: the lock's owner creates it, replaces one left by a killed publisher, and removes it.
//! - a seat: belongs to the connection. It is free when the socket or its process ends, whichever
//!   comes first. So a reader keeps its socket open for as long as it holds any burst.
//! - the socket: nothing is sent after the welcome. It only shows that the other end still lives.
//!
//! A reader copies and checks packets, unless it trusts the publisher and reads in place: see
//! `trust`.
//!
//! Invariants:
//! - S1: nothing that a client sends, withholds or does makes the publisher wait. A client reaches
//!   the writer only through a reader's page, which is hostile input already.
//! - S2: every message has exactly the length of its kind and is checked; otherwise it is refused.
//! - S3: after the publisher's end only `NAME.lock` is left; after SIGKILL also the socket file,
//!   which the next publisher replaces.
//! - S4: a seat is freed exactly once, and never while its reader can still read.

mod client;
mod error;
mod message;
mod places;
mod publisher;
mod refusal;
mod serving;
mod socket_file;
mod status;

use client::{attachment, feed, follower, link, query, sums, trust};
use serving::{access, crowd, quotas, roster, server};

pub use attachment::{AttachConfig, Attachment, Offer};
pub use error::ShareError;
pub use feed::{Feed, Held};
pub use follower::{Follower, Next};
pub use link::WriterLink;
#[cfg(fuzzing)]
pub use message::read_and_say_again;
pub use message::{MESSAGE_BYTES_MAX, PROTOCOL_VERSION};
pub use places::{
    NAME_BYTES_MAX, files_of_name, folder_to_publish, folders_of_names, is_name, published_sockets,
    switch_socket, switch_sockets_to_look,
};
pub use publisher::{PublishConfig, Publisher, give_names_back, take_name};
pub use query::{Published, published, query};
pub use refusal::Refusal;
pub use roster::LosslessReaders;
pub use status::{LogStatus, PublisherStatus, ReaderStatus, Visits};
pub use sums::Sums;
pub use trust::Trust;

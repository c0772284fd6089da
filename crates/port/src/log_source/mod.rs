//! `log:` ports: packets that another process publishes. They are read in place if that process
//! runs this program or is vouched for, otherwise copied and checked (`burstline_share::Trust`).
//!
//! ```text
//! publisher: Writer -> log 0 ---\  read-only mapping   LogSource log:tap@0 --lend--> in place
//!            Writer -> log 1 ----> of both, a socket   LogSource log:tap@1 --receive--> a copy
//!                                  \
//!                                   Name: who is attached to which writer, and to the next one
//! ```
//!
//! A name stands for one log per receive core of the publisher, and so for one port each. All of
//! them are attached at the same moment. A log records how it ended. A log is *final* if its
//! sources had no more or a limit was reached; then the port ends, too. If the writer was stopped
//! or killed, the port reads the log to its end. Then it waits for the next writer of that name,
//! and continues with the oldest packets that this one still has. A note says how many are already
//! gone. Packets that passed between the two writers are unknown: the report counts such gaps as
//! `writer_down`, and does not guess packets.
//!
//! Invariants:
//! - L1: offered = published by the writer's count in control memory - where this reader started,
//!   over all writers. So packets that the delivering loop misses show up as a difference.
//! - L2: `lend` itself copies nothing. Packets that keep their port's number are lent with the
//!   writer's own worklist, others with a worklist of this process.
//! - L3: no interface is added to the job's table twice, however often the writer restarts.
//! - L4: a port that copies and checks trusts no count: a contradiction is reported as damage, with
//!   a note.

mod account;
mod interfaces;
mod judge;
mod name;
mod settings;
mod source;

use burstline_share::{ShareError, published_sockets};

use crate::near::distance;
use crate::{Address, OpenOptions, OpenedSources, PortError, Source};
use name::Name;
pub(crate) use settings::KEYS;
pub use settings::LogSettings;
use source::LogSource;

/// Opens a port for each log of the name.
pub(crate) fn open_sources(address: &Address, options: &OpenOptions) -> OpenedSources {
    let settings = LogSettings::parse(address)?;
    let fail = |error| PortError::Log { near: near(&settings.name, &error), error };
    let (name, taken) = Name::open(&settings, options.stop.as_deref()).map_err(fail)?;
    let is_alone = taken.len() == 1 && settings.log.is_none();
    let first = settings.log.unwrap_or(0) as usize;
    let mut ports: Vec<Box<dyn Source>> = Vec::new();
    for (index, taken) in taken.into_iter().enumerate() {
        let shown = match is_alone {
            true => format!("log:{}", settings.name),
            false => format!("log:{}@{}", settings.name, first + index),
        };
        let source = LogSource::new(shown, index, &name, taken, &settings, options)?;
        ports.push(Box::new(source));
    }
    Ok(ports)
}

/// Suggests published names similar to a missing one, for the end of an error.
fn near(name: &str, error: &ShareError) -> String {
    if !matches!(error, ShareError::Absent { .. }) {
        return String::new();
    }
    let sockets = published_sockets();
    let names = sockets.iter().filter_map(|path| path.file_name()?.to_str());
    let mut names: Vec<&str> = names.filter(|other| *other != name).collect();
    names.sort_by_key(|other| distance(name, other));
    names.truncate(NEAR_MOST);
    match names.is_empty() {
        true => String::new(),
        false => format!("; there is {}", names.join(", ")),
    }
}

/// The maximum number of names in an error.
const NEAR_MOST: usize = 5;

/// Parses an address, for the test of tables.
#[cfg(test)]
pub(crate) fn read(address: &Address) {
    let _ = LogSettings::parse(address);
}

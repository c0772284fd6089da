//! The packet source of a reader: a published name, or sources polled in turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use burstline_port::{Address, OpenOptions, open_sources};

use crate::address::{LOG, resolve};
use crate::fault::Fault;
use crate::lane::Lane;
use crate::lent::Lent;
use crate::named::Named;
use crate::report::Row;

/// The result of a poll.
pub(crate) enum Found {
    /// Packets.
    Burst(Arc<Lent>),
    /// No packets now.
    Nothing,
    /// Packets, but the filter rejected all of them.
    Again,
    /// The source has ended.
    End,
    /// No packets until some are released.
    WindowFull {
        /// Maximum number of segments held.
        window: usize,
    },
}

/// The packet source of a reader.
pub(crate) enum Inlet {
    /// Published logs.
    Named(Box<Named>),
    /// Sources, and the next one to poll.
    Lanes {
        /// One lane per port.
        lanes: Vec<Lane>,
        /// Index of the next lane to poll.
        turn: usize,
    },
}

impl Inlet {
    /// Opens `source`. `check`: whether to stop waiting for a publisher.
    pub(crate) fn open(
        source: &str,
        window: usize,
        gives_verdicts: bool,
        options: &OpenOptions,
        check: impl Fn() -> bool,
    ) -> Result<Self, Fault> {
        let address: Address = resolve(source)?;
        if address.scheme() == LOG {
            let named = Named::open(&address, window, gives_verdicts, options, check)?;
            return Ok(Self::Named(Box::new(named)));
        }
        if gives_verdicts {
            return Err(Fault::NoVerdicts { source_name: address.to_string() });
        }
        let sources = open_sources(&address, options)?;
        let lanes = (0..).zip(sources).map(|(n, source)| Lane::new(source, n, window, options));
        Ok(Self::Lanes { lanes: lanes.collect::<Result<_, _>>()?, turn: 0 })
    }

    /// Returns the next packets, waiting at most `timeout_ns`.
    pub(crate) fn next(&mut self, timeout_ns: u64) -> Result<Found, Fault> {
        let until = Instant::now() + Duration::from_nanos(timeout_ns);
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let left_ns = left.as_nanos() as u64;
            let found = match self {
                Self::Named(named) => named.look(left_ns)?,
                Self::Lanes { lanes, turn } => look(lanes, turn)?,
            };
            match found {
                Found::Nothing | Found::Again if left_ns == 0 => return Ok(Found::Nothing),
                Found::Again => {}
                Found::Nothing => {
                    if let Self::Lanes { lanes, turn } = self {
                        lanes[*turn].wait(left_ns, lanes.len() == 1);
                    }
                }
                found => return Ok(found),
            }
        }
    }

    /// Ends the sources' work. A publisher notices the end of the connection.
    pub(crate) fn close(&mut self) -> Result<(), Fault> {
        match self {
            Self::Named(_) => Ok(()),
            Self::Lanes { lanes, .. } => lanes.iter_mut().try_for_each(Lane::close),
        }
    }

    pub(crate) fn rows(&self) -> Vec<Row> {
        match self {
            Self::Named(named) => vec![named.row()],
            Self::Lanes { lanes, .. } => lanes.iter().map(Lane::row).collect(),
        }
    }
}

/// Polls each source once, starting at `turn`.
fn look(lanes: &mut [Lane], turn: &mut usize) -> Result<Found, Fault> {
    let (mut ended, mut is_full, mut is_busy) = (0, None, false);
    for step in 0..lanes.len() {
        let index = (*turn + step) % lanes.len();
        match lanes[index].look()? {
            Found::End => ended += 1,
            Found::WindowFull { window } => is_full = Some(window),
            Found::Nothing => {}
            Found::Again => is_busy = true,
            found @ Found::Burst(_) => {
                *turn = (index + 1) % lanes.len();
                return Ok(found);
            }
        }
    }
    Ok(match is_full {
        Some(window) => Found::WindowFull { window },
        None if ended == lanes.len() => Found::End,
        None if is_busy => Found::Again,
        None => Found::Nothing,
    })
}

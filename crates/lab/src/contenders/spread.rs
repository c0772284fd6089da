//! Packets over workers by flow, in memory: the bench's table, three sides of it at once.

use super::merge::{Side, context, sample};
use super::{Job, Sample};
use crate::compared::{self, Compared};
use crate::figures::balance;
use crate::scenario::Work;

/// Each packet is copied into its worker's log.
pub(super) const COPY: Side =
    Side("burstline-spread-copy", "each packet into the log of its worker", &[Work::Spread]);
/// All packets lie in one log, of which each worker reads its part.
pub(super) const SHARE: Side =
    Side("burstline-spread-share", "one log that all workers read", &[Work::Spread]);
/// The scattered design, as well as we can write it.
pub(super) const SCATTERED: Side = Side(
    "scattered-spread",
    "objects of a pool, pointers in a ring for each worker",
    &[Work::Spread],
);

/// The longest frame, FCS included.
const LONGEST: u32 = 1518;

/// The three sides in turns; the case is how many workers there are.
///
/// # Errors
/// The figure's.
pub(super) fn compare(job: &Job<'_>, case: &str, repeats: usize) -> Result<Compared, String> {
    let workers: usize = case.parse().map_err(|_| format!("{case:?} is no number of workers"))?;
    if job.size_bytes > LONGEST {
        return Err(format!("frames have at most {LONGEST} bytes"));
    }
    let line = balance::copy_and_share(&context(job, repeats)?, job.frame_bytes(), workers)?;
    let samples = |values: &[f64]| -> Vec<Sample> {
        values.iter().map(|&mpps| sample(mpps, job.size_bytes)).collect()
    };
    let peer = [line.copy.peer, line.share.peer].concat();
    let sides = [(COPY.0, line.copy.ours), (SHARE.0, line.share.ours), (SCATTERED.0, peer)];
    let side = |(contender, values): (_, Vec<f64>)| compared::Side {
        contender,
        samples: samples(&values),
        pages: None,
    };
    let sides = sides.into_iter().map(side).collect();
    Ok(Compared { sides, metric: "mpps", ..Compared::default() })
}

//! Checks, describes, recovers and extracts from whole files. No live sources.
//!
//! ```text
//!  scan      one pass over one file: every packet, every fault, all counts
//!  check     a scan alone                                      is the file as it was written?
//!  survey    a scan that counts sizes, flows, gaps and rates   what is in the file?
//!  recover   a scan that writes the sound packets              which packets can be saved?
//!  extract   a selection of files, as one source in order of time, into a sink
//! ```
//!
//! Invariants:
//! - A1: a packet of a segment with a bad checksum is never counted as sound and never written.
//! - A2: offered = written + named losses, as in every job; losses to damage are `corrupt` or
//!   `missing_segments`.
//! - A3: input files are never written.

mod extract;
mod recover;
mod scan;
mod survey;

pub use extract::{Attempt, Extracted, extract, first_time_ns, try_extract};
pub use recover::{Recovered, recover};
pub use scan::{Fault, Scanned, Watch, check};
pub use survey::{Disorder, Rate, Survey, survey};

//! The engine: safe loops over bursts, and the ledger that these loops fill.
//!
//! # Start here
//!
//! A user of the library needs three crates: this one for whole jobs, `burstline_port` for sources
//! and sinks, `burstline_share` to read and publish logs. Each example runs as it is.
//!
//! | to | example |
//! |---|---|
//! | read a published log | `crates/share/examples/read_log.rs` |
//! | publish one | `crates/share/examples/publish_log.rs` |
//! | write a source | `crates/engine/examples/own_source.rs` |
//! | forward with a rule | `crates/engine/examples/forward_udp.rs` |
//! | build stages on several cores | `crates/engine/examples/three_stages.rs` |
//!
//! `cargo run -p burstline-engine --example forward_udp` runs one of them.
//! `docs/rust-interface.md` has shorter ones, which are compiled and run with the tests.
//!
//! # Jobs
//!
//! ```text
//! count      source --lend--> burst -> tally                     one worker a source, no copy
//!
//! flows      source --lend--> burst -> table --records--> sinks   one worker a source, one writer
//!
//! capture    sources --receive--> log --burst--> sink            one receive thread, one recorder
//!            sources --receive--> log -/                         or several, with a log each
//!
//! merge      sources --lend--> order --copy--> log --burst--> sink   one thread, in order of time
//!
//! generate   gen: --lend--> burst -> sink                        one thread, made and sent in turn
//! replay     files --lend--> burst -> sink, sink
//!
//! bounce     port --pass--> port                                 a worker a direction, frames stay
//! switch     ports --lend--> plan -> ports, mirrors              one thread, takes live orders
//! ```
//!
//! A job consists of a list of [`Inlet`]s, the placement of its threads ([`Threads`]), and a
//! [`Run`]. A run has a stop flag, its [`Limits`], and its [`Progress`], which any thread may read
//! during the job. [`count()`] and [`capture()`] block until the job ends and return a [`Report`].
//!
//! The `runtime` module does the work that all threads share: the loop around a stage's step, and
//! the stages that fill and read logs. A verb composes such stages and logs, and builds a report
//! from their outcomes.
//!
//! Sources of the counts: `offered` and losses come from the ports' own accounts. `delivered` is
//! counted here, from the worklists that arrived. Packets missed by a lossy reader come from packet
//! numbers in the log. The remainder of these three, `unaccounted`, is 0 unless something is wrong.
//!
//! Invariants:
//! - I1: every port's row closes: offered = delivered + lost + in flight + unaccounted, with signed
//!   `unaccounted`. The total row is the sum of the rows, except that the recorder's misses are the
//!   log's exact count.
//! - I2: a limit on packets is exact for any number of sources and threads.
//! - I3: when a job ends, its threads are joined, the sink is finished and the ledger is complete.
//!   A job ends by the end of its sources, a limit, the flag or an error.
//! - I4: this crate prints nothing, and no thread outlives its job.
#![forbid(unsafe_code)]

mod accounts;
mod archive;
mod balance;
mod bounce;
mod capture;
mod count;
mod error;
mod flows;
mod generate;
mod inline;
mod merge;
mod pipeline;
mod planning;
mod published;
mod runtime;
mod switch;
mod work;

use accounts::{ledger, report, verify};
use planning::{log_request, placement, rehearsal};

pub use archive::{
    Attempt, Disorder, Extracted, Fault, Rate, Recovered, Scanned, Survey, Watch, check, extract,
    first_time_ns, recover, survey, try_extract,
};
pub use balance::{
    BalanceOptions, BalanceReport, Distribution, Elephant, GroupReport, LogHome, Mode, WORKERS_MAX,
    WorkerReport, balance, worker_of,
};
pub use bounce::{Bounced, Counted, bounce, open_bounce, open_inline};
pub use burstline_log::Policy;
pub use capture::{FlightOptions, capture, capture_flight, merge, merge_shared};
pub use count::{count, count_verified, run_to_completion};
pub use error::EngineError;
pub use flows::{FlowsOptions, FlowsReport, flows};
pub use generate::{Generated, Limit, generate, replay};
pub use inline::{INLINE_WORKERS_MAX, Inline, InlineOptions, InlineReport, InlineWorker};
pub use ledger::{PortReport, Total};
pub use log_request::LogRequest;
pub use merge::{MergeOptions, MergeReport, MergedPort};
pub use pipeline::{Lane, Pipeline};
pub use placement::{PlaceError, Placed, PlacementRequest, Workers, source_requests};
pub use published::PublishedReport;
pub use rehearsal::{Rehearsal, rehearse};
pub use report::{
    CpuReport, FlightFile, FlightReport, HandoffReport, MemoryReport, PlacementReport, Report,
    StageReport, ThreadPlace, TimestampReport,
};
pub use runtime::logs::CaptureOptions;
pub use runtime::{
    AGE_BOUNDS, AgesNow, Counts, Inlet, Limits, LogNow, Place, PollMode, Progress, Run, Snapshot,
    StageNow, Standing, Threads,
};
pub use switch::{
    Fabric, InlinePorts, KnownAddress, MeterStatus, OpenedPort, OpenedTarget, PortStatus,
    SWITCH_KEYS, SwitchHandle, SwitchOrders, SwitchPort, SwitchStatus, Switched, switch,
};
pub use verify::{FLOWS_MAX, FlowVerdict, Integrity, Latency, Verdict, Verifier, WINDOW};

// Compiles and runs the code of the page: cargo test --doc.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust-interface.md")]
struct RustInterface;

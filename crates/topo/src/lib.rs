//! Placement: what the machine has, where a job's threads and memory go on it, and why.
//!
//! ```text
//!   /sys, /proc ──► Inventory ──► plan(request) ──► Plan: queue -> thread -> core, log -> node
//!   (or a folder               │                          each with its reasons
//!   in their place)            └► findings() ─────► Finding: what, what it costs, what mends it
//! ```
//!
//! All of it is plain data, made once and never refreshed. Nothing is set here and no thread is
//! started: who carries a plan out also checks, with the kernel's word, that it came out so.
//!
//! A placement is written as in "Comparison of High-Performance Packet Processing Frameworks on
//! NUMA" (Wang, He, Wang): `A_AB` is a receive thread on node A, a worker there and one on another
//! node, B. See [`Placement`].
//!
//! # Invariants
//! - I1. A plan never puts two threads on one physical core, unless it was asked to.
//! - I2. A plan names only cores that this process can be pinned to, and only nodes with memory
//!   for logs and stacks.
//! - I3. Where a wish cannot be met there is an error with the numbers; where the machine does not
//!   tell what is needed, a note says what was assumed.
//! - I4. Whatever is read is read below one root folder, so that a machine can be a text file
//!   ([`Snapshot`]).
#![forbid(unsafe_code)]

mod error;
mod files;
mod findings;
mod inventory;
mod notation;
mod plan;
mod snapshot;

pub use error::PlanError;
pub use findings::{Dpdk, DpdkDriver, FAR_SOURCE, Finding, KERNEL_NEEDS, dpdk_findings, findings};
pub use inventory::{
    Attached, Cache, Card, Core, Group, Interface, Interrupt, Inventory, Lenders, Node, Presence,
    ReceiveQueue, Settings, TransmitQueue,
};
pub use notation::{Placement, PlacementError};
pub use plan::{
    Feed, LogSharing, Plan, PlanRequest, PlannedLog, PlannedThread, Role, SourceRequest, plan,
};
pub use snapshot::{Snapshot, SnapshotError, take_snapshot};

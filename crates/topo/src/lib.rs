//! Placement: reads the machine, places a job's threads and memory on it, and gives the reasons.
//!
//! ```text
//!   /sys, /proc ──► Inventory ──► plan(request) ──► Plan: queue -> thread -> core, log -> node
//!   (or a folder               │                          each with its reasons
//!   in their place)            └► findings() ─────► Finding: defect, its cost, its fix
//! ```
//!
//! Most jobs need no plan: they read an [`Outline`], and look no further.
//!
//! All of it is plain data, read once and never refreshed. This crate changes no setting and starts
//! no thread. The code that carries out a plan also asks the kernel whether the result matches it.
//!
//! A placement is written as in "Comparison of High-Performance Packet Processing Frameworks on
//! NUMA" (Wang, He, Wang). `A_AB` is a receive thread on node A, a worker there and one on another
//! node, B. See [`Placement`].
//!
//! # Invariants
//! - I1. A plan never puts two threads on one physical core, unless the request allows it.
//! - I2. A plan names only cores that this process can be pinned to, and only nodes with memory
//!   for logs and stacks.
//! - I3. A request that cannot be met is an error with the numbers. If the machine does not show
//!   something that a plan needs, a note names the assumption.
//! - I4. Everything is read below one root folder, so a machine can be a text file
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
pub use findings::{
    Dpdk, DpdkDriver, FAR_SOURCE, Finding, KERNEL_NEEDS, KernelNeed, dpdk_findings, findings,
};
pub use inventory::{
    Attached, Cache, Card, Core, Group, Interface, Interrupt, Inventory, Lenders, Node, Outline,
    OutlineCore, PciId, Presence, ReceiveQueue, Settings, TransmitQueue,
};
pub use notation::{Placement, PlacementError};
pub use plan::{
    Feed, LogSharing, Plan, PlanRequest, PlannedLog, PlannedThread, Role, SourceRequest, plan,
};
pub use snapshot::{Snapshot, SnapshotError, take_snapshot};

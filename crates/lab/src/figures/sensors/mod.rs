//! Programs that read a published log by our libpcap, against the same programs on a packet socket.
//!
//! ```text
//!   ours:   injector --> v1: burstline count --publish tap --> log --> tcpdump, by our libpcap
//!   peer:   injector --> v1: kernel's copy for each socket --> ring --> tcpdump, by the real one
//! ```
//!
//! Publisher and programs are removed with their road. Programs are measured from when they are
//! ready until they have had time for the last frame, so start and end do not count.
//!
//! Invariants:
//! - F1: the figures compare the CPU time of the programs' own threads, by the scheduler's
//!   accounting. The publisher's cost is shown beside it. The kernel delivers a socket's packets on
//!   the core of the interface's softirq, and no program's accounting includes that.
//! - F2: a program's packet losses are shown in the details.

mod captures;
mod inline;
mod matcher;
mod suricata;
mod turns;

pub(super) use captures::{four_readers, one_tcpdump};
pub(super) use inline::measure as suricata_inline;
pub(super) use matcher::measure as match_contents;
pub(super) use suricata::measure as suricata;

//! Programs that read a published log by our libpcap, against the same programs on a packet socket.
//!
//! ```text
//!   ours:   injector --> v1: burstline count --publish tap --> log --> tcpdump, by our libpcap
//!   peer:   injector --> v1: kernel's copy for each socket --> ring --> tcpdump, by the real one
//! ```
//!
//! Who owns what when: publisher and programs go with their road. Programs are measured from when
//! they are ready until they have had time for the last frame, so that no start and no end counts.
//!
//! Invariants:
//! - F1: what is compared is time of the programs' own threads, by the scheduler's account. The
//!   publisher's cost stands beside it. The kernel brings a socket's packets, on the core where the
//!   interface's softirq runs, and no program's account has that.
//! - F2: a program that lost packets has its loss among the details.

mod captures;
mod inline;
mod matcher;
mod suricata;
mod turns;

pub(super) use captures::{four_readers, one_tcpdump};
pub(super) use inline::measure as suricata_inline;
pub(super) use matcher::measure as match_contents;
pub(super) use suricata::measure as suricata;

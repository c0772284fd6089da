//! The forwarding logic of a switch, without I/O: decides where each packet of a burst goes.
//!
//! ```text
//!  burst received on an end
//!    │ frame    VLAN, addresses: is it admitted?            ── no ──► a named cause
//!    │ rules    exact-match cache, then tuple spaces        ── drop, meter ──► a named cause
//!    │ macs     learn the source, look the destination up
//!    ▼
//!  Plan: for each end the copies it gets, in order          [2,5,6]  [0]  [1,3,4,7]
//!    │ Outgoing: a burst of only these packets                 │      │       │
//!    ▼ one copy, by the sink, into its ring                    ▼      ▼       ▼
//!  sinks                                                     tap:a  xdp:b  log:sensor
//! ```
//!
//! An *end* is a port, or a mirror target that is not a port. Switching copies no packet. A plan
//! refers to packets by number, and the sink of each end copies them into its own ring. A packet is
//! copied once more, into [`Outgoing`], only if a tag is added or removed or a rule sets a field.
//!
//! This crate does no I/O and reads no clock: the caller passes the time. So `tests/model.rs` tests
//! the whole switch against a model.
//!
//! Invariants:
//! - W1: each received frame is counted once: as forwarded (to one end), as flooded, or by the
//!   [`Cause`] of its drop. `Counters::closes` checks this.
//! - W2: each end counts the copies that plans gave it, and mirror copies separately.
//! - W3: packets of a burst reach each end in the order in which they arrived.
//! - W4: a frame leaves through an end only in a VLAN that the end carries, and never through the
//!   end it came from. Ends of an isolation group do not reach each other.
//! - W5: the MAC table never exceeds its configured size. A full table learns nothing until entries
//!   age out. So a flood of addresses evicts no address, and static entries stay.
//! - W6: rules are replaced as a whole, after all of them were parsed.
#![forbid(unsafe_code)]

mod config;
mod counters;
mod edit;
mod frame;
mod hash;
mod mac;
mod matching;
mod meter;
mod mirror;
mod outgoing;
mod plan;
mod port;
mod switch;

use matching::{key, rules, table, text};

pub use config::{ADDRESSES_MOST, Config, ConfigError, Static, parse_quota};
pub use counters::{Cause, Counters};
pub use edit::{SetFields, TagChange};
pub use key::{Key, Match};
pub use mac::{MacEntry, MacTotals};
pub use meter::{Meter, Quota};
pub use mirror::{Mirror, Selection};
pub use outgoing::Outgoing;
pub use plan::{Copied, Plan};
pub use port::{EndId, PortConfig, VlanMode, VlanSet};
pub use rules::{Action, Rule, RuleCounts, RuleSet, UnknownName};
pub use switch::{Switch, SwitchConfig, SwitchError};
pub use table::{LookUps, RuleTable};

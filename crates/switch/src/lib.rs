//! A switch without its ports: what becomes of each packet of a burst.
//!
//! ```text
//!  burst that came in by an end
//!    │ frame    VLAN, addresses: may it come in?            ── no ──► a named cause
//!    │ rules    exact-match cache, then tuple spaces        ── drop, meter ──► a named cause
//!    │ macs     learn the source, look the destination up
//!    ▼
//!  Plan: for each end the copies it gets, in order          [2,5,6]  [0]  [1,3,4,7]
//!    │ Outgoing: a burst of just these packets                 │      │       │
//!    ▼ one copy, by the sink, into its ring                    ▼      ▼       ▼
//!  sinks                                                     tap:a  xdp:b  log:sensor
//! ```
//!
//! An *end* is a port, or a target of mirrors that is not a port. Switching copies no packet. A
//! plan names it by its number, and the sink of each end copies it into its own ring. Only a packet
//! that changes is copied once more, into [`Outgoing`]: because a tag is added or removed, or a
//! rule sets a field.
//!
//! Nothing here opens, reads or writes anything, and no time is read: the caller says what time it
//! is. So the whole switch is tested against a model of it (`tests/model.rs`).
//!
//! Invariants:
//! - W1: each frame that came in is counted once: as forwarded (to one end), as flooded, or by the
//!   [`Cause`] why it went nowhere. `Counters::closes` says so.
//! - W2: copies that plans gave to an end are counted there, those of mirrors apart.
//! - W3: packets of a burst reach each end in the order in which they came.
//! - W4: a frame leaves by an end only with a VLAN that the end carries, and never by the end it
//!   came from. Ends of an isolation group do not reach each other.
//! - W5: the MAC table never has more entries than it was made for. A full table learns nothing
//!   more until entries age. So a flood of addresses evicts no address, and static entries stay.
//! - W6: rules are replaced as a whole, after all of them were understood.
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

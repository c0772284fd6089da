//! Functions beyond one machine. Packets stay on the sensor that recorded them until requested.
//!
//! ```text
//! sensors   a file that names sensors: hosts, folders of recordings
//! ask       queries one sensor: ssh runs `burstline extract` there, the output is spooled here
//! ssh       connections to machines, for `ask` and the lab
//! survey    queries all sensors, some at a time
//! ipfix     flow records to a collector
//! bus       flow records to Kafka or NATS, with a spool on disk
//! query     SQL queries on flow records, run by DuckDB
//! ```
//!
//! There is no cluster service of our own: ssh connects and authenticates, and the sensor's own
//! `extract` finds the packets.
#![forbid(unsafe_code)]

mod ask;
mod bus;
mod ipfix;
mod query;
mod sensors;
mod ssh;
mod survey;

pub use ask::{Answer, Outcome, Patience, Question, ask, command};
pub use bus::{BusAddress, BusError, BusSink, SpoolPlace};
pub use ipfix::{Collector, CollectorError, IpfixSink};
pub use query::{
    Answered, Engine, EngineOptions, NoEngine, Query, QueryError, READY, Ready, Span, Values,
    no_engine, pythons, tree_text,
};
pub use sensors::{HOST_RULE, Sensor, Sensors, SensorsError, is_host};
pub use ssh::{NOT_FOUND, SSH_FAILED, Way, last_line};
pub use survey::survey;

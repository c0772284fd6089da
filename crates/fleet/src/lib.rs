//! Beyond one machine. Packets stay on the sensor that recorded them; who needs some fetches them.
//!
//! ```text
//! sensors   a file that names sensors: hosts, folders of recordings
//! ask       one sensor: ssh runs `burstline extract` there, its output is spooled here
//! ssh       how a machine is reached, by those and by the lab
//! survey    all sensors, some at a time
//! ipfix     flow records to a collector
//! bus       flow records to Kafka or NATS, with a spool on disk
//! query     questions about flow records, which DuckDB answers
//! ```
//!
//! Nothing of a cluster is ours: ssh finds the way and proves who is who, the sensor's own
//! `extract` finds the packets.
#![forbid(unsafe_code)]

mod ask;
mod bus;
mod ipfix;
mod query;
mod sensors;
mod ssh;
mod survey;

pub use ask::{Answer, Outcome, Patience, Question, ask};
pub use bus::{BusAddress, BusError, BusSink, SpoolPlace};
pub use ipfix::{Collector, CollectorError, IpfixSink};
pub use query::{Answered, Query, QueryError, READY, Ready, Span, Values};
pub use sensors::{HOST_RULE, Sensor, Sensors, SensorsError, is_host};
pub use ssh::{NOT_FOUND, SSH_FAILED, Way, last_line};
pub use survey::survey;

//! Beyond one machine. Packets stay on the sensor that recorded them; who needs some fetches them.
//!
//! ```text
//! sensors   a file that names sensors: hosts, folders of recordings
//! ask       one sensor: ssh runs `burstline extract` there, its output is spooled here
//! survey    all sensors, some at a time
//! ```
//!
//! Nothing of a cluster is ours: ssh finds the way and proves who is who, the sensor's own
//! `extract` finds the packets.
#![forbid(unsafe_code)]

mod ask;
mod sensors;
mod survey;

pub use ask::{Answer, Outcome, Patience, Question, ask};
pub use sensors::{Sensor, Sensors, SensorsError};
pub use survey::survey;

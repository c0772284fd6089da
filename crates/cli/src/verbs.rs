//! The verbs of the program: one file for each verb that takes more than a few lines.

mod ahead;
mod balance;
mod bounce;
mod capture;
mod count;
mod flight;
mod flows;
mod generate;
mod lab;
mod merge;
mod output;
mod questions;
mod replay;
mod resume;
mod run;
mod switch;

use questions::{archive, demo, doctor, explain, extcap, fetch, ports, query, shell, top, version};

pub(crate) use ahead::check_ahead;
pub(crate) use archive::{check, extract, index, info, recover};
pub(crate) use balance::{balance, sink_addresses as balance_sinks};
pub(crate) use bounce::bounce;
pub(crate) use capture::capture;
pub(crate) use count::count;
pub(crate) use demo::demo;
pub(crate) use doctor::doctor;
pub(crate) use explain::explain;
pub(crate) use extcap::extcap;
pub(crate) use fetch::fetch;
pub(crate) use flows::flows;
pub(crate) use generate::generate;
pub(crate) use lab::{lab, record_at};
pub(crate) use merge::merge;
pub(crate) use ports::ports;
pub(crate) use query::query;
pub(crate) use replay::replay;
#[cfg(test)]
pub(crate) use run::KEYS_OF_JOBS;
pub(crate) use run::run;
pub(crate) use shell::{completions, interfaces, man};
pub(crate) use switch::{Opens, opens as switch_opens, serve_door, switch};
pub(crate) use top::{top, top_port};
pub(crate) use version::version;

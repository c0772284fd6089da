//! The program's texts: help, errors, JSON, notes, units.

#[path = "../support/mod.rs"]
mod support;

mod catalogue;
mod doctor;
mod explain;
mod json;
mod json_schema;
mod schema;
mod terminal;
mod units;
mod usage;
mod warnings;
mod words;

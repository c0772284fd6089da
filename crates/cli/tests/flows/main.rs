//! `burstline flows` and the consumers of its records: the tree, queries, buses, collectors.

#[path = "../support/mod.rs"]
mod support;

mod buses;
mod collectors;
mod fetch;
mod flows;
mod flows_compared;
mod flows_faults;
mod flows_places;
mod ipfix;
mod query;
mod rights;

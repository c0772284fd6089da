//! `burstline lab` and `burstline doctor plan`.

#[path = "../support/mod.rs"]
mod support;

mod lab;
mod lab_remote;
mod lab_report;
mod lab_rights;
mod lab_scenarios;
mod plan;

//! `burstline run`, and watching jobs: metrics, the page, top.

#[path = "../support/mod.rs"]
mod support;

mod browser;
mod demo;
mod emulator;
mod metrics;
mod rights;
mod run;
mod run_journal;
mod run_metrics;
mod run_recorders;
mod run_reloads;
mod run_short;
mod top;
mod watched;
mod web;
mod web_page;

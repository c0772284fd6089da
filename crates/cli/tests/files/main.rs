//! Files and streams in and out: what is read, filtered, merged, made and written.

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod compressed;
mod files;
mod filters;
mod generate;
mod generate_faults;
mod merge;
mod outputs;
mod replay;
mod traffic;

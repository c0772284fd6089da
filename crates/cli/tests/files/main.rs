//! Files and streams as input and output: reading, filtering, merging, generating and writing.

#[path = "../support/mod.rs"]
mod support;

mod archive;
mod compressed;
mod extracted;
mod files;
mod filters;
mod generate;
mod generate_faults;
mod merge;
mod opens;
mod outputs;
mod replay;
mod traffic;

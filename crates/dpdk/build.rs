//! Compiles the shim if the feature `libdpdk` is on.

#![forbid(unsafe_code)]

mod compile;

use std::process::ExitCode;

fn main() -> ExitCode {
    let others = ["build.rs", "compile.rs", "shim.h"];
    let sources = ["shim.c", "offloads.c", "untaken.c"];
    compile::run("CARGO_FEATURE_LIBDPDK", "burstline_dpdk_shim", &sources, &others)
}

//! With the feature `dpdk`: compiles the rivals on DPDK's own API. Without: nothing.

#![forbid(unsafe_code)]

#[path = "../dpdk/compile.rs"]
mod compile;

use std::process::ExitCode;

fn main() -> ExitCode {
    let sources = ["common.c", "pipeline.c", "merge.c"].map(|name| format!("rivals-dpdk/{name}"));
    let sources = sources.each_ref().map(String::as_str);
    let others = ["build.rs", "../dpdk/compile.rs", "rivals-dpdk/rivals.h"];
    compile::run("CARGO_FEATURE_DPDK", "burstline_dpdk_rivals", &sources, &others)
}

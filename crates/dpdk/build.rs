//! With the feature `libdpdk`: compiles the shim over DPDK's inline functions, and links with it
//! and with libdpdk. Without: nothing.
//!
//! The compiler and its flags are what pkg-config says of libdpdk; no crate is needed for one
//! file of C.

#![forbid(unsafe_code)]

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// What the shim calls; the drivers are loaded by EAL.
const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

fn main() -> ExitCode {
    for file in ["build.rs", "shim.c", "shim.h"] {
        println!("cargo::rerun-if-changed={file}");
    }
    if env::var_os("CARGO_FEATURE_LIBDPDK").is_none() {
        return ExitCode::SUCCESS;
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("burstline-dpdk: {what}");
            ExitCode::FAILURE
        }
    }
}

fn build() -> Result<(), String> {
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let object = folder.join("shim.o");
    let archive = folder.join("libburstline_dpdk_shim.a");
    let mut compile = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    compile.args(pkg_config("--cflags")?);
    compile.args(["-std=gnu11", "-O3", "-fPIC", "-Wall", "-Wextra", "-Werror=implicit", "-c"]);
    run(compile.args(["shim.c", "-o"]).arg(&object))?;
    // What an earlier build has put there is replaced.
    run(Command::new("ar").arg("crs").arg(&archive).arg(&object))?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static=burstline_dpdk_shim");
    for flag in pkg_config("--libs-only-L")? {
        let path = flag.strip_prefix("-L").unwrap_or(&flag);
        println!("cargo::rustc-link-search=native={path}");
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    Ok(())
}

fn pkg_config(what: &str) -> Result<Vec<String>, String> {
    let output = Command::new("pkg-config").args([what, "libdpdk"]).output();
    let output = output.ok().filter(|output| output.status.success());
    let output = output.ok_or("pkg-config does not know libdpdk: scripts/setup dpdk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}

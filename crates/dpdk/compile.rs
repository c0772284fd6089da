//! Compiles C over DPDK's inline functions and links with it and with libdpdk, for build scripts.
//!
//! pkg-config provides the flags for libdpdk; a few C files need no build crate.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::{env, fs, io};

/// Flags for the C files, in addition to those of pkg-config.
const FLAGS: [&str; 7] =
    ["-std=gnu11", "-O3", "-fPIC", "-Wall", "-Wextra", "-Werror=implicit", "-c"];

/// Libraries that the C files call; EAL loads the drivers.
const LIBRARIES: [&str; 5] = ["rte_ethdev", "rte_mbuf", "rte_mempool", "rte_ring", "rte_eal"];

/// Builds the static library `library` from `sources` in the crate's folder, if the crate has the
/// feature whose variable is `feature`.
pub(crate) fn run(feature: &str, library: &str, sources: &[&str], others: &[&str]) -> ExitCode {
    for file in sources.iter().chain(others) {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-env-changed=CC");
    if env::var_os(feature).is_none() {
        return ExitCode::SUCCESS;
    }
    match build(library, sources) {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("{library}: {what}");
            ExitCode::FAILURE
        }
    }
}

fn build(library: &str, sources: &[&str]) -> Result<(), String> {
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets no OUT_DIR")?);
    let archive = folder.join(format!("lib{library}.a"));
    // Remove objects that an earlier build added and this one does not.
    match fs::remove_file(&archive) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(format!("{}: {error}", archive.display()));
        }
        _ => {}
    }
    let flags = pkg_config("--cflags")?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut archiver = Command::new("ar");
    archiver.arg("crs").arg(&archive);
    for source in sources {
        let object = folder.join(source.replace(['/', '.'], "-")).with_extension("o");
        let mut compile = Command::new(&compiler);
        compile.args(&flags).args(FLAGS);
        check(compile.arg(source).arg("-o").arg(&object))?;
        archiver.arg(&object);
    }
    check(&mut archiver)?;
    tell(&compiler, &flags);
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static={library}");
    for flag in pkg_config("--libs-only-L")? {
        let path = flag.strip_prefix("-L").unwrap_or(&flag);
        println!("cargo::rustc-link-search=native={path}");
    }
    for library in LIBRARIES {
        println!("cargo::rustc-link-lib=dylib={library}");
    }
    Ok(())
}

/// Tells the crate how its C was compiled. pkg-config names the processor that DPDK was built for.
fn tell(compiler: &OsStr, flags: &[String]) {
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version = version.unwrap_or_default();
    let dpdk = pkg_config("--modversion").unwrap_or_default().join(" ");
    let machines = flags.iter().filter(|flag| flag.starts_with("-m"));
    let machines: Vec<&str> = machines.map(String::as_str).collect();
    for (name, value) in [
        ("C_COMPILER", version.lines().next().unwrap_or_default()),
        ("C_FLAGS", &format!("{} {}", flags.join(" "), FLAGS.join(" "))),
        ("DPDK", &format!("{dpdk}, {}", machines.join(" "))),
    ] {
        println!("cargo::rustc-env=BURSTLINE_{name}={value}");
    }
}

fn pkg_config(what: &str) -> Result<Vec<String>, String> {
    let output = Command::new("pkg-config").args([what, "libdpdk"]).output();
    let output = output.ok().filter(|output| output.status.success());
    let output = output.ok_or("pkg-config does not know libdpdk: scripts/setup dpdk")?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(str::to_owned).collect())
}

fn check(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        other => Err(format!("{command:?}: {other:?}")),
    }
}

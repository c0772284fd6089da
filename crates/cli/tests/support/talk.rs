//! Real programs that talk to each other over a test bed.
#![allow(dead_code)] // each test file uses a part

use std::net::SocketAddr;

use burstline_testbed::{Bed, BedError, serve_bytes};

use super::live::wait_until;
use super::other;

/// Size of curl's download: some hundred full-size packets.
const DOWNLOAD_BYTES: usize = 500_000;

/// Runs echoes, a download, and a short TCP transfer at full speed.
pub(crate) fn talk(bed: &Bed, far: &str) -> Result<(), BedError> {
    bed.near.command("ping", &["-c", "20", "-i", "0.01", far])?;
    let server: SocketAddr = serve_bytes(&bed.far, far, DOWNLOAD_BYTES).unwrap();
    let fetched = bed.near.command("curl", &["-sS", &format!("http://{server}/")])?;
    assert_eq!(fetched.len(), DOWNLOAD_BYTES);
    iperf3(bed, far, &["--bytes", "2M"])
}

/// Runs iperf3 with these flags, if it is installed.
pub(crate) fn iperf3(bed: &Bed, far: &str, what: &[&str]) -> Result<(), BedError> {
    if other("iperf3", &["--version"]).is_none() {
        return Ok(());
    }
    let _server = bed.far.start("iperf3", &["--server", "--one-off", "--bind", far], &[])?;
    wait_until("iperf3 listens", || {
        let sockets = bed.far.command("ss", &["--tcp", "--listening", "--numeric"]);
        sockets.is_ok_and(|sockets| sockets.contains(":5201"))
    });
    bed.near.command("iperf3", &[&["--client", far], what].concat()).map(drop)
}

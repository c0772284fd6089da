//! DPDK itself in this process: whether it is there.

/// Why there is nothing of DPDK's in this program, and the mend.
const BUILT_WITHOUT: &str = "this program was built without DPDK: make dpdk";

/// Whether this program was built with DPDK.
pub(super) fn is_built() -> Result<(), String> {
    match cfg!(feature = "dpdk") {
        true => Ok(()),
        false => Err(BUILT_WITHOUT.to_owned()),
    }
}

/// DPDK's, of the library that this program is linked with.
pub(super) fn version() -> String {
    crate::programs::first_line("pkg-config", &["--modversion", "libdpdk"])
}

//! Tells whether DPDK is linked into this process.

/// Why DPDK is not available in this program, and the fix.
const BUILT_WITHOUT: &str = "this program was built without DPDK: make dpdk";

/// Checks whether this program was built with DPDK.
pub(super) fn is_built() -> Result<(), String> {
    match cfg!(feature = "dpdk") {
        true => Ok(()),
        false => Err(BUILT_WITHOUT.to_owned()),
    }
}

/// Returns the version of the linked DPDK library.
pub(super) fn version() -> String {
    crate::programs::first_line("pkg-config", &["--modversion", "libdpdk"])
}

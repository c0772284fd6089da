//! Placement of pages: requests a node, and asks the kernel afterwards.

use std::collections::BTreeMap;
use std::{fs, io, ptr};

use super::backing::View;
use super::{MemoryError, NodeId, PageKind, Placement, RegionRequest};

/// Maximum of pages to query: enough to show a misplaced region, cheap for any size.
const SAMPLE_PAGES: usize = 1024;

/// Node numbers that a mask has room for. Source: CONFIG_NODES_SHIFT is at most 10.
const MASK_NODES: usize = 1024;

const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";

/// Binds the pages of this view to `node` (`MPOL_BIND`): an allocation on another node fails.
///
/// The policy belongs to the memfd, so it also holds for pages that a reader touches first.
pub(super) fn bind(view: &View, node: NodeId) -> io::Result<()> {
    set_policy(view.start().as_ptr(), view.bytes(), libc::MPOL_BIND, node, 0)
}

/// Sets the memory policy of `[start, start + bytes)`: `mode` is an `MPOL_` for `node`, `flags` are
/// `MPOL_MF_`. It touches no byte; moved pages keep their address.
pub(crate) fn set_policy(
    start: *mut u8,
    bytes: usize,
    mode: libc::c_int,
    node: NodeId,
    flags: libc::c_int,
) -> io::Result<()> {
    const WORD_BITS: usize = u64::BITS as usize;
    let mut mask = [0_u64; MASK_NODES / WORD_BITS];
    let index = node.0 as usize;
    let word = mask.get_mut(index / WORD_BITS).ok_or(io::ErrorKind::InvalidInput)?;
    *word |= 1 << (index % WORD_BITS);
    // The kernel uses one bit less than the argument: see get_nodes in mm/mempolicy.c.
    let bits = MASK_NODES + 1;
    let (mode, flags) = (libc::c_long::from(mode), libc::c_long::from(flags));
    // SAFETY: `mask` outlives the call and has the announced bits (the one beyond is never read). A
    // policy changes no byte and no address, for any range; an unmapped range is an error.
    let result =
        unsafe { libc::syscall(libc::SYS_mbind, start, bytes, mode, mask.as_ptr(), bits, flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Queries the nodes of the pages of `view`, and compares them with the request.
pub(super) fn verify(
    view: &View,
    request: &RegionRequest,
    page: PageKind,
    mut notes: Vec<String>,
) -> Result<Placement, MemoryError> {
    let mut nodes = BTreeMap::new();
    match sample(view, page.bytes()) {
        Err(error) => notes.push(format!("nodes unknown: move_pages: {error}")),
        Ok(statuses) => {
            let sampled = statuses.len();
            for status in statuses {
                match u32::try_from(status) {
                    Ok(node) => *nodes.entry(NodeId(node)).or_insert(0) += 1,
                    Err(_) => {
                        let error = io::Error::from_raw_os_error(status.wrapping_neg());
                        notes.push(format!("a page without a node: {error}"));
                    }
                }
            }
            if let Some(node) = request.node {
                let elsewhere = sampled - nodes.get(&node).copied().unwrap_or(0);
                if elsewhere > 0 {
                    return Err(MemoryError::Misplaced { node, elsewhere, sampled });
                }
            }
        }
    }
    notes.dedup();
    let page_bytes = page.bytes();
    Ok(Placement { requested: request.pages, page, page_bytes, nodes, notes })
}

/// Returns the node (or negative errno) of up to [`SAMPLE_PAGES`] pages spread evenly over `view`.
fn sample(view: &View, page_bytes: usize) -> io::Result<Vec<libc::c_int>> {
    let pages = view.bytes() / page_bytes;
    let stride = pages.div_ceil(SAMPLE_PAGES).max(1);
    let addresses: Vec<*mut libc::c_void> = (0..pages)
        .step_by(stride)
        .map(|page| view.start().as_ptr().wrapping_add(page * page_bytes).cast())
        .collect();
    nodes_of(&addresses)
}

/// Returns the node of the page at each address, or its negative errno: `-ENOENT` if no page is
/// there yet. Moves nothing.
pub(crate) fn nodes_of(addresses: &[*mut libc::c_void]) -> io::Result<Vec<libc::c_int>> {
    move_pages(addresses, ptr::null())
}

/// Moves the page at each address to `node`. Returns the outcome of each, as `nodes_of` does.
pub(crate) fn move_each(
    addresses: &[*mut libc::c_void],
    node: NodeId,
) -> io::Result<Vec<libc::c_int>> {
    let targets = vec![node.0 as libc::c_int; addresses.len()];
    move_pages(addresses, targets.as_ptr())
}

/// `targets` is null, or an array as long as `addresses`.
fn move_pages(
    addresses: &[*mut libc::c_void],
    targets: *const libc::c_int,
) -> io::Result<Vec<libc::c_int>> {
    let mut statuses = vec![0; addresses.len()];
    // SAFETY: all arrays have the announced length and outlive the call; without target nodes
    // move_pages moves nothing. The call fills in `statuses`, and neither reads nor writes through
    // an address: a page that moves keeps its bytes.
    let result = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            0_usize,
            addresses.len(),
            addresses.as_ptr(),
            targets,
            statuses.as_mut_ptr(),
            0_usize,
        )
    };
    // A positive result is the number of pages that were not moved (Linux 4.17).
    if result >= 0 { Ok(statuses) } else { Err(io::Error::last_os_error()) }
}

/// Returns the bytes of `view` that transparent huge pages map: `ShmemPmdMapped` of its entry in
/// smaps. 0 if the kernel does not report it.
pub(super) fn bytes_in_huge_pages(view: &View) -> usize {
    let first = view.start().as_ptr() as usize;
    let smaps = fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    bytes_pmd_mapped(&smaps, first..first + view.bytes())
}

/// Sums `ShmemPmdMapped` over the entries of `smaps` whose first address is in `range`.
fn bytes_pmd_mapped(smaps: &str, range: std::ops::Range<usize>) -> usize {
    let mut inside = false;
    let mut kibibytes = 0;
    for line in smaps.lines() {
        if let Some(value) = line.strip_prefix("ShmemPmdMapped:") {
            let value = value.trim().trim_end_matches(" kB").parse().unwrap_or(0);
            kibibytes += if inside { value } else { 0 };
        } else if let Some((first, _)) = line.split_once('-')
            && let Ok(first) = usize::from_str_radix(first, 16)
        {
            inside = range.contains(&first);
        }
    }
    kibibytes * 1024
}

/// Returns the command that lets the kernel collapse a memfd into transparent huge pages.
pub(super) fn transparent_mend() -> String {
    let is_set = |file: &str, value: &str| {
        let text = fs::read_to_string(format!("{TRANSPARENT}/{file}")).unwrap_or_default();
        text.contains(&format!("[{value}]"))
    };
    if is_set("shmem_enabled", "deny") {
        format!("echo advise > {TRANSPARENT}/shmem_enabled")
    } else if is_set("enabled", "never") {
        format!("echo madvise > {TRANSPARENT}/enabled")
    } else {
        "echo 1 > /proc/sys/vm/compact_memory".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaps_entries_outside_the_range_do_not_count() {
        let smaps = "\
7f0000000000-7f0000400000 rw-s 00000000 00:01 9 /memfd:a (deleted)
Size:               4096 kB
ShmemPmdMapped:     2048 kB
7f0000400000-7f0000600000 rw-s 00400000 00:01 9 /memfd:a (deleted)
ShmemPmdMapped:     1024 kB
7f0000600000-7f0000800000 rw-s 00000000 00:01 7 /memfd:b-c (deleted)
ShmemPmdMapped:     2048 kB
";
        let range = 0x7f00_0000_0000..0x7f00_0060_0000;
        assert_eq!(bytes_pmd_mapped(smaps, range), 3 << 20);
    }
}

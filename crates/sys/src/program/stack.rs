//! Moves the calling thread's stack to a NUMA node, and reports where it is.
//!
//! A thread's parent touches its first stack pages, and so does the thread before it is pinned. So
//! they may be on any node. [`move_to`] moves those pages and makes later ones come from the same
//! node; [`nodes`] asks the kernel where they are.
//!
//! Source: pthread_getattr_np(3), mbind(2), move_pages(2).

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::memory::NodeId;
use crate::memory::placement::{move_each, nodes_of, set_policy};

const PAGE_BYTES: usize = 4096;

/// How often to retry pages that were not moved. The kernel silently skips a page that is briefly
/// in use (by reclaim, or a scan for huge pages).
const MOVES: u32 = 5;

/// Also moves existing pages. Source: `MPOL_MF_MOVE`, include/uapi/linux/mempolicy.h.
const MOVE: libc::c_int = 1 << 1;

/// Moves the stack of the calling thread to `node`, and lets it grow there while there is memory.
/// Not for the main thread, whose stack is not fully mapped.
///
/// Cost: some microseconds, plus a copy of the touched pages; some milliseconds if moves are
/// retried.
///
/// # Errors
/// Errors of mbind(2); `EINVAL` if there is no such node.
pub fn move_to(node: NodeId) -> io::Result<()> {
    let (start, bytes) = range()?;
    // Preferred, not bound: if the node is full the thread continues, and the report shows where.
    set_policy(start, bytes, libc::MPOL_PREFERRED, node, MOVE)?;
    for again in 1..MOVES {
        // If the kernel does not report where pages are, or does not let us move them, the first
        // attempt has to be enough.
        let elsewhere = pages_elsewhere(node).unwrap_or_default();
        if elsewhere.is_empty() || move_each(&elsewhere, node).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(u64::from(again)));
    }
    Ok(())
}

/// Counts the touched pages of the calling thread's stack per node.
///
/// # Errors
/// Errors of move_pages(2); `ENOSYS` on a kernel without it.
pub fn nodes() -> io::Result<BTreeMap<NodeId, usize>> {
    let mut nodes = BTreeMap::new();
    for status in nodes_of(&pages()?)? {
        if let Ok(node) = u32::try_from(status) {
            *nodes.entry(NodeId(node)).or_insert(0) += 1;
        }
    }
    Ok(nodes)
}

/// Returns the touched pages of the calling thread's stack that are not on `node`.
fn pages_elsewhere(node: NodeId) -> io::Result<Vec<*mut libc::c_void>> {
    let pages = pages()?;
    let at = nodes_of(&pages)?;
    let is_elsewhere = |status: libc::c_int| u32::try_from(status).is_ok_and(|at| at != node.0);
    Ok(pages
        .into_iter()
        .zip(at)
        .filter(|(_, at)| is_elsewhere(*at))
        .map(|(page, _)| page)
        .collect())
}

/// Returns all pages of the calling thread's stack.
fn pages() -> io::Result<Vec<*mut libc::c_void>> {
    let (start, bytes) = range()?;
    let page = |number| start.wrapping_add(number * PAGE_BYTES).cast();
    Ok((0..bytes / PAGE_BYTES).map(page).collect())
}

/// Returns the first whole page of the calling thread's stack, and the size in bytes.
fn range() -> io::Result<(*mut u8, usize)> {
    let check = |code: libc::c_int| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: the call initialises the attributes from the calling thread, or fails.
    check(unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) })?;
    // SAFETY: initialised by the call above, which succeeded.
    let mut attributes: libc::pthread_attr_t = unsafe { attributes.assume_init() };
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised, and both results have room.
    let got = unsafe { libc::pthread_attr_getstack(&raw const attributes, &mut start, &mut bytes) };
    // SAFETY: initialised above, and not used afterwards.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    check(got)?;
    let start: *mut u8 = start.cast();
    let lead = start.addr().next_multiple_of(PAGE_BYTES) - start.addr();
    Ok((start.wrapping_add(lead), (bytes - lead) / PAGE_BYTES * PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::Topology;

    /// Touches some pages below the caller's frame.
    fn touch() -> u8 {
        let page = std::hint::black_box([1_u8; 16 * PAGE_BYTES]);
        page[PAGE_BYTES]
    }

    #[test]
    fn a_stack_grows_where_it_was_moved_to() {
        for node in Topology::read().unwrap().nodes {
            let found = std::thread::spawn(move || {
                move_to(node.id).unwrap();
                touch();
                nodes().unwrap()
            });
            let found = found.join().unwrap();
            let pages = found.get(&node.id).copied().unwrap_or(0);
            assert!(pages >= 16 && found.len() == 1, "node {}: {found:?}", node.id);
        }
    }

    #[test]
    fn a_node_that_is_not_there_is_refused() {
        let refused = std::thread::spawn(|| [move_to(NodeId(900)), move_to(NodeId(5000))]);
        assert!(refused.join().unwrap().iter().all(Result::is_err));
    }
}

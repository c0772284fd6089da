//! Where the calling thread's stack is, and how it gets elsewhere.
//!
//! A thread's parent touches its first stack pages, as does the thread itself before it is pinned.
//! So they may be on any node. [`move_to`] moves those pages and has later ones come from the same
//! node; [`nodes`] asks the kernel where they are.
//!
//! Source: pthread_getattr_np(3), mbind(2), move_pages(2).

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use crate::memory::NodeId;
use crate::memory::placement::{move_each, nodes_of, set_policy};

const PAGE_BYTES: usize = 4096;

/// How often to ask again for pages that were not moved. The kernel silently skips a page that
/// something else holds for a moment (reclaim, a scan for huge pages).
const MOVES: u32 = 5;

/// Pages that are elsewhere come along. Source: `MPOL_MF_MOVE`, include/uapi/linux/mempolicy.h.
const MOVE: libc::c_int = 1 << 1;

/// Moves the stack of the calling thread to `node`, and has it grow there while there is room. Not
/// for the main thread, whose stack is not all mapped.
///
/// Cost: some microseconds, and the copying of the pages that were touched; some milliseconds where
/// pages do not come at once.
///
/// # Errors
/// What mbind(2) says; `EINVAL` if there is no such node.
pub fn move_to(node: NodeId) -> io::Result<()> {
    let (start, bytes) = range()?;
    // Preferred, not bound: a thread whose node is full goes on, and the report says where.
    set_policy(start, bytes, libc::MPOL_PREFERRED, node, MOVE)?;
    for again in 1..MOVES {
        // Where the kernel does not say where pages are, or does not let us move them, once has to
        // be enough.
        let elsewhere = pages_elsewhere(node).unwrap_or_default();
        if elsewhere.is_empty() || move_each(&elsewhere, node).is_err() {
            break;
        }
        std::thread::sleep(Duration::from_millis(u64::from(again)));
    }
    Ok(())
}

/// How many pages of the calling thread's stack are on which node, among those touched so far.
///
/// # Errors
/// What move_pages(2) says; `ENOSYS` on a kernel without it.
pub fn nodes() -> io::Result<BTreeMap<NodeId, usize>> {
    let mut nodes = BTreeMap::new();
    for status in nodes_of(&pages()?)? {
        if let Ok(node) = u32::try_from(status) {
            *nodes.entry(NodeId(node)).or_insert(0) += 1;
        }
    }
    Ok(nodes)
}

/// The touched pages of the calling thread's stack that are not on `node`.
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

/// All pages of the calling thread's stack.
fn pages() -> io::Result<Vec<*mut libc::c_void>> {
    let (start, bytes) = range()?;
    let page = |number| start.wrapping_add(number * PAGE_BYTES).cast();
    Ok((0..bytes / PAGE_BYTES).map(page).collect())
}

/// The first byte of the calling thread's stack, at a whole page, and its bytes.
fn range() -> io::Result<(*mut u8, usize)> {
    let check = |code: libc::c_int| match code {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    };
    let mut attributes = std::mem::MaybeUninit::uninit();
    // SAFETY: it initialises the attributes of the calling thread, or fails.
    check(unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) })?;
    // SAFETY: initialised by the call above, which succeeded.
    let mut attributes: libc::pthread_attr_t = unsafe { attributes.assume_init() };
    let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are initialised, and both results have room.
    let got = unsafe { libc::pthread_attr_getstack(&raw const attributes, &mut start, &mut bytes) };
    // SAFETY: initialised above, and not used any more.
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

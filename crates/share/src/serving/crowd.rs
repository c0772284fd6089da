//! Chooses the client to disconnect if too many wait: one of those with the most connections.
//!
//! A client that may connect may connect often. If the publisher dropped the oldest connection, one
//! client could push out all others before they send a request. So it drops a connection of the
//! user with the most, and of that user's process with the most. Among equals it drops the oldest.

use std::cmp::Reverse;

use burstline_sys::seqpacket::Credentials;

/// Returns which of `waiting` makes room for `newcomer`, which counts for its user. `waiting` is in
/// order, oldest first, each with its index in the caller's list. `None` if it is empty.
///
/// Cost: quadratic in their number.
pub(crate) fn one_to_let_go(
    waiting: &[(usize, Credentials)],
    newcomer: Credentials,
) -> Option<usize> {
    let peers = || waiting.iter().map(|(_, peer)| peer).chain([&newcomer]);
    let of_user = |uid| peers().filter(|peer| peer.uid == uid).count();
    let of_process =
        |of: &Credentials| peers().filter(|peer| (peer.uid, peer.pid) == (of.uid, of.pid)).count();
    let crowded =
        |(_, peer): &&(usize, Credentials)| (Reverse(of_user(peer.uid)), Reverse(of_process(peer)));
    waiting.iter().min_by_key(crowded).map(|&(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(uid: u32, pid: u32) -> Credentials {
        Credentials { pid, uid, gid: 0 }
    }

    #[test]
    fn who_takes_up_most_room_makes_room() {
        let cases = [
            (vec![], of(1, 1), None),
            (vec![(4, of(1, 1)), (5, of(2, 2))], of(3, 3), Some(4)), // equal: the oldest
            (vec![(4, of(1, 1)), (5, of(2, 2))], of(2, 3), Some(5)), // the newcomer counts
            (vec![(0, of(1, 1)), (1, of(2, 2)), (2, of(2, 2))], of(3, 3), Some(1)),
            (vec![(0, of(1, 1)), (1, of(1, 2)), (2, of(1, 2))], of(1, 3), Some(1)), // one user
            (vec![(0, of(1, 1)), (1, of(2, 2)), (2, of(2, 3))], of(2, 4), Some(1)), // who forks
        ];
        for (waiting, newcomer, expected) in cases {
            assert_eq!(one_to_let_go(&waiting, newcomer), expected, "{waiting:?}");
        }
    }
}

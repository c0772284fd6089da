//! Limits a user's share of a name: calls a second, seats, segments of windows, and time of holding
//! up the writer. The logs sum up that time, by the uid that comes with each seat (Decision 0063).
//!
//! ```text
//! connect --> too often?  200 a second, and 200 at once  --no--> attach: share? deadline? --> seat
//!               yes: closed unread                               query: status
//! ```
//!
//! A user is a kernel uid, however many processes it runs. Root and the publisher's own user always
//! get a seat with a window, however many other users take; root even if the owner takes many. Both
//! may connect as often as they like, because they can end the publisher anyway.
//!
//! Cost: a search through at most [`USERS_MAX`] users for each call, none for a packet.

use burstline_log::MAX_WINDOW;

use crate::refusal::Refusal;

/// A user's connections a second, and its largest burst. A seat costs the writer some microseconds;
/// a query, or nonsense, costs the publisher's thread about as much.
pub(crate) const CALLS_A_SECOND: u64 = 200;
/// Ratio of the time without lossless seats to the time that the user's reader held up the writer.
const PATIENCE_TIMES: u64 = 10;
/// The minimum of that time, in ns.
const REFUSED_NS_MIN: u64 = 10_000_000_000;
/// The most users that are remembered; beyond that, the one seen longest ago is forgotten.
const USERS_MAX: usize = 64;
pub(crate) const ROOT: u32 = 0;
const NS_PER_S: u64 = 1_000_000_000;

/// The recorded users.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    users: Vec<User>,
}

#[derive(Debug)]
struct User {
    uid: u32,
    /// The user's unused calls, measured in ns of the time that each takes to come back.
    credit_ns: u64,
    seen_ns: u64,
    /// End of the period during which this user gets no lossless seat.
    lossy_until_ns: u64,
}

/// What the readers of other processes have of a log at the time of a request: seats, or segments
/// of windows. The log's own readers have theirs besides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    pub(crate) all: usize,
    pub(crate) of_root: usize,
    /// What the publisher's user has; nothing if that is root.
    pub(crate) of_owner: usize,
    pub(crate) of_others: usize,
    /// What the user of the request has.
    pub(crate) of_user: usize,
}

impl Quotas {
    /// Returns whether a user may call now; counts the call.
    pub(crate) fn call(&mut self, uid: u32, now_ns: u64) -> Result<(), Refusal> {
        const EACH_NS: u64 = NS_PER_S / CALLS_A_SECOND;
        let user = self.user(uid, now_ns);
        let gained_ns = now_ns.saturating_sub(user.seen_ns);
        user.credit_ns = user.credit_ns.saturating_add(gained_ns).min(NS_PER_S);
        user.seen_ns = now_ns;
        match user.credit_ns.checked_sub(EACH_NS) {
            Some(left_ns) => user.credit_ns = left_ns,
            None => return Err(Refusal::TooOften { uid: uid.into(), most: CALLS_A_SECOND }),
        }
        Ok(())
    }

    /// Returns whether a user may have a lossless seat.
    pub(crate) fn lossless(&mut self, uid: u32, now_ns: u64) -> Result<(), Refusal> {
        let left_ns = self.user(uid, now_ns).lossy_until_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            return Ok(());
        }
        Err(Refusal::HeldUp { uid: uid.into(), wait_s: left_ns.div_ceil(NS_PER_S) })
    }

    /// Records that this user's reader held up the writer for `deadline_ns` and was demoted.
    pub(crate) fn held_up(&mut self, uid: u32, deadline_ns: u64, now_ns: u64) {
        let refused_ns = deadline_ns.saturating_mul(PATIENCE_TIMES).max(REFUSED_NS_MIN);
        self.user(uid, now_ns).lossy_until_ns = now_ns.saturating_add(refused_ns);
    }

    fn user(&mut self, uid: u32, now_ns: u64) -> &mut User {
        let at = self.users.iter().position(|user| user.uid == uid).unwrap_or_else(|| {
            if self.users.len() == USERS_MAX {
                let last = |at: &usize| self.users[*at].seen_ns.max(self.users[*at].lossy_until_ns);
                let oldest = (0..USERS_MAX).min_by_key(last).unwrap_or(0);
                self.users.swap_remove(oldest);
            }
            let (credit_ns, lossy_until_ns) = (NS_PER_S, 0);
            self.users.push(User { uid, credit_ns, seen_ns: now_ns, lossy_until_ns });
            self.users.len() - 1
        });
        &mut self.users[at]
    }
}

impl Share {
    /// Adds what another reader of `holder` has to what there is, for a request of `uid`.
    pub(crate) fn add(&mut self, holder: u32, own_user: u32, uid: u32, count: usize) {
        match holder {
            ROOT => self.of_root += count,
            _ if holder == own_user => self.of_owner += count,
            _ => self.of_others += count,
        }
        self.of_user += if holder == uid { count } else { 0 };
    }

    /// Returns what all readers of other processes have.
    pub(crate) fn taken(self) -> usize {
        self.of_root + self.of_owner + self.of_others
    }

    /// Returns whether `uid` may have another seat, if the publisher's user is `own_user`. One is
    /// reserved for root and one for the owner; another user gets at most half.
    pub(crate) fn admit_seat(self, uid: u32, own_user: u32) -> Result<(), Refusal> {
        let left = self.left(uid, own_user, 1, self.all, (self.all / 2).max(1));
        let has = self.of_user as u64;
        if left >= 1 { Ok(()) } else { Err(Refusal::UsersSeats { has, most: has }) }
    }

    /// Returns whether `uid` may have a window of this number of segments more. The other users get
    /// at most half together, and each of them a quarter. A window is reserved for root and one for
    /// the owner: of [`MAX_WINDOW`] segments, or a quarter if that is less.
    pub(crate) fn admit_window(
        self,
        uid: u32,
        own_user: u32,
        window: usize,
    ) -> Result<(), Refusal> {
        let reserved = (self.all / 4).clamp(1, MAX_WINDOW);
        let together = (self.all / 2).max(1);
        let left = self.left(uid, own_user, reserved, together, together.div_ceil(2));
        if window <= left {
            return Ok(());
        }
        let (windows, most) = ((self.of_user + window) as u64, (self.of_user + left) as u64);
        Err(Refusal::UsersWindows { windows, most })
    }

    /// Returns how much more `uid` may have, if `reserved` is root's and as much the owner's. The
    /// last one is reserved for nobody. `together` is the most of all other users, `each` that of
    /// each of them. What root may have is for the log to say.
    fn left(self, uid: u32, own_user: u32, reserved: usize, together: usize, each: usize) -> usize {
        let Self { all, of_root, of_owner, of_others, of_user } = self;
        let roots = reserved.saturating_sub(of_root);
        let owners = match own_user {
            ROOT => reserved.saturating_sub(of_root.saturating_sub(reserved)),
            _ => reserved.saturating_sub(of_owner),
        };
        let free = all.saturating_sub(self.taken());
        let kept = |kept: usize| kept.min(all.saturating_sub(1 + of_root + of_owner));
        match uid {
            ROOT => usize::MAX,
            _ if uid == own_user => free.saturating_sub(kept(roots)),
            _ => free
                .saturating_sub(kept(roots + owners))
                .min(together.saturating_sub(of_others))
                .min(each.saturating_sub(of_user)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_attaches_so_often_and_another_is_not_concerned() {
        let mut quotas = Quotas::default();
        let many = (0..1000).filter(|_| quotas.call(7, 5).is_ok()).count();
        assert_eq!(many, CALLS_A_SECOND as usize);
        let refused = Refusal::TooOften { uid: 7, most: CALLS_A_SECOND };
        assert_eq!(quotas.call(7, 5), Err(refused));
        assert_eq!(quotas.call(8, 5), Ok(()));
        let later = 5 + NS_PER_S / 2;
        let many = (0..1000).filter(|_| quotas.call(7, later).is_ok()).count();
        assert_eq!(many, CALLS_A_SECOND as usize / 2);
    }

    #[test]
    fn who_has_held_the_writer_up_waits_for_the_next_lossless_seat() {
        let mut quotas = Quotas::default();
        quotas.held_up(7, 2 * NS_PER_S, 0);
        assert_eq!(quotas.lossless(7, NS_PER_S), Err(Refusal::HeldUp { uid: 7, wait_s: 19 }));
        assert_eq!(quotas.lossless(8, NS_PER_S), Ok(()));
        assert_eq!(quotas.lossless(7, 20 * NS_PER_S), Ok(()));
        quotas.held_up(7, 1, 0);
        assert_eq!(quotas.lossless(7, 0), Err(Refusal::HeldUp { uid: 7, wait_s: 10 }));
    }

    #[test]
    fn memory_is_bounded_and_keeps_who_is_refused() {
        let mut quotas = Quotas::default();
        quotas.held_up(1, NS_PER_S, 0);
        for uid in 2..1000 {
            quotas.call(uid, u64::from(uid)).unwrap();
        }
        assert_eq!(quotas.users.len(), USERS_MAX);
        assert!(quotas.lossless(1, NS_PER_S).is_err());
    }

    const OWN: u32 = 1000;
    const OTHER: u32 = 1001;

    /// A share of `all`, of which root, the owner, all others and the user itself have so much.
    fn share(all: usize, [of_root, of_owner, of_others, of_user]: [usize; 4]) -> Share {
        Share { all, of_root, of_owner, of_others, of_user }
    }

    #[test]
    fn seats_are_left_for_the_owner_and_for_root() {
        let cases = [
            (OTHER, share(16, [0, 0, 0, 0]), true),
            (OTHER, share(16, [0, 0, 7, 7]), true),
            (OTHER, share(16, [0, 0, 8, 8]), false), // half of all seats
            (OTHER, share(16, [0, 0, 13, 0]), true),
            (OTHER, share(16, [0, 0, 14, 0]), false), // reserved for the owner and root
            (OTHER, share(16, [1, 0, 13, 0]), true),  // root has its seat
            (OTHER, share(16, [2, 0, 13, 0]), false), // and the owner's is not root's
            (OWN, share(16, [0, 2, 12, 2]), true),
            (OWN, share(16, [0, 2, 13, 2]), false), // reserved for root
            (ROOT, share(16, [15, 0, 0, 15]), true),
            // Few seats are for one other user, then for the owner and root.
            (OTHER, share(3, [0, 0, 0, 0]), true),
            (OTHER, share(3, [0, 0, 1, 0]), false),
            (OWN, share(3, [0, 0, 1, 0]), true),
            (OWN, share(3, [0, 1, 1, 1]), false),
            (OTHER, share(2, [0, 0, 0, 0]), true),
            (OTHER, share(1, [0, 0, 0, 0]), true),
        ];
        for (uid, seats, is_fine) in cases {
            assert_eq!(seats.admit_seat(uid, OWN).is_ok(), is_fine, "{uid}: {seats:?}");
        }
    }

    /// On logs of all sizes, the others take what they can; then the owner does; then root comes.
    #[test]
    fn windows_are_left_for_the_owner_and_for_root() {
        for all in 1..=256 {
            let mut share = share(all, [0; 4]);
            let take = |share: Share, uid| {
                (1..=MAX_WINDOW).rev().find(|&window| share.admit_window(uid, OWN, window).is_ok())
            };
            // Each of many users takes the largest windows that it gets.
            for _ in 0..64 {
                share.of_user = 0;
                while let Some(window) = take(share, OTHER) {
                    (share.of_others, share.of_user) =
                        (share.of_others + window, share.of_user + window);
                }
            }
            assert!((1..=all.div_ceil(2)).contains(&share.of_others), "{share:?}");
            let reserved = (all / 4).clamp(1, MAX_WINDOW);
            share.of_user = 0;
            while let Some(window) = take(share, OWN) {
                (share.of_owner, share.of_user) = (share.of_owner + window, share.of_user + window);
            }
            let left = all - share.of_others - share.of_owner;
            assert!(all < 2 || left >= reserved, "{share:?}");
            assert!(all < 3 || share.of_owner >= reserved, "{share:?}");
        }
    }

    #[test]
    fn who_asks_for_too_many_segments_hears_how_many_there_are() {
        // Sixteen segments, of which windows may take 14: seven for others, four for each.
        let of_others = |others, user| share(14, [0, 0, others, user]);
        let refused = |windows, most| Err(Refusal::UsersWindows { windows, most });
        assert_eq!(of_others(0, 0).admit_window(OTHER, OWN, 4), Ok(()));
        assert_eq!(of_others(0, 0).admit_window(OTHER, OWN, 5), refused(5, 4));
        assert_eq!(of_others(4, 4).admit_window(OTHER, OWN, 8), refused(12, 4));
        assert_eq!(of_others(4, 0).admit_window(OTHER, OWN, 3), Ok(()));
        assert_eq!(of_others(4, 0).admit_window(OTHER, OWN, 4), refused(4, 3));
        assert_eq!(of_others(7, 0).admit_window(OWN, OWN, 4), Ok(()));
        assert_eq!(of_others(7, 0).admit_window(OWN, OWN, 5), refused(5, 4));
        assert_eq!(of_others(7, 0).admit_window(ROOT, OWN, 8), Ok(()), "the log refuses it");
        // If root publishes, it has the windows of both.
        assert_eq!(share(14, [6, 0, 3, 3]).admit_window(OTHER, ROOT, 1), Ok(()));
        assert_eq!(share(14, [6, 0, 7, 3]).admit_window(OTHER, ROOT, 1), refused(4, 3));
    }
}

//! Limits a user's share of a name: calls a second, seats, and time of holding up the writer. The
//! logs sum up that time, by the uid that comes with each seat (Decision 0063).
//!
//! ```text
//! call --> too often?  200 a second, and 200 at once  --no--> attach: seats? deadline? --> seat
//!                                                             query: status
//! ```
//!
//! A user is a kernel uid, however many processes it runs. Root and the publisher's own user always
//! get a seat, however many other users take; root even if the owner takes many. Both may query as
//! often as they like, because they can end the publisher anyway.
//!
//! Cost: a search through at most [`USERS_MAX`] users for each call, none for a packet.

use crate::refusal::Refusal;

/// A user's attaches and queries a second, and its largest burst. A seat costs the writer some
/// microseconds; a query costs the publisher's thread about as much.
pub(crate) const CALLS_A_SECOND: u64 = 200;
/// Ratio of the time without lossless seats to the time that the user's reader held up the writer.
const PATIENCE_TIMES: u64 = 10;
/// The minimum of that time, in ns.
const REFUSED_NS_MIN: u64 = 10_000_000_000;
/// The most users that are remembered; beyond that, the one seen longest ago is forgotten.
const USERS_MAX: usize = 64;
/// A log with at least this number of seats reserves one for root and one more for its owner; with
/// fewer, all are for everybody.
const SEATS_MIN: usize = 8;
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

/// The seats of a log at the time of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seats {
    /// The number of seats.
    pub(crate) all: usize,
    pub(crate) taken: usize,
    /// The number of seats that the same user has taken.
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

impl Seats {
    /// Returns whether `uid` may have another seat, if the publisher's user is `own_user`.
    pub(crate) fn admit(self, uid: u32, own_user: u32) -> Result<(), Refusal> {
        let Self { all, taken, of_user } = self;
        if uid == ROOT || all < SEATS_MIN {
            return Ok(()); // the log itself reports when it is full
        }
        let (most, kept) = if uid == own_user { (all, 1) } else { (all / 2, 2) };
        if of_user >= most || taken + kept >= all {
            return Err(Refusal::UsersSeats {
                has: of_user as u64,
                most: most.min(all - kept) as u64,
            });
        }
        Ok(())
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

    #[test]
    fn seats_are_left_for_the_owner_and_for_root() {
        let seats = |taken, of_user| Seats { all: 16, taken, of_user };
        let (own, other) = (1000, 1001);
        let cases = [
            (other, seats(0, 0), true),
            (other, seats(7, 7), true),
            (other, seats(8, 8), false), // half of all seats
            (other, seats(13, 0), true),
            (other, seats(14, 0), false), // reserved for the owner and root
            (own, seats(14, 14), true),
            (own, seats(15, 2), false), // reserved for root
            (ROOT, seats(15, 15), true),
        ];
        for (uid, seats, is_fine) in cases {
            assert_eq!(seats.admit(uid, own).is_ok(), is_fine, "{uid}: {seats:?}");
        }
        let few = Seats { all: 4, taken: 3, of_user: 3 };
        assert_eq!(few.admit(other, own), Ok(()));
    }
}

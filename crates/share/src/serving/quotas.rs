//! What one user may take of a name: calls a second, seats, and the writer's patience.
//!
//! ```text
//! call --> too often?  200 a second, and 200 at once  --no--> attach: seats? patience? --> seat
//!                                                             query: status
//! ```
//!
//! A user here is the kernel's: one who starts many processes is still one. Root and the
//! publisher's own user are never without a seat because of others, and root not because of the
//! owner. Both may query as often as they like: they can end the publisher anyway.
//!
//! Cost: a look through at most [`USERS_MAX`] users for each call, none for a packet.

use crate::refusal::Refusal;

/// Calls of one user a second, attaches and queries; as many at once. A seat costs the writer some
/// microseconds, and a query the publisher's thread.
pub(crate) const CALLS_A_SECOND: u64 = 200;
/// How much longer a user is refused lossless seats than one of theirs held the writer up.
const PATIENCE_TIMES: u64 = 10;
/// The least of that, in ns.
const REFUSED_NS_MIN: u64 = 10_000_000_000;
/// Users that are remembered: beyond it the one who was here longest ago is forgotten.
const USERS_MAX: usize = 64;
/// From this many seats on, a log keeps one for root and one more for its owner; with fewer, all
/// are for everybody.
const SEATS_MIN: usize = 8;
pub(crate) const ROOT: u32 = 0;
const NS_PER_S: u64 = 1_000_000_000;

/// What is remembered of users.
#[derive(Debug, Default)]
pub(crate) struct Quotas {
    users: Vec<User>,
}

#[derive(Debug)]
struct User {
    uid: u32,
    /// Calls that may come at once, in ns of the time that each takes to come back.
    credit_ns: u64,
    seen_ns: u64,
    /// Until when there are no lossless seats for this user.
    lossy_until_ns: u64,
}

/// The seats of a log, when a reader wants one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seats {
    /// How many there are.
    pub(crate) all: usize,
    /// How many are taken, by whomever.
    pub(crate) taken: usize,
    /// How many of these by the same user.
    pub(crate) of_user: usize,
}

impl Quotas {
    /// Whether a user may call once more now.
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

    /// Whether a user may have a lossless seat.
    pub(crate) fn lossless(&mut self, uid: u32, now_ns: u64) -> Result<(), Refusal> {
        let left_ns = self.user(uid, now_ns).lossy_until_ns.saturating_sub(now_ns);
        if left_ns == 0 {
            return Ok(());
        }
        Err(Refusal::HeldUp { uid: uid.into(), wait_s: left_ns.div_ceil(NS_PER_S) })
    }

    /// A lossless reader of this user held the writer up for `deadline_ns`, and is lossy now.
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
    /// Whether `uid` may have one more, where the publisher's user is `own_user`.
    pub(crate) fn admit(self, uid: u32, own_user: u32) -> Result<(), Refusal> {
        let Self { all, taken, of_user } = self;
        if uid == ROOT || all < SEATS_MIN {
            return Ok(()); // the log itself says when it is full
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
            (other, seats(8, 8), false), // half of them
            (other, seats(13, 0), true),
            (other, seats(14, 0), false), // the owner's and root's
            (own, seats(14, 14), true),
            (own, seats(15, 2), false), // root's
            (ROOT, seats(15, 15), true),
        ];
        for (uid, seats, is_fine) in cases {
            assert_eq!(seats.admit(uid, own).is_ok(), is_fine, "{uid}: {seats:?}");
        }
        let few = Seats { all: 4, taken: 3, of_user: 3 };
        assert_eq!(few.admit(other, own), Ok(()));
    }
}

//! The time for which a user's lossless readers may hold up a log's writer: a budget.
//!
//! ```text
//! spent    D |- - - - - - - - - - - -,-- used up: the user's seats in the way are demoted
//!            |    ,--,            ,--'
//!            | ,--'   ``--,,   ,--'          holds it up: rises by the time of that
//!          0 |-'            ``-'             does not:    falls by a tenth of the time
//! ```
//!
//! The deadline `D` alone limits only one stretch. A reader that frees a segment just before it
//! would hold the writer up for almost all of the time. So would several readers in turn. With the
//! budget a user has at most one deadline at a stretch, and in the long run an eleventh of the
//! time. It belongs to the user, not to the seat: leaving and attaching again changes nothing.
//!
//! The writer learns who is in the way only when it looks for a segment. Two looks in sequence that
//! find the user there make the time between them held up. If the second look finds the user gone,
//! nobody knows when it went, because the writer may have had no packet meanwhile. Of such a time
//! at most a tenth of a deadline counts.
//!
//! Only the writer changes a budget, from what it saw itself; a reader's page names no time
//! (Decision 0063). The words are atomic because seats are shared. They order no memory.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ratio of the time in which a budget comes back to the time that was spent.
const REGAINED_TIMES: u64 = 10;
/// Ratio of the deadline to the most that counts of a time whose end nobody saw.
const UNSEEN_PART: u64 = 10;
/// Ratio of the deadline to the most that is spent beyond it.
const BEYOND_PART: u64 = 10;
/// The number of users without a seat that are remembered.
const USERS_MAX: usize = 64;
/// The number of no look: the user is not in the way.
const NO_LOOK: u64 = 0;

/// What a user, or a reader that belongs to none, has spent.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// In ns, at `at_ns`; at most the deadline and a tenth of it. The tenth makes the user pay for
    /// the time between the last two looks, too.
    spent_ns: AtomicU64,
    /// On the writer's clock.
    at_ns: AtomicU64,
    /// The last look that found the user in the way, or [`NO_LOOK`].
    look: AtomicU64,
}

impl Budget {
    /// Records that look number `look`, at least 1, finds the user in the way. Returns whether the
    /// budget is used up.
    pub(crate) fn hold(&self, look: u64, now_ns: u64, deadline_ns: u64) -> bool {
        match self.look.load(Relaxed) {
            last if last == look => {}
            last if last + 1 == look && last != NO_LOOK => {
                self.advance(now_ns, u64::MAX, deadline_ns);
            }
            NO_LOOK => self.advance(now_ns, 0, deadline_ns),
            // Its seat was given up while it was in the way.
            _ => self.advance(now_ns, deadline_ns / UNSEEN_PART, deadline_ns),
        }
        self.look.store(look, Relaxed);
        self.spent_ns.load(Relaxed) >= deadline_ns
    }

    /// Ends look number `look`. `has_room`: the writer got a segment.
    pub(crate) fn end_look(&self, look: u64, has_room: bool, now_ns: u64, deadline_ns: u64) {
        let is_in_the_way = match self.look.load(Relaxed) {
            NO_LOOK => return,
            last => last == look,
        };
        if !is_in_the_way {
            self.advance(now_ns, deadline_ns / UNSEEN_PART, deadline_ns);
        }
        if !is_in_the_way || has_room {
            self.look.store(NO_LOOK, Relaxed);
        }
    }

    /// Moves to `now_ns`. Of the time since the last call, at most `most_ns` were held up.
    fn advance(&self, now_ns: u64, most_ns: u64, deadline_ns: u64) {
        let past_ns = now_ns.saturating_sub(self.at_ns.load(Relaxed));
        let held_ns = past_ns.min(most_ns);
        let regained_ns = (past_ns - held_ns) / REGAINED_TIMES;
        let most_ns = deadline_ns.saturating_add(deadline_ns / BEYOND_PART);
        let spent_ns = self.spent_ns.load(Relaxed).saturating_add(held_ns).min(most_ns);
        self.spent_ns.store(spent_ns.saturating_sub(regained_ns), Relaxed);
        self.at_ns.store(now_ns, Relaxed);
    }
}

/// The budgets of a log's users. The writer does not use the list: a seat has its user's budget.
#[derive(Debug, Default)]
pub(crate) struct Budgets {
    users: Mutex<Vec<(u32, Arc<Budget>)>>,
}

impl Budgets {
    /// Returns the budget of a user.
    pub(crate) fn of(&self, user: u32) -> Arc<Budget> {
        let mut users = self.lock();
        if let Some((_, budget)) = users.iter().find(|(known, _)| *known == user) {
            return Arc::clone(budget);
        }
        Self::forget_one(&mut users);
        let budget = Arc::<Budget>::default();
        users.push((user, Arc::clone(&budget)));
        budget
    }

    /// Makes room: of the users without a seat, forgets the one that was in the way longest ago.
    fn forget_one(users: &mut Vec<(u32, Arc<Budget>)>) {
        let absent = |(_, (_, budget)): &(usize, &(u32, Arc<Budget>))| {
            Arc::strong_count(budget) == 1 // a seat has another reference
        };
        if users.iter().enumerate().filter(absent).count() < USERS_MAX {
            return;
        }
        let since = |(_, (_, budget)): &(usize, &(u32, Arc<Budget>))| budget.at_ns.load(Relaxed);
        let oldest = users.iter().enumerate().filter(absent).min_by_key(since).map(|(at, _)| at);
        if let Some(oldest) = oldest {
            users.swap_remove(oldest);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(u32, Arc<Budget>)>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner) // each entry is independent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEADLINE_NS: u64 = 1_000;

    fn spent_ns(budget: &Budget) -> u64 {
        budget.spent_ns.load(Relaxed)
    }

    #[test]
    fn time_between_two_looks_counts_and_comes_back_ten_times_as_slowly() {
        let budget = Budget::default();
        assert!(!budget.hold(1, 5_000, DEADLINE_NS), "nothing counts before the first look");
        assert!(!budget.hold(2, 5_400, DEADLINE_NS));
        assert!(!budget.hold(2, 5_400, DEADLINE_NS), "a second seat, the same look");
        assert_eq!(spent_ns(&budget), 400);
        budget.end_look(3, true, 5_450, DEADLINE_NS);
        assert_eq!(spent_ns(&budget), 450);
        assert!(!budget.hold(9, 6_450, DEADLINE_NS));
        assert_eq!(spent_ns(&budget), 350);
        assert!(budget.hold(10, 7_100, DEADLINE_NS), "used up");
    }

    #[test]
    fn a_time_whose_end_nobody_saw_counts_little() {
        let budget = Budget::default();
        budget.hold(1, 1, DEADLINE_NS);
        budget.end_look(2, true, 1_101, DEADLINE_NS);
        assert_eq!(spent_ns(&budget), 0, "a tenth of a deadline held, ten tenths not");
        // Its seat is gone when that look ends; it comes back later.
        budget.hold(5, 2_000, DEADLINE_NS);
        budget.hold(8, 2_200, DEADLINE_NS);
        assert_eq!(spent_ns(&budget), 90);
    }

    #[test]
    fn a_long_pause_of_the_writer_costs_no_more_than_the_budget() {
        let budget = Budget::default();
        budget.hold(1, 0, DEADLINE_NS);
        assert!(budget.hold(2, 900 * DEADLINE_NS, DEADLINE_NS));
        budget.end_look(2, true, 900 * DEADLINE_NS, DEADLINE_NS);
        budget.hold(3, 910 * DEADLINE_NS, DEADLINE_NS);
        assert_eq!(spent_ns(&budget), DEADLINE_NS / BEYOND_PART);
    }

    #[test]
    fn a_bounded_number_of_users_is_remembered_and_none_with_a_seat_is_forgotten() {
        let budgets = Budgets::default();
        let seated = budgets.of(0);
        budgets.of(1).hold(1, 70, DEADLINE_NS);
        let users = if cfg!(miri) { USERS_MAX as u32 + 9 } else { 1_000 };
        for user in 2..users {
            budgets.of(user).hold(1, u64::from(user).min(60), DEADLINE_NS);
        }
        assert_eq!(budgets.lock().len(), USERS_MAX + 1);
        assert!(Arc::ptr_eq(&seated, &budgets.of(0)));
        assert_eq!(budgets.of(1).at_ns.load(Relaxed), 70, "the last one in the way");
    }
}

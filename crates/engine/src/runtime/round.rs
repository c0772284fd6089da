//! One turn over the ports of a stage.

use burstline_port::{PortState, Received};

use super::budget::{Budget, Grant};
use super::stage::{Next, Polled};

/// The result of a turn so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Packets taken.
    pub(crate) packets: u64,
    /// Some port has more packets, even if its filter has passed none so far.
    is_busy: bool,
    /// Some port has work that it cannot do now.
    is_blocked: bool,
    /// Other threads hold the rest of the packet limit.
    is_waiting: bool,
    /// The job's limit is reached.
    is_reached: bool,
    /// Some port has not ended.
    has_open: bool,
}

impl Round {
    /// Calls `take` for up to `most` packets of an open port, within the job's limit. Returns
    /// whether the port has ended. Cost: the budget's.
    #[inline]
    pub(crate) fn poll<E>(
        &mut self,
        budget: &Budget,
        most: u64,
        take: impl FnOnce(u64) -> Result<Received, E>,
    ) -> Result<bool, E> {
        let granted = match budget.take(most) {
            Grant::Packets(granted) => granted,
            Grant::Wait => {
                (self.is_waiting, self.has_open) = (true, true);
                return Ok(false);
            }
            Grant::Reached => {
                self.is_reached = true;
                return Ok(false);
            }
        };
        let taken = take(granted);
        budget.settle(granted, taken.as_ref().map_or(0, |received| received.packets));
        let Received { packets, state } = taken?;
        self.packets += packets;
        self.is_busy |= state == PortState::Busy;
        self.is_blocked |= state == PortState::Blocked;
        self.has_open |= state != PortState::Ended;
        Ok(state == PortState::Ended)
    }

    /// Keeps the stage running after its ports have ended, because it may still get new ports.
    pub(crate) fn keep_open(&mut self) {
        self.has_open = true;
    }

    /// Returns what the stage does next; `if_blocked` if a port was blocked and nothing was found.
    #[inline]
    pub(crate) fn polled(&self, if_blocked: Next) -> Polled {
        let has_found = self.packets > 0 || self.is_busy;
        let next = if self.is_reached || !self.has_open {
            Next::Over
        } else if has_found {
            Next::Poll
        } else if self.is_blocked {
            if_blocked
        } else if self.is_waiting {
            Next::WaitForOthers
        } else {
            Next::Wait
        };
        Polled { has_found, next, now_ns: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(budget: &Budget, states: &[(u64, PortState)]) -> Polled {
        let mut round = Round::default();
        for &(packets, state) in states {
            let ended = round.poll(budget, 10, |_| Ok::<_, ()>(Received { packets, state }));
            assert!(matches!(ended, Ok(ended) if ended == (state == PortState::Ended)));
        }
        round.polled(Next::WaitForRoom)
    }

    #[test]
    fn a_turn_goes_on_while_a_port_is_open_and_the_limit_is_not_reached() {
        use PortState::{Blocked, Busy, Ended, Idle};
        let endless = Budget::new(None);
        let is = |states: &[(u64, PortState)]| {
            let polled = turn(&endless, states);
            (polled.has_found, polled.next)
        };
        assert_eq!(is(&[]), (false, Next::Over));
        assert_eq!(is(&[(3, Ended), (0, Ended)]), (true, Next::Over));
        assert_eq!(is(&[(0, Ended), (0, Idle)]), (false, Next::Wait));
        assert_eq!(is(&[(0, Busy)]), (true, Next::Poll), "its filter wanted none");
        assert_eq!(is(&[(0, Idle), (0, Blocked)]), (false, Next::WaitForRoom));
        assert_eq!(is(&[(1, Idle), (0, Blocked)]), (true, Next::Poll));
        let limited = Budget::new(Some(4));
        assert_eq!(turn(&limited, &[(4, Busy), (0, Busy)]).next, Next::Over);
        let shared = Budget::new(Some(4));
        assert!(matches!(shared.take(4), Grant::Packets(4)), "another thread has all");
        assert_eq!(turn(&shared, &[(0, Idle)]).next, Next::WaitForOthers);
    }

    #[test]
    fn what_a_port_that_fails_was_granted_is_free_again() {
        let (budget, mut round) = (Budget::new(Some(4)), Round::default());
        assert_eq!(round.poll(&budget, 9, Err), Err(4));
        assert_eq!(round.polled(Next::Wait).next, Next::Over, "no port is open");
        assert!(matches!(budget.take(9), Grant::Packets(4)));
    }
}

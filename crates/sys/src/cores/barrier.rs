//! A full fence in every running thread of this process, paid for by one of them.
//!
//! ```text
//!   often:   store A; light(); load B            no instruction at all
//!   seldom:  store B; everywhere(); load A       a system call, and an interrupt of busy cores
//!     one of the two sees the other's store, as with a full fence on either side
//! ```
//!
//! A thread that publishes a hundred million times a second must check each time whether a reader
//! sleeps. A full fence there would wait until its store has reached the cache. With this pair the
//! thread that goes to sleep pays, and it has time.
//!
//! Why it is correct: during the call the kernel runs a full fence on the core of each running
//! thread. A thread that does not run executes one when it is scheduled. Take the moment of that
//! fence in the busy thread. Either its load of B comes after that moment, and then it sees the
//! store of B, which came before the call. Or its load came before, and then so did its store of A,
//! which is visible when the call returns.
//!
//! Invariant B1: only threads of the process that calls [`everywhere`] are reached. Memory shared
//! with another process needs full fences on both sides.
//!
//! Source: membarrier(2), `MEMBARRIER_CMD_PRIVATE_EXPEDITED`; Linux's kernel/sched/membarrier.c.

use std::sync::OnceLock;
use std::sync::atomic::{Ordering, compiler_fence};

/// Source: Linux 5.14, include/uapi/linux/membarrier.h.
const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

/// Registers this process for [`everywhere`], once. Returns false if the kernel has no such call or
/// a seccomp filter forbids it. Then both sides need full fences.
///
/// Cost: a few us while the process has one thread. With several threads the first call waits for
/// the kernel, some 15 ms. Later calls cost a load.
pub fn register() -> bool {
    static IS_REGISTERED: OnceLock<bool> = OnceLock::new();
    *IS_REGISTERED.get_or_init(|| call(REGISTER_PRIVATE_EXPEDITED))
}

/// The busy side's half: keeps the compiler from moving accesses across it. No instruction.
///
/// Under Miri it is a full fence: Miri lacks the call, and never guarantees that a store is seen.
#[inline(always)]
pub fn light() {
    if cfg!(miri) {
        std::sync::atomic::fence(Ordering::SeqCst);
    }
    compiler_fence(Ordering::SeqCst);
}

/// The other half: a full fence in the calling thread and in every other thread of this process.
/// Returns false if the kernel refused; then only this thread had one. It needs [`register`].
///
/// Cost: a system call, and an interrupt of each other core that runs a thread of this process. 0.3
/// us if none does, 4 to 9 us on a virtual machine if one does.
pub fn everywhere() -> bool {
    std::sync::atomic::fence(Ordering::SeqCst);
    call(PRIVATE_EXPEDITED)
}

/// Returns whether the kernel did it.
fn call(command: libc::c_int) -> bool {
    // SAFETY: the call takes numbers, and changes no memory of this process.
    !cfg!(miri) && unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } == 0
}

#[cfg(test)]
mod tests {
    use std::hint::spin_loop;
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
    use std::thread;

    use super::*;

    const ROUNDS: u32 = 20_000;

    #[repr(align(128))]
    #[derive(Default)]
    struct Word(AtomicU32);

    /// Returns in how many rounds both threads stored, loaded, and missed the other's store.
    fn both_missed(fence: impl Fn()) -> u32 {
        let [often, seldom, turn, done] = [0; 4].map(|_| Word::default());
        thread::scope(|scope| {
            let busy = scope.spawn(|| {
                let mut missed = Vec::new();
                for round in 1..=ROUNDS {
                    while turn.0.load(Acquire) != round {
                        thread::yield_now(); // there may be only one core
                    }
                    often.0.store(round, Relaxed);
                    light();
                    missed.push(seldom.0.load(Relaxed) != round);
                    done.0.store(round, Release);
                }
                missed
            });
            let mut missed = Vec::new();
            for round in 1..=ROUNDS {
                turn.0.store(round, Release);
                (0..round % 64).for_each(|_| spin_loop());
                seldom.0.store(round, Relaxed);
                fence();
                missed.push(often.0.load(Relaxed) != round);
                while done.0.load(Acquire) != round {
                    thread::yield_now();
                }
            }
            let busy = busy.join().unwrap();
            busy.iter().zip(missed).filter(|&(&one, other)| one && other).count() as u32
        })
    }

    #[test]
    fn one_of_two_sees_the_other_although_only_one_has_a_fence() {
        if !register() {
            // Then no code relies on it.
            return burstline_skip::skip("the kernel has no membarrier(2) for this process");
        }
        assert_eq!(both_missed(|| assert!(everywhere())), 0);
        // Without a fence it does happen, if there are two quiet cores.
        println!("without a fence: {} of {ROUNDS} rounds", both_missed(light));
    }
}

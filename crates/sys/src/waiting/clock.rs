//! Clocks.
//!
//! Three clocks, three uses. `monotonic_ns` measures spans and deadlines and never steps.
//! `realtime_ns` stamps packets and may step when the machine's time is set. `cycles` counts cost
//! within one core. All are read without entering the kernel where the vDSO allows.
//!
//! Source: clock_gettime(2), vdso(7).

/// Nanoseconds since some point before the machine's start; never goes back. Cost: about 25 ns.
pub fn monotonic_ns() -> u64 {
    read_ns(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970-01-01 00:00 UTC, leap seconds not counted. Cost: about 25 ns.
///
/// A clock set before 1970 reads as 0.
pub fn realtime_ns() -> u64 {
    read_ns(libc::CLOCK_REALTIME)
}

/// Returns the offset from realtime to International Atomic Time, in ns. It is whole seconds, and 0
/// if the kernel does not know it. It changes with leap seconds.
pub fn tai_offset_ns() -> i64 {
    let (realtime, tai) = (read_ns(libc::CLOCK_REALTIME), read_ns(libc::CLOCK_TAI));
    let difference = tai as i64 - realtime as i64;
    (difference + 500_000_000).div_euclid(1_000_000_000) * 1_000_000_000
}

/// Nanoseconds that the calling thread has spent on a core. Cost: about 0.2 us, a system call.
pub fn thread_cpu_ns() -> u64 {
    read_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Reads the time stamp counter: ticks at a constant rate that is near, but not at, the core's own.
///
/// Not ordered with the code around it, so use it for stretches of a microsecond and more.
/// Cost: about 10 ns. Source: Intel SDM volume 2, RDTSC.
#[cfg(target_arch = "x86_64")]
pub fn cycles() -> u64 {
    // SAFETY: every x86-64 has the instruction, and it touches no memory.
    unsafe { std::arch::x86_64::_rdtsc() }
}

fn read_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a live timespec, which the call fills in.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0, "clock {clock} exists on every Linux since 2.6.12");
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    // Fits until the year 2554.
    seconds.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// A calendar date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u64,
    /// From 1.
    pub month: u64,
    /// Of the month, from 1.
    pub day: u64,
}

/// Returns the date of a day counted from 1970-01-01. Years are counted from March, so that the
/// leap day is the last of its year; 400 years are 146,097 days.
fn date_of(days: u64) -> Date {
    /// Days from 0000-03-01 to 1970-01-01.
    const EPOCH: u64 = 719_468;
    let days = days + EPOCH;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    Date { year: era * 400 + year + carry, month, day: day_of_month }
}

/// A second in Universal Time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    /// Its day.
    pub date: Date,
    /// From 0 to 23.
    pub hour: u64,
    /// Of the hour.
    pub minute: u64,
    /// Of the minute.
    pub second: u64,
}

impl Utc {
    /// Converts a second counted from 1970, as realtime clocks count: without leap seconds.
    pub fn of(seconds: u64) -> Self {
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        Self { date: date_of(days), hour, minute, second }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn monotonic_time_does_not_go_back() {
        let mut last = monotonic_ns();
        for _ in 0..1000 {
            let now = monotonic_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn realtime_lies_between_two_readings_of_the_standard_library() {
        let standard = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let (before, now, after) = (standard(), u128::from(realtime_ns()), standard());
        assert!(before <= now && now <= after, "{before} {now} {after}");
    }

    #[test]
    fn work_takes_thread_time_and_cycles() {
        let before = thread_cpu_ns();
        while thread_cpu_ns() == before {
            std::hint::spin_loop();
        }
        #[cfg(target_arch = "x86_64")]
        {
            let before = cycles();
            while cycles() == before {
                std::hint::spin_loop();
            }
        }
    }
}

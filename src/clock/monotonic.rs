//! The clock a limiter uses unless it is given another.
//!
//! [`Instant`] is right but takes some 20 ns to read, which can be more than all the rest of a
//! decision. Where the processor's time-stamp counter runs at one rate whatever the processor does,
//! and the kernel itself keeps time by it, [`MonotonicClock`] reads the counter instead and only
//! compares it with `Instant` now and then (see [`tsc`](super::tsc) for how, and for what happens
//! when the two part). The kernel's trust is what tells that the counters of all cores are in step:
//! it has compared them, and it drops a counter that fails.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

use super::tsc::{Sample, Tsc};
use super::{Clock, saturating_nanos};

/// How long the counter is watched to learn its rate.
const CALIBRATION: Duration = Duration::from_millis(2);

/// The process's monotonic time, which is the default clock.
///
/// Its readings are those of [`Instant`], counted from one origin in all of a process. On x86-64 the
/// time-stamp counter serves them where it can be trusted, and they may then be older than
/// `Instant`'s by about a third of a microsecond; for half a millisecond after a reading that lost
/// its processor halfway, by as long as that took, at most another half millisecond.
///
/// The first clock of a process takes about 2 ms to make, to learn the counter's rate; the others
/// share what it learnt.
#[derive(Clone, Copy, Debug)]
pub struct MonotonicClock {
    counter: Option<&'static Tsc>,
}

impl MonotonicClock {
    /// A clock that reads the counter where that is safe, otherwise [`Instant`].
    #[must_use]
    pub fn new() -> Self {
        static COUNTER: OnceLock<Option<CachePadded<Tsc>>> = OnceLock::new();
        Self { counter: COUNTER.get_or_init(counter).as_deref() }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> u64 {
        match self.counter {
            Some(tsc) => tsc.read(cpu::tick, elapsed),
            None => elapsed(),
        }
    }

    #[inline]
    fn is_monotonic(&self) -> bool {
        true
    }
}

/// Nanoseconds since the first call in this process.
fn elapsed() -> u64 {
    static BASE: OnceLock<Instant> = OnceLock::new();
    saturating_nanos(BASE.get_or_init(Instant::now).elapsed())
}

/// The time-stamp counter with its rate, if it can stand in for [`Instant`].
fn counter() -> Option<CachePadded<Tsc>> {
    if !(cpu::steady() && trusted_by_kernel()) {
        return None;
    }
    let first = Sample::take(cpu::tick, elapsed);
    thread::sleep(CALIBRATION);
    let last = Sample::take(cpu::tick, elapsed);
    Tsc::calibrated(first, last).map(CachePadded::new)
}

/// Whether the kernel keeps time by the counter; elsewhere than on Linux the processor's word and
/// the comparisons have to do.
fn trusted_by_kernel() -> bool {
    const SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    !cfg!(target_os = "linux") || std::fs::read_to_string(SOURCE).is_ok_and(|source| source.trim() == "tsc")
}

/// The time-stamp counter. Miri runs neither instruction.
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod cpu {
    use std::arch::x86_64::{__cpuid, _rdtsc};

    /// Whether the counter's rate is the same in all power states ("invariant TSC").
    pub(super) fn steady() -> bool {
        const MAX_EXTENDED_LEAF: u32 = 0x8000_0000;
        const POWER_MANAGEMENT: u32 = 0x8000_0007;
        const INVARIANT: u32 = 1 << 8;
        __cpuid(MAX_EXTENDED_LEAF).eax >= POWER_MANAGEMENT && __cpuid(POWER_MANAGEMENT).edx & INVARIANT != 0
    }

    /// The counter's value. Nothing orders it against its neighbours: it may be taken while a load
    /// before it still waits for memory. A fence would nearly double the cost, and a thread may be
    /// paused between a reading and its use anyway.
    #[inline]
    pub(super) fn tick() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory. A system
        // that forbids it to processes has no `tsc` clock source that they could read either.
        unsafe { _rdtsc() }
    }
}

/// No time-stamp counter.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod cpu {
    pub(super) fn steady() -> bool {
        false
    }

    pub(super) fn tick() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The most that readings are ever off by, in nanoseconds.
    const BOUND: u64 = 3_000_000;

    fn keeps_to_instant(clock: MonotonicClock) {
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    let end = elapsed() + 20_000_000;
                    loop {
                        let before = elapsed();
                        let now = clock.now();
                        let after = elapsed();
                        assert!(now >= last, "{now} after {last}");
                        assert!(now + BOUND >= before, "{now} is late for {before}");
                        assert!(now <= after + BOUND, "{now} is early for {after}");
                        last = now;
                        if after > end {
                            break;
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn keeps_to_instant_by_the_counter() {
        keeps_to_instant(MonotonicClock::new());
    }

    #[test]
    fn keeps_to_instant_without_a_counter() {
        keeps_to_instant(MonotonicClock { counter: None });
    }

    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux", not(miri)))]
    fn the_processor_is_asked_as_the_kernel_does() {
        let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
        let steady = processor.split_whitespace().any(|flag| flag == "nonstop_tsc");
        assert_eq!(cpu::steady(), steady);
        assert_eq!(counter().is_some(), steady && trusted_by_kernel());
    }

    #[test]
    fn clocks_share_one_counter_and_one_origin() {
        let (one, two) = (MonotonicClock::new(), MonotonicClock::default());
        assert_eq!(one.counter.map(std::ptr::from_ref), two.counter.map(std::ptr::from_ref));
        assert!(one.is_monotonic());
    }
}

//! Time from a processor's counter that is kept to [`Instant`](std::time::Instant)'s.
//!
//! # Reading
//!
//! A tick of the counter becomes nanoseconds by one multiplication, plus `lead`: where time stood at
//! the start, and what the counter has lost against `Instant` since. It always loses: its scale is
//! set slow by more than an operating system bends `Instant` to slew it, so a comparison only ever
//! has to move time forward, and no reading steps back for it. One comparison each half millisecond,
//! by whichever thread reads the clock next, keeps the readings within about 0.3 µs of `Instant`.
//!
//! # Comparing
//!
//! A comparison takes a tick, reads `Instant`, and takes a second tick, for the thread may lose its
//! processor between any two of these. It calls the counter ahead only if the first tick was, and
//! behind only if the second still is, and it raises `lead` so far that the second tick meets the
//! reading of `Instant`, which was earlier. A comparison torn apart by a pause thus does no harm, it
//! only corrects less. One that took less than the interval publishes its first tick in `synced`;
//! after a longer one the next reader compares again.
//!
//! # Parting
//!
//! A counter may jump or change its rate: the machine was suspended, or moved to another host. When
//! a comparison finds it further off than drift explains, the two have parted, for good, and
//! `Instant` is read from then on. The trust that `synced` gives reaches one interval past a
//! comparison that succeeded. So after a jump, every thread is out of the interval and compares for
//! itself before any of them publishes anything: a counter that jumped further than an interval
//! is never trusted by anybody. Smaller jumps, of up to a millisecond, show in the readings.
//!
//! To be `Instant` without stepping back, time first stands at `floor`, above all that was read
//! before. It is fixed by the first thread that finds `synced` parted and then reads `Instant`. A
//! comparison that was under way meanwhile learns of the parting when it fails to publish its tick,
//! and drops its result.
//!
//! # Races
//!
//! `lead` and `synced` only grow, and each is read by itself. A reader that finds an old `synced`
//! has an older tick, or compares. An old `lead` with a new `synced` would give a reading as old as
//! the last correction was large, which is seconds after a night's sleep; acquiring `synced` rules
//! it out. A new `lead` with an old `synced` is the better reading. Comparisons that overlap
//! correct by the same measure, so the greatest wins and none is added to another.
//!
//! One race is let be: if the counter jumps between two overlapping comparisons that end an idle
//! time, by so little that drift over that time explains it, a reading in between can be ahead of
//! `Instant` by the jump, at most 0.2 % of the idle time, until the next comparison.

use crate::sync::{AtomicU64, Ordering};

/// Nanoseconds between comparisons.
const INTERVAL: u64 = 500_000;

/// Nanoseconds that the counter may be off by without having parted from `Instant`: an interval for
/// what a torn comparison left uncorrected, and as much again.
const TOLERANCE: u64 = 1_000_000;

/// The counter may be further behind by one part in so many of the time since the last comparison:
/// more than [`DRAG_PPM`] and a slew of `Instant` the other way make together.
const DRIFT: u64 = 500;

/// How much too slow the scale is, in parts per million. Operating systems slew a clock by up to 500
/// ppm, and calibration can be wrong by some tens.
const DRAG_PPM: u128 = 600;

/// Nanoseconds from the reading of `Instant` that follows a parting to `floor`.
const MARGIN: u64 = 3_000_000;

/// The value of `synced` once counter and `Instant` have parted.
const PARTED: u64 = u64::MAX;

/// Brackets tried for a [`Sample`].
const BRACKETS: u32 = 16;

/// A tick and the nanoseconds of `Instant` just before it.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    pub tick: u64,
    pub nanos: u64,
}

impl Sample {
    /// The closest pair of a few: the one whose ticks around the reading of `Instant` lie tightest.
    pub fn take(tick: impl Fn() -> u64, instant: impl Fn() -> u64) -> Self {
        let bracket = || {
            let before = tick();
            let nanos = instant();
            let after = tick();
            // A counter that goes back makes a very wide bracket.
            (after.wrapping_sub(before), Self { tick: after, nanos })
        };
        let (mut narrowest, mut sample) = bracket();
        for _ in 1..BRACKETS {
            let (width, candidate) = bracket();
            if width < narrowest {
                (narrowest, sample) = (width, candidate);
            }
        }
        sample
    }
}

/// A counter, its scale, and how it stands to `Instant`.
#[derive(Debug)]
pub struct Tsc {
    /// The tick from which the scale applies.
    start_tick: u64,
    /// Nanoseconds per tick, times 2⁶⁴: less than one, so for counters of 1 GHz or more.
    scale: u64,
    /// [`INTERVAL`] in ticks.
    interval: u64,
    /// Nanoseconds added to what the counter makes of the ticks since `start_tick`.
    lead: AtomicU64,
    /// The latest tick that a successful comparison began with, or [`PARTED`].
    synced: AtomicU64,
    /// The least reading once parted; 0 until it is fixed.
    floor: AtomicU64,
}

impl Tsc {
    /// A counter that goes on from `last` at a little less than the rate between the two samples.
    ///
    /// `None` if no time or no ticks lie between them, or less than about one tick a nanosecond.
    pub fn calibrated(first: Sample, last: Sample) -> Option<Self> {
        let ticks = u128::from(last.tick.checked_sub(first.tick)?);
        let nanos = u128::from(last.nanos.checked_sub(first.nanos)?);
        let scale = (nanos << 64).checked_div(ticks)? / 1_000_000 * (1_000_000 - DRAG_PPM);
        let interval = (ticks * u128::from(INTERVAL)).checked_div(nanos)?;
        Some(Self {
            start_tick: last.tick,
            scale: u64::try_from(scale).ok()?,
            interval: u64::try_from(interval).ok()?,
            lead: AtomicU64::new(last.nanos),
            synced: AtomicU64::new(last.tick),
            floor: AtomicU64::new(0),
        })
    }

    /// The time in nanoseconds, on the scale of `instant`.
    ///
    /// `tick` reads the counter, and may return anything; `instant` reads `Instant`, and must not go
    /// back between calls one of which happens before the other.
    #[inline]
    pub fn read(&self, tick: impl Fn() -> u64, instant: impl Fn() -> u64) -> u64 {
        let before = tick();
        // Acquires the lead that was raised before `synced` was published. On x86-64 it costs
        // nothing.
        let synced = self.synced.load(Ordering::Acquire);
        // No tick is past `PARTED`, and `synced` is never before the start.
        if before > synced && before - synced < self.interval {
            self.scaled(before - self.start_tick).saturating_add(self.lead.load(Ordering::Relaxed))
        } else {
            self.compare(before, synced, tick, instant)
        }
    }

    /// Reads `Instant` and, unless they have parted, corrects the counter by it.
    #[cold]
    #[inline(never)]
    fn compare(&self, before: u64, synced: u64, tick: impl Fn() -> u64, instant: impl Fn() -> u64) -> u64 {
        if synced == PARTED {
            return self.parted(instant());
        }
        // Relaxed: `synced` has been acquired.
        let lead = self.lead.load(Ordering::Relaxed);
        let now = instant();
        let after = tick();

        let reading = self.nanos(before, lead);
        let ahead = reading.saturating_sub(now) > TOLERANCE;
        let drift = self.scaled(after.saturating_sub(synced)) / DRIFT;
        let behind = now.saturating_sub(self.nanos(after, lead)) > drift.saturating_add(TOLERANCE);
        // The second tick was taken when the other two existed. It may be short of them by what the
        // cores differ; `parted` relies on the bound.
        let back = after.saturating_add(self.interval) < before.max(synced);
        if ahead || behind || back {
            // As below: nothing read before goes unseen by a thread that fixes the floor.
            self.synced.fetch_max(PARTED, Ordering::AcqRel);
            return self.parted(instant());
        }

        // The interval must not begin with more lag than TOLERANCE grants its end.
        let torn = after.saturating_sub(before) >= self.interval;
        let published = if torn { synced } else { before };
        // Relaxed: published by `synced`.
        self.lead.fetch_max(now.saturating_sub(self.nanos(after, 0)), Ordering::Relaxed);
        // Releases the lead, and `now` as a reading of `Instant` that the one for the floor has to
        // come after. Acquires a parting, so that `Instant` is read after it.
        if self.synced.fetch_max(published, Ordering::AcqRel) == PARTED {
            return self.parted(instant());
        }
        // With the lead as raised, `after` reads no less than this, hence nor do later ticks.
        reading.max(now)
    }

    /// The time once parted, from a reading of `Instant` that was taken after `synced` was seen to
    /// be [`PARTED`].
    fn parted(&self, now: u64) -> u64 {
        // The floor is above every reading there has been. What a comparison returns is at most
        // TOLERANCE above its `now`, which came before the parting in the order of `synced`. A fast
        // reading has a tick less than an interval past the `synced` it saw. Its lead was `now` less
        // what the counter alone made of `after`, in some comparison, so it is ahead of that `now`
        // by no more than its tick is past that `after`:
        // - by two intervals, 1 ms, if that comparison published this `synced`, or saw it or a later
        //   one, since it would have found a tick `back` by more than one;
        // - if the lead was there when the comparison that published this `synced` began, that one
        //   found it ahead by TOLERANCE at most, which makes 1.5 ms with the interval;
        // - otherwise the two overlapped. Unless the counter jumped in between they measured the
        //   same; if it did, it raised the lead by TOLERANCE at most, so 2.5 ms, but for the race
        //   that the module's description lets be.
        // A comparison that the parting overtook may have raised the lead from a `now` after the one
        // here; by as much is its `after` later than any tick from before the parting.
        //
        // Relaxed: it is set once, and who finds 0 tries to.
        let floor = match self.floor.load(Ordering::Relaxed) {
            0 => {
                let floor = now.saturating_add(MARGIN);
                self.floor.compare_exchange(0, floor, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(floor)
            }
            floor => floor,
        };
        now.max(floor)
    }

    /// The reading at `tick` with a given lead; ticks before the start count as the start.
    fn nanos(&self, tick: u64, lead: u64) -> u64 {
        self.scaled(tick.saturating_sub(self.start_tick)).saturating_add(lead)
    }

    /// The nanoseconds that so many ticks take.
    #[inline]
    fn scaled(&self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.scale)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1_000 * MS;
    const HOUR: u64 = 3_600 * SECOND;

    /// Ticks in a nanosecond of the counters below.
    const RATE: u64 = 3;
    const START: Sample = Sample { tick: 1 << 40, nanos: 5_000 };

    /// A counter with [`RATE`] that starts at [`START`].
    fn tsc() -> Tsc {
        let first = Sample { tick: START.tick - 2 * MS * RATE, nanos: 0 };
        let last = Sample { tick: START.tick, nanos: 2 * MS };
        Tsc { lead: AtomicU64::new(START.nanos), ..Tsc::calibrated(first, last).unwrap() }
    }

    fn is_parted(tsc: &Tsc) -> bool {
        tsc.synced.load(Ordering::Relaxed) == PARTED
    }

    /// What the counter and `Instant` show, to be moved by a test.
    struct World {
        tick: Cell<u64>,
        nanos: Cell<u64>,
    }

    impl World {
        fn new() -> Self {
            Self { tick: Cell::new(START.tick), nanos: Cell::new(START.nanos) }
        }

        /// Lets time go by for both.
        fn pass(&self, nanos: u64) {
            self.jump(nanos * RATE);
            self.nanos.set(self.nanos.get() + nanos);
        }

        /// Moves the counter alone.
        fn jump(&self, ticks: u64) {
            self.tick.set(self.tick.get() + ticks);
        }

        fn jump_back(&self, ticks: u64) {
            self.tick.set(self.tick.get() - ticks);
        }

        fn read(&self, tsc: &Tsc) -> u64 {
            tsc.read(|| self.tick.get(), || self.nanos.get())
        }

        /// A reading that loses its processor before or after it reads `Instant`, or both.
        fn read_torn(&self, tsc: &Tsc, pauses: (u64, u64)) -> u64 {
            let instant = || {
                self.pass(pauses.0);
                let nanos = self.nanos.get();
                self.pass(pauses.1);
                nanos
            };
            tsc.read(|| self.tick.get(), instant)
        }
    }

    #[test]
    fn a_steady_counter_lags_less_than_a_microsecond_and_never_steps_back() {
        let (tsc, world) = (tsc(), World::new());
        let mut last = 0;
        for step in 0..200_000 {
            world.pass(step % 400);
            let now = world.read(&tsc);
            assert!(now >= last, "{now} after {last}");
            assert!(now <= world.nanos.get());
            assert!(now + 400 > world.nanos.get(), "{now} at {}", world.nanos.get());
            last = now;
        }
        assert!(!is_parted(&tsc));
    }

    #[test]
    fn within_the_interval_instant_is_not_read() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(INTERVAL - 1);
        let reading = tsc.read(|| world.tick.get(), || panic!("read Instant"));
        assert_eq!(reading, START.nanos + (INTERVAL - 1) - 300);
        world.pass(1);
        assert_eq!(world.read(&tsc), START.nanos + INTERVAL);
    }

    /// Two seconds in which `Instant` gains `ppm` on the counter, read every `step` nanoseconds.
    fn run_bent(ppm: i64, step: u64) {
        let (tsc, world) = (tsc(), World::new());
        let gain = i64::try_from(step).unwrap() * ppm / 1_000_000;
        let mut last = 0;
        for _ in 0..2 * SECOND / step {
            world.jump(step * RATE);
            world.nanos.set((world.nanos.get() + step).saturating_add_signed(gain));
            let now = world.read(&tsc);
            assert!(now >= last, "{now} after {last}");
            assert!(now <= world.nanos.get());
            assert!(now + 1_000 > world.nanos.get(), "{now} at {}", world.nanos.get());
            last = now;
        }
        assert!(!is_parted(&tsc));
    }

    #[test]
    fn follows_an_instant_that_is_slewed() {
        run_bent(500, 10_000);
        run_bent(-500, 10_000);
        run_bent(500, 20 * MS);
        run_bent(-500, 20 * MS);
    }

    #[test]
    fn an_instant_slewed_further_parts_without_a_step_back() {
        for ppm in [-100_000, -2_000, 5_000, 100_000] {
            let (tsc, world) = (tsc(), World::new());
            let mut last = 0;
            for _ in 0..1_000 {
                world.jump(2 * MS * RATE);
                world.nanos.set((world.nanos.get() + 2 * MS).saturating_add_signed(ppm * 2));
                let now = world.read(&tsc);
                assert!(now >= last, "{now} after {last}");
                assert!(now.abs_diff(world.nanos.get()) <= MARGIN);
                last = now;
            }
            assert_eq!(is_parted(&tsc), ppm < 0, "{ppm}");
        }
    }

    #[test]
    fn an_idle_hour_is_made_up_for_at_once() {
        for ppm in [-500, 0, 500] {
            let (tsc, world) = (tsc(), World::new());
            world.pass(HOUR);
            let bent = i64::try_from(HOUR).unwrap() / 1_000_000 * ppm;
            world.nanos.set(world.nanos.get().saturating_add_signed(bent));
            assert_eq!(world.read(&tsc), world.nanos.get());
            world.pass(1_000);
            assert!(world.read(&tsc) + 2 > world.nanos.get());
            assert!(!is_parted(&tsc));
        }
    }

    #[test]
    fn a_jump_forward_is_believed_by_neither_of_two_readers() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(MS);
        let first = world.read(&tsc);
        world.jump(HOUR * RATE);
        let (tick, nanos) = (world.tick.get(), world.nanos.get());
        // The second reader goes through all of its call inside the first one's.
        let second = Cell::new(None);
        let outer = tsc.read(
            || tick,
            || {
                if second.get().is_none() {
                    second.set(Some(world.read(&tsc)));
                }
                nanos
            },
        );
        for reading in [second.get().unwrap(), outer] {
            assert!(reading >= first);
            assert!(reading <= nanos + MARGIN);
        }
        assert!(is_parted(&tsc));
    }

    #[test]
    fn a_jump_in_the_middle_of_a_comparison_is_found_by_the_next() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(MS);
        let ticks = RefCell::new(vec![world.tick.get() + HOUR * RATE, world.tick.get()]);
        let reading = tsc.read(|| ticks.borrow_mut().pop().unwrap(), || world.nanos.get());
        assert_eq!(reading, world.nanos.get());
        world.jump(HOUR * RATE);
        assert!(world.read(&tsc) <= world.nanos.get() + MARGIN);
        assert!(is_parted(&tsc));
    }

    #[test]
    fn a_counter_far_back_parts() {
        for ticks in [3 * MS * RATE, 3 * SECOND * RATE] {
            let (tsc, world) = (tsc(), World::new());
            world.pass(10 * SECOND);
            let last = world.read(&tsc);
            world.jump_back(ticks);
            assert!(world.read(&tsc) > last);
            assert!(is_parted(&tsc));
        }
    }

    #[test]
    fn a_counter_that_starts_again_is_not_taken_for_one_in_time() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(SECOND);
        world.read(&tsc);
        for tick in [0, 1, START.tick - 1, START.tick, START.tick + 1] {
            world.tick.set(tick);
            assert!(world.read(&tsc) >= world.nanos.get());
            assert!(is_parted(&tsc));
        }
    }

    #[test]
    fn a_counter_that_went_back_while_idle_parts() {
        // After the jump it counts past the last comparison, so that the tick gives nothing away.
        let (tsc, world) = (tsc(), World::new());
        world.pass(10 * SECOND);
        world.read(&tsc);
        world.pass(100 * SECOND);
        world.jump_back(SECOND * RATE);
        world.read(&tsc);
        assert!(is_parted(&tsc));
    }

    #[test]
    fn a_tick_back_in_the_middle_of_a_comparison_parts() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(100 * SECOND);
        let tick = world.tick.get();
        // Drift over the idle time would explain this much.
        let ticks = RefCell::new(vec![tick - 100 * MS * RATE, tick]);
        tsc.read(|| ticks.borrow_mut().pop().unwrap(), || world.nanos.get());
        assert!(is_parted(&tsc));
    }

    #[test]
    fn a_counter_that_keeps_slipping_back_is_not_followed() {
        // Each step alone is within the tolerance.
        let (tsc, world) = (tsc(), World::new());
        world.pass(SECOND);
        world.read(&tsc);
        let tick = world.tick.get();
        for _ in 0..10 {
            world.jump_back(MS / 2 * RATE);
            world.read(&tsc);
        }
        world.tick.set(tick + MS / 4 * RATE);
        assert!(world.read(&tsc) <= world.nanos.get() + MARGIN);
        assert!(is_parted(&tsc));
    }

    #[test]
    fn cores_may_differ_by_a_few_ticks() {
        let (tsc, world) = (tsc(), World::new());
        world.jump_back(50);
        world.read(&tsc);
        for _ in 0..10_000 {
            world.pass(1_000);
            let here = world.read(&tsc);
            world.jump_back(50);
            let there = world.read(&tsc);
            assert!(here.abs_diff(there) < 400, "{here} and {there}");
            world.jump(50);
        }
        assert!(!is_parted(&tsc));
    }

    #[test]
    fn a_torn_comparison_neither_parts_nor_leads() {
        for pauses in [(SECOND, 0), (0, SECOND), (SECOND, SECOND), (100_000, 100_000)] {
            let (tsc, world) = (tsc(), World::new());
            let mut last = 0;
            for idle in [MS, HOUR, MS, INTERVAL] {
                world.pass(idle);
                let before = world.nanos.get();
                let now = world.read_torn(&tsc, pauses);
                assert!(now >= last.max(before), "{now}, {last}, {before}");
                assert!(now <= world.nanos.get());
                last = now;
                for _ in 0..10 {
                    world.pass(10);
                    let now = world.read(&tsc);
                    assert!(now >= last, "{now} after {last}");
                    assert!(now <= world.nanos.get());
                    assert!(now + INTERVAL >= world.nanos.get());
                    last = now;
                }
            }
            assert!(!is_parted(&tsc));
        }
    }

    #[test]
    fn a_late_tick_compares_and_takes_nothing_back() {
        // Its thread was paused after it, while others went on.
        for pause in [INTERVAL / 2, SECOND] {
            let (tsc, world) = (tsc(), World::new());
            world.pass(SECOND);
            let late = Cell::new(Some(world.tick.get()));
            world.pass(pause);
            let last = world.read(&tsc);
            let tick = || late.take().unwrap_or(world.tick.get());
            assert_eq!(tsc.read(tick, || world.nanos.get()), last);
            assert!(!is_parted(&tsc));
            world.pass(INTERVAL - 1);
            assert!(tsc.read(|| world.tick.get(), || panic!("read Instant")) > last);
        }
    }

    #[test]
    fn a_small_jump_forward_is_not_taken_back() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(MS);
        world.read(&tsc);
        world.jump(INTERVAL * 9 / 10 * RATE);
        let last = world.read(&tsc);
        assert!(last > world.nanos.get());
        world.jump(INTERVAL / 5 * RATE);
        assert!(world.read(&tsc) > last);
        assert!(!is_parted(&tsc));
    }

    #[test]
    fn a_counter_that_stands_still_parts() {
        // On a core whose counter is a little less as well.
        for ticks in [0, 100] {
            let (tsc, world) = (tsc(), World::new());
            world.pass(SECOND);
            world.read(&tsc);
            world.jump_back(ticks);
            world.nanos.set(world.nanos.get() + 2 * MS);
            world.read(&tsc);
            assert!(is_parted(&tsc));
        }
    }

    #[test]
    fn time_stands_still_at_its_end() {
        let tsc = Tsc { lead: AtomicU64::new(u64::MAX - 5 * MS), ..tsc() };
        let world = World::new();
        world.nanos.set(u64::MAX - 5 * MS);
        let mut last = 0;
        for _ in 0..1_000 {
            world.jump(MS / 100 * RATE);
            world.nanos.set(world.nanos.get().saturating_add(MS / 100));
            let now = world.read(&tsc);
            assert!(now >= last, "{now} after {last}");
            last = now;
        }
        assert_eq!(last, u64::MAX);
        assert!(!is_parted(&tsc));
        world.tick.set(0);
        assert_eq!(world.read(&tsc), u64::MAX);
    }

    #[test]
    fn a_floor_past_the_end_of_time_is_the_end() {
        let tsc = Tsc { lead: AtomicU64::new(u64::MAX - MS), ..tsc() };
        assert_eq!(tsc.read(|| 0, || u64::MAX - MS + 5), u64::MAX);
        assert!(is_parted(&tsc));
    }

    #[test]
    fn a_comparison_overtaken_by_a_parting_reads_instant_again() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(SECOND);
        let calls = Cell::new(0);
        let instant = || {
            if calls.replace(calls.get() + 1) == 0 {
                // Another thread sees the counter ahead, and parts.
                let nanos = world.nanos.get();
                let parted = tsc.read(|| world.tick.get() + HOUR, || nanos);
                assert_eq!(parted, nanos + MARGIN);
            }
            world.nanos.get()
        };
        let reading = tsc.read(|| world.tick.get(), instant);
        assert_eq!(reading, world.nanos.get() + MARGIN);
        assert_eq!(calls.get(), 2);
        assert!(is_parted(&tsc));
    }

    #[test]
    fn parted_is_instant_for_good_once_it_has_reached_the_floor() {
        let (tsc, world) = (tsc(), World::new());
        world.pass(MS);
        // The most that a reading can be ahead without being caught: jumps of less than an interval.
        let mut most = world.read(&tsc);
        for _ in 0..6 {
            world.jump(INTERVAL * RATE - 1);
            most = most.max(world.read(&tsc));
        }
        assert!(is_parted(&tsc));
        let floor = world.nanos.get() + MARGIN;
        assert!(most <= floor);
        for _ in 0..10 {
            world.pass(MS);
            // Not even a counter that is right again is believed.
            let calls = Cell::new(0);
            let instant = || {
                calls.set(calls.get() + 1);
                world.nanos.get()
            };
            let now = tsc.read(|| world.tick.get(), instant);
            assert_eq!((now, calls.get()), (world.nanos.get().max(floor), 1));
        }
        assert!(world.nanos.get() > floor);
    }

    #[test]
    fn no_tick_or_instant_panics() {
        const EXTREMES: [u64; 8] = [0, 1, START.tick, u64::MAX / 2, 1 << 63, u64::MAX - 1, u64::MAX, 7];
        for before in EXTREMES {
            for now in EXTREMES {
                for after in EXTREMES {
                    let tsc = tsc();
                    for _ in 0..3 {
                        let ticks = RefCell::new(vec![after, before]);
                        tsc.read(|| ticks.borrow_mut().pop().unwrap(), || now);
                    }
                }
            }
        }
    }

    #[test]
    fn whatever_a_counter_was_calibrated_by_nothing_wraps() {
        const EXTREMES: [u64; 8] = [0, 1, 2, 500_000, 1 << 32, u64::MAX / 2, u64::MAX - 1, u64::MAX];
        let pairs = || EXTREMES.into_iter().flat_map(|tick| EXTREMES.map(|nanos| Sample { tick, nanos }));
        for (first, last) in pairs().flat_map(|first| pairs().map(move |last| (first, last))) {
            let Some(tsc) = Tsc::calibrated(first, last) else { continue };
            let mut latest = last.nanos;
            for ticks in [0, 1, tsc.interval.saturating_sub(1), tsc.interval, u64::MAX] {
                let now = tsc.read(|| last.tick.saturating_add(ticks), || last.nanos);
                assert!(now >= latest, "{now} after {latest}: {first:?} {last:?}");
                assert!(now <= last.nanos.saturating_add(MARGIN), "{now}: {first:?} {last:?}");
                latest = now;
            }
        }
    }

    #[test]
    fn a_tick_like_the_mark_of_parting_is_read_by_instant() {
        let (tsc, world) = (tsc(), World::new());
        world.tick.set(u64::MAX);
        assert_eq!(world.read(&tsc), START.nanos + MARGIN);
        assert_eq!(world.read(&tsc), START.nanos + MARGIN);
    }

    #[test]
    fn calibration_refuses_what_is_no_counter() {
        let sample = |tick, nanos| Sample { tick, nanos };
        let refused = [
            (sample(5, 5), sample(5, 9)),
            (sample(5, 5), sample(9, 5)),
            (sample(5, 5), sample(4, 9)),
            (sample(5, 5), sample(9, 4)),
            // An interval of more ticks than fit.
            (sample(0, 0), sample(u64::MAX, 1)),
            // Half a tick a nanosecond.
            (sample(0, 0), sample(MS, 2 * MS)),
        ];
        for (first, last) in refused {
            assert!(Tsc::calibrated(first, last).is_none(), "{first:?} {last:?}");
        }
        assert!(Tsc::calibrated(sample(0, 0), sample(u64::MAX, u64::MAX)).is_some());
    }

    #[test]
    fn a_sample_is_the_tightest_of_a_few() {
        let (tick, brackets) = (Cell::new(0), Cell::new(0));
        let instant = || {
            let bracket = brackets.replace(brackets.get() + 1);
            tick.set(tick.get() + if bracket == 5 { 2 } else { 100 });
            bracket
        };
        let sample = Sample::take(|| tick.get(), instant);
        assert_eq!((sample.tick, sample.nanos), (502, 5));
    }

    /// Steps of a scale that matters: within an interval, about the tolerance, far, or anything.
    fn steps() -> impl Strategy<Value = u64> {
        prop_oneof![
            8 => 0..200_u64,
            8 => 0..2 * MS,
            2 => (INTERVAL - 2)..(INTERVAL + 2),
            2 => (TOLERANCE - 2)..(TOLERANCE + 2),
            1 => 0..HOUR,
            1 => any::<u64>(),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// Whatever the counter does, also in the middle of a reading.
        #[test]
        fn no_reading_is_far_ahead_of_instant(
            script in prop::collection::vec(
                (prop_oneof![3 => Just(true), 1 => Just(false)], steps(), steps(), any::<[bool; 2]>()),
                1..60,
            )
        ) {
            let (tsc, world) = (tsc(), World::new());
            let latest = Cell::new(START.nanos);
            for (together, ticks, nanos, back) in script {
                let shift = |back: bool, ticks: u64| {
                    let tick = world.tick.get();
                    world.tick.set(match back {
                        true => tick.saturating_sub(ticks),
                        false => tick.saturating_add(ticks),
                    });
                };
                world.nanos.set(world.nanos.get().saturating_add(nanos));
                shift(false, nanos.saturating_mul(RATE));
                if !together {
                    shift(back[0], ticks);
                }
                let instant = || {
                    latest.set(world.nanos.get());
                    if back[1] {
                        shift(back[0], ticks);
                    }
                    latest.get()
                };
                let now = tsc.read(|| world.tick.get(), instant);
                let bound = if is_parted(&tsc) { MARGIN } else { TOLERANCE + INTERVAL };
                prop_assert!(now <= latest.get().saturating_add(bound), "{} at {}", now, latest.get());
            }
        }

        /// Whatever the rates of the counter and of `Instant`, if neither goes back.
        #[test]
        fn readings_in_sequence_never_step_back(
            script in prop::collection::vec((steps(), steps(), steps(), steps(), any::<bool>()), 1..60)
        ) {
            let (tsc, world) = (tsc(), World::new());
            let pass = |ticks: u64, nanos: u64| {
                world.tick.set(world.tick.get().saturating_add(ticks));
                world.nanos.set(world.nanos.get().saturating_add(nanos));
            };
            let mut last = 0;
            for (ticks, nanos, before, after, true_rate) in script {
                pass(if true_rate { nanos.saturating_mul(RATE) } else { ticks }, nanos);
                let now = tsc.read(
                    || world.tick.get(),
                    || {
                        pass(before.saturating_mul(RATE), before);
                        let now = world.nanos.get();
                        pass(after.saturating_mul(RATE), after);
                        now
                    },
                );
                prop_assert!(now >= last, "{} after {}", now, last);
                last = now;
            }
        }
    }
}

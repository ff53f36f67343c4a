//! Clocks: no thread sees time go back, or far from what it is, whatever the counter does and whoever compares it.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom::sync::atomic::{AtomicU64 as Time, Ordering};
use loom_tests::*;
use std::sync::Arc;
use tollgate::Clock;
use tollgate::model::{Sample, Timeline, Tsc};

const MS: u64 = 1_000_000;
const HOUR: u64 = 3_600_000 * MS;
const ORIGIN: u64 = 10 * HOUR;
/// Ticks a nanosecond.
const RATE: u64 = 3;
/// How far ahead of `Instant` a reading may be once the counter was found wrong.
const MARGIN: u64 = 3 * MS;

/// The true time, which every look at it moves on; and a counter that does with it what it likes. Looking is one relaxed
/// read-modify-write, which orders nothing else.
struct World {
    time: Time,
    step: u64,
    counter: fn(u64) -> u64,
}

impl World {
    fn now(&self) -> u64 {
        self.time.fetch_add(self.step, Ordering::Relaxed) + self.step
    }
}

/// Two threads read the time twice each, `start` after the calibration.
fn read_by_two_threads(name: &str, start: u64, step: u64, lag: u64, counter: fn(u64) -> u64) {
    read_by_two_threads_and_wait(name, start, step, 0, lag, counter);
}

/// The same where each thread waits at its end, while the other may be in the midst of a reading.
fn read_by_two_threads_and_wait(name: &str, start: u64, step: u64, wait: u64, lag: u64, counter: fn(u64) -> u64) {
    model(name, move || {
        let before = Sample { tick: (ORIGIN - 2 * MS) * RATE, nanos: ORIGIN - 2 * MS };
        let tsc = Tsc::calibrated(before, Sample { tick: ORIGIN * RATE, nanos: ORIGIN }).unwrap();
        let world = World { time: Time::new(ORIGIN + start), step, counter };
        let shared = Arc::new((tsc, world));
        let reader = |shared: Arc<(Tsc, World)>| {
            move || {
                let (tsc, world) = &*shared;
                let mut last = 0;
                for _ in 0..2 {
                    let earliest = world.now();
                    let reading = tsc.read(|| (world.counter)(world.now()), || world.now());
                    let latest = world.now();
                    assert!(reading >= last, "{reading} after {last}");
                    assert!(reading + lag >= earliest, "{reading} is late for {earliest}");
                    assert!(reading <= latest + MARGIN, "{reading} is early for {latest}");
                    last = reading;
                }
                if wait > 0 {
                    world.time.fetch_add(wait, Ordering::Relaxed);
                }
            }
        };
        race(reader(shared.clone()), reader(shared));
    });
}

fn steady(time: u64) -> u64 {
    time * RATE
}

/// In the midst of the model the counter jumps.
fn jumps(time: u64, by: i64) -> u64 {
    let midst = ORIGIN + MS + 5_000;
    if time > midst { steady(time.saturating_add_signed(by)) } else { steady(time) }
}

#[test]
fn a_steady_counter_is_corrected_and_never_goes_back() {
    read_by_two_threads("a_steady_counter_is_corrected_and_never_goes_back", MS, 100_000, MS, steady);
}

#[test]
fn a_counter_that_nobody_read_for_an_hour_is_caught_up_with() {
    read_by_two_threads("a_counter_that_nobody_read_for_an_hour_is_caught_up_with", HOUR, 1_000, MS, steady);
}

#[test]
fn a_counter_that_jumps_ahead_is_left() {
    let hour = |time| jumps(time, HOUR as i64);
    read_by_two_threads("a_counter_that_jumps_ahead_is_left", MS, 1_000, MS, hour);
}

#[test]
fn a_comparison_that_a_parting_overtakes_is_dropped() {
    // Ahead from the start, by more than the margin of the floor. One thread may find that out, and time come so near the
    // counter's, between the tick of the other's comparison and its `Instant`, that to this one the counter seems right.
    let ahead = |time| steady(time + 4 * MS);
    let name = "a_comparison_that_a_parting_overtakes_is_dropped";
    read_by_two_threads_and_wait(name, MS, 100_000, 2_200_000, MS, ahead);
}

#[test]
fn a_counter_that_falls_back_is_left() {
    let hour = |time| jumps(time, -(HOUR as i64));
    read_by_two_threads("a_counter_that_falls_back_is_left", MS, 1_000, MS, hour);
}

#[test]
fn a_counter_that_slips_a_little_too_far_is_left() {
    let slip = |time| jumps(time, -((MS + MS / 10) as i64));
    read_by_two_threads("a_counter_that_slips_a_little_too_far_is_left", MS, 1_000, 2 * MS, slip);
}

/// A clock that steps back every other time it is read.
struct Unsteady(Time);

impl Clock for Unsteady {
    fn now(&self) -> u64 {
        let reading = self.0.fetch_add(1, Ordering::Relaxed);
        if reading.is_multiple_of(2) { reading + 10 } else { reading }
    }
}

#[test]
fn a_clock_that_steps_back_stands_still() {
    model("a_clock_that_steps_back_stands_still", move || {
        let timeline = Arc::new(Timeline::new(Unsteady(Time::new(0))));
        let other = timeline.clone();
        let reader = |timeline: Arc<Timeline<Unsteady>>| move || (timeline.now(), timeline.now());
        let (a, b) = race(reader(timeline.clone()), reader(other));
        assert!(a.0 <= a.1 && b.0 <= b.1);
        assert!(timeline.now() >= a.1.max(b.1));
    });
}

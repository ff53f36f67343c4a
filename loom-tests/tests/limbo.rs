//! How a thread learns that the logs which it has replaced are its own again.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom::cell::UnsafeCell;
use loom_tests::*;
use std::sync::Arc;
use tollgate::model::Limbo;

/// A log, of which loom reports a write that may race with a read.
struct Log(UnsafeCell<u64>);

// SAFETY: loom finds out whether it is used rightly.
unsafe impl Sync for Log {}

impl Log {
    fn new() -> Arc<Self> {
        Arc::new(Self(UnsafeCell::new(0)))
    }

    fn read(&self) -> u64 {
        // SAFETY: as above.
        self.0.with(|log| unsafe { *log })
    }

    fn write(&self) {
        // SAFETY: as above.
        self.0.with_mut(|log| unsafe { *log += 1 });
    }
}

#[test]
fn a_log_is_written_over_after_its_readers_are_done() {
    let seen = Seen::default();
    let outcomes = seen.clone();
    model("a_log_is_written_over_after_its_readers_are_done", move || {
        let logs = [Log::new(), Log::new()];
        let mut limbo = Limbo::new();
        let [first, second] = [0, 1].map(|log| {
            limbo.push(log);
            limbo.passage().expect("there is a new log")
        });
        // The second passage opens when the readers of both are done, and the first one at any time after that of its own.
        let early = loom::thread::spawn(move || first.open());
        let reader = logs[1].clone();
        let late = loom::thread::spawn(move || {
            let _ = reader.read();
            second.open();
        });
        let mut popped = 0;
        while let Some(log) = limbo.pop() {
            logs[log as usize].write();
            popped += 1;
        }
        outcomes.add(popped);
        early.join().unwrap();
        late.join().unwrap();
        while let Some(log) = limbo.pop() {
            logs[log as usize].write();
            popped += 1;
        }
        assert_eq!(popped, 2, "logs that nobody reads");
    });
    seen.are([0, 1, 2]);
}

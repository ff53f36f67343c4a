//! Why the engine's atomics carry a shadow in the models: without it, loom misses outcomes that happen.
#![cfg(all(tollgate_loom, not(crossbeam_loom)))]

use loom::sync::atomic::{AtomicU64 as Bare, Ordering};
use loom_tests::{Seen, model, race};
use std::sync::Arc;
use tollgate::model::sync::AtomicU64 as Shadowed;

/// {load a; load b} against {load b; CAS b; load a; CAS a}.
macro_rules! outcomes {
    ($atomic:ty, $name:literal) => {{
        let seen = Seen::default();
        let outcomes = seen.clone();
        model($name, move || {
            let cells: Arc<[$atomic; 2]> = Arc::new(std::array::from_fn(|_| <$atomic>::new(0)));
            let writer = cells.clone();
            let ((), read) = race(
                move || {
                    for cell in [&writer[1], &writer[0]] {
                        let value = cell.load(Ordering::Acquire);
                        let _ = cell.compare_exchange(value, 1, Ordering::AcqRel, Ordering::Acquire);
                    }
                },
                move || (cells[0].load(Ordering::Acquire), cells[1].load(Ordering::Acquire)),
            );
            outcomes.add(read);
        });
        seen
    }};
}

#[test]
fn the_shadow_sees_every_outcome() {
    outcomes!(Shadowed, "the_shadow_sees_every_outcome").are([(0, 0), (0, 1), (1, 1)]);
}

#[test]
#[should_panic = "outcomes seen"]
fn loom_alone_misses_some() {
    // Should this fail one day, loom has learned to see them, and the shadow can go.
    outcomes!(Bare, "loom_alone_misses_some").are([(0, 0), (0, 1), (1, 1)]);
}

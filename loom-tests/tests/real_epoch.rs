//! The core on the real crossbeam-epoch, whose own atomics loom explores too: `--cfg crossbeam_loom`.
#![cfg(all(tollgate_loom, crossbeam_loom))]

use loom_tests::*;

const NOW: u64 = 10;

#[test]
fn a_charge_meets_the_swing_on_the_real_epoch() {
    model("a_charge_meets_the_swing_on_the_real_epoch", move || {
        let map = buckets(2);
        assert!(charge(&map, client(0), NOW));
        map.start_migration(&map.pin(), NOW);
        map.help_once(&map.pin());
        let (a, b) = (map.clone(), map.clone());
        let ((), ()) = race(
            move || {
                let (payload, now) = a.peek(a.locate(&a.pin(), client(0)), NOW);
                use tollgate::Answers;
                assert_eq!(bucket(2).remaining(payload, now), 1);
            },
            move || b.help_once(&b.pin()),
        );
        assert_eq!(map.generation(), 1);
    });
}

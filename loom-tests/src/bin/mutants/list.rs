//! The mutations, by the file that they change.

use super::Mutation;

const WORD: &str = "src/map/word.rs";
const SLOT: &str = "src/map/slot.rs";
const TABLE: &str = "src/map/table.rs";
const ROOM: &str = "src/map/room.rs";
const MAP: &str = "src/map.rs";
const BATCH: &str = "src/map/batch.rs";
const MIGRATION: &str = "src/map/migration.rs";
const GRAVEYARD: &str = "src/map/graveyard.rs";
const TOGETHER: &str = "src/all_or_nothing.rs";
const TSC: &str = "src/clock/tsc.rs";
const TIMELINE: &str = "src/clock/timeline.rs";
const BUCKET: &str = "src/algorithm/token_bucket.rs";
const LOG: &str = "src/algorithm/sliding_log.rs";
const LIMBO: &str = "src/algorithm/sliding_log/limbo.rs";
const WINDOWS: &str = "src/algorithm/windows.rs";
const FIXED: &str = "src/algorithm/fixed_window.rs";
const COUNTER: &str = "src/algorithm/sliding_counter.rs";

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "word: apply loads relaxed",
        file: WORD,
        text: r#"let mut word = self.0.load(Ordering::Acquire);"#,
        with: r#"let mut word = self.0.load(Ordering::Relaxed);"#,
        models: &["payload::a_payload_that_is_read_once_is_whole"],
    },
    Mutation {
        name: "word: apply publishes relaxed",
        file: WORD,
        text: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.0.compare_exchange(word, payload, Ordering::Relaxed, Ordering::Acquire)"#,
        models: &["payload::a_payload_that_is_read_once_is_whole"],
    },
    Mutation {
        name: "word: apply fails relaxed",
        file: WORD,
        text: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Relaxed)"#,
        models: &["payload::a_payload_that_is_read_is_whole"],
    },
    Mutation {
        name: "word: apply overwrites what it has not seen",
        file: WORD,
        text: r#"match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {"#,
        with: r#"match { self.0.store(payload, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["word::charges_of_two_threads_never_exceed_the_bucket"],
    },
    Mutation {
        name: "word: apply answers from a moved word",
        file: WORD,
        text: r#"            if word & MOVED != 0 {
                return Applied::Moved;"#,
        with: r#"            if false {
                return Applied::Moved;"#,
        models: &["migration::a_late_helper_undoes_no_refund", "migration::a_charge_meets_the_swing", "migration"],
    },
    Mutation {
        name: "word: apply reads the log of a moved word",
        file: WORD,
        text: r#"            if word & MOVED != 0 {
                return Applied::Moved;"#,
        with: r#"            if false {
                return Applied::Moved;"#,
        models: &["payload::a_payload_that_is_moved_is_whole", "payload"],
    },
    Mutation {
        name: "word: apply writes to a frozen word",
        file: WORD,
        text: r#"Step::Write(payload, _) if word & FROZEN != 0 => {"#,
        with: r#"Step::Write(payload, _) if false => {"#,
        models: &["migration::a_charge_meets_the_move"],
    },
    Mutation {
        name: "word: freeze acquires nothing",
        file: WORD,
        text: r#"self.0.fetch_or(FROZEN, Ordering::AcqRel)"#,
        with: r#"self.0.fetch_or(FROZEN, Ordering::Release)"#,
        models: &["payload::a_payload_that_is_moved_is_whole", "payload"],
    },
    Mutation {
        name: "word: freeze releases nothing",
        file: WORD,
        text: r#"self.0.fetch_or(FROZEN, Ordering::AcqRel)"#,
        with: r#"self.0.fetch_or(FROZEN, Ordering::Acquire)"#,
        models: &[
            "migration::a_charge_meets_the_move",
            "payload::a_payload_that_is_moved_is_whole",
            "payload::a_payload_that_was_moved_by_another_is_whole",
        ],
    },
    Mutation {
        name: "word: freeze takes a moved word for a frozen one",
        file: WORD,
        text: r#"            return Frozen::Moved { kept: word & PAYLOAD_MAX != 0 };"#,
        with: r#""#,
        models: &["payload::two_helpers_drop_a_log_once", "payload::two_helpers_take_a_log_along_once"],
    },
    Mutation {
        name: "word: install overwrites",
        file: WORD,
        text: r#"let _ = self.0.compare_exchange(0, payload, Ordering::Relaxed, Ordering::Relaxed);"#,
        with: r#"self.0.store(payload, Ordering::Relaxed);"#,
        models: &["migration::a_late_helper_undoes_no_refund"],
    },
    Mutation {
        name: "word: moved is set relaxed",
        file: WORD,
        text: r#"self.0.compare_exchange(frozen, moved, Ordering::Release, Ordering::Relaxed).is_ok()"#,
        with: r#"self.0.compare_exchange(frozen, moved, Ordering::Relaxed, Ordering::Relaxed).is_ok()"#,
        models: &["payload::a_payload_that_was_moved_by_another_is_whole", "migration::a_charge_meets_the_move"],
    },
    Mutation {
        name: "word: a log is freed though it was published",
        file: WORD,
        text: r#"                            pointees.retire(seen);
"#,
        with: r#"                            pointees.retire(seen);
                            pointees.discard(payload);
"#,
        models: &["payload::a_payload_that_is_read_once_is_whole"],
    },
    Mutation {
        name: "word: a log that met a frozen word is not freed",
        file: WORD,
        text: r#"                    pointees.discard(payload);
                    return Applied::Frozen;"#,
        with: r#"                    return Applied::Frozen;"#,
        models: &["payload::a_payload_that_is_moved_is_whole"],
    },
    Mutation {
        name: "word: a log that lost the race is not freed",
        file: WORD,
        text: r#"                            pointees.discard(payload);
                            word = actual;"#,
        with: r#"                            word = actual;"#,
        models: &["payload::a_payload_that_is_read_is_whole"],
    },
    Mutation {
        name: "word: a log is retired before it is replaced",
        file: WORD,
        text: r#"                    match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {
                            pointees.retire(seen);"#,
        with: r#"                    pointees.retire(seen);
                    match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {
                        Ok(_) => {"#,
        models: &["payload::a_log_is_reached_by_nobody_who_pins_after_its_retirement"],
    },
    Mutation {
        name: "word: a log that was replaced is freed at once",
        file: WORD,
        text: r#"                            pointees.retire(seen);
"#,
        with: r#"                            pointees.discard(seen);
"#,
        models: &["payload::a_log_outlives_its_retirement_for_those_who_pinned_before"],
    },
    Mutation {
        name: "word: a log that was replaced is not retired",
        file: WORD,
        text: r#"                            pointees.retire(seen);
"#,
        with: r#""#,
        models: &["payload::a_payload_that_is_read_once_is_whole"],
    },
    Mutation {
        name: "word: the mark leaves the payload there",
        file: WORD,
        text: r#"FROZEN | MOVED | u64::from(kept)"#,
        with: r#"FROZEN | MOVED | payload"#,
        models: &["payload::two_helpers_drop_a_log_once"],
    },
    Mutation {
        name: "word: the mark says dropped of a log that was kept",
        file: WORD,
        text: r#"FROZEN | MOVED | u64::from(kept)"#,
        with: r#"{ let _ = kept; FROZEN | MOVED }"#,
        models: &["payload::two_helpers_take_a_log_along_once"],
    },
    Mutation {
        name: "word: the mark says kept of a log that was dropped",
        file: WORD,
        text: r#"FROZEN | MOVED | u64::from(kept)"#,
        with: r#"FROZEN | MOVED | 1"#,
        models: &["payload::two_helpers_drop_a_log_once"],
    },
    Mutation {
        name: "slot: owner loads relaxed",
        file: SLOT,
        text: r#"Owner::of(self.fingerprint.load(Ordering::Acquire))"#,
        with: r#"Owner::of(self.fingerprint.load(Ordering::Relaxed))"#,
        models: &[
            "migration::a_new_client_meets_the_move",
            "migration::a_new_client_meets_the_swing",
            "migration::a_new_client_meets_the_start",
        ],
    },
    Mutation {
        name: "slot: seal publishes relaxed",
        file: SLOT,
        text: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Relaxed, Ordering::Acquire)"#,
        models: &[
            "migration::a_new_client_meets_the_move",
            "migration::a_new_client_meets_the_swing",
            "migration::a_new_client_meets_the_start",
        ],
    },
    Mutation {
        name: "slot: a lost claim reads relaxed",
        file: SLOT,
        text: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Relaxed)"#,
        models: &[
            "migration::a_new_client_meets_the_move",
            "migration::a_new_client_meets_the_swing",
            "migration::a_new_client_meets_the_start",
        ],
    },
    Mutation {
        name: "slot: a claim takes whatever slot",
        file: SLOT,
        text: r#"match self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire) {"#,
        with: r#"match { self.fingerprint.store(new, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["claim::two_clients_that_collide_get_a_slot_each", "claim", "migration"],
    },
    Mutation {
        name: "table: next loads relaxed",
        file: TABLE,
        text: r#"let next = self.next.load(Ordering::Acquire);
        guard.reach(next);"#,
        with: r#"let next = self.next.load(Ordering::Relaxed);
        guard.reach(next);"#,
        models: &["migration::two_threads_start_one_migration", "migration::a_new_client_meets_the_start"],
    },
    Mutation {
        name: "table: next is published relaxed",
        file: TABLE,
        text: r#"compare_exchange(std::ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed)"#,
        with: r#"compare_exchange(std::ptr::null_mut(), next, Ordering::Relaxed, Ordering::Relaxed)"#,
        models: &["migration::two_threads_start_one_migration", "migration::a_new_client_meets_the_start"],
    },
    Mutation {
        name: "table: next is published twice",
        file: TABLE,
        text: r#"match self.next.compare_exchange(std::ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed) {"#,
        with: r#"match { self.next.store(next, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["migration::two_threads_start_one_migration"],
    },
    Mutation {
        name: "progress: a finished chunk is seen relaxed",
        file: TABLE,
        text: r#"done.load(Ordering::Acquire).trailing_ones()"#,
        with: r#"done.load(Ordering::Relaxed).trailing_ones()"#,
        models: &["migration::a_swing_has_seen_what_others_moved", "migration", "payload"],
    },
    Mutation {
        name: "progress: a chunk is finished relaxed",
        file: TABLE,
        text: r#"self.done[chunk / 64].fetch_or(bit, Ordering::Release)"#,
        with: r#"self.done[chunk / 64].fetch_or(bit, Ordering::Relaxed)"#,
        models: &["migration::a_swing_has_seen_what_others_moved", "migration", "payload"],
    },
    Mutation {
        name: "progress: the last account acquires nothing",
        file: TABLE,
        text: r#"self.counted.fetch_add(1, Ordering::AcqRel)"#,
        with: r#"self.counted.fetch_add(1, Ordering::Release)"#,
        models: &[
            "migration::a_swing_has_seen_what_others_moved",
            "whole::a_log_meets_a_whole_migration",
            "migration",
            "payload",
        ],
    },
    Mutation {
        name: "progress: an account releases nothing",
        file: TABLE,
        text: r#"self.counted.fetch_add(1, Ordering::AcqRel)"#,
        with: r#"self.counted.fetch_add(1, Ordering::Acquire)"#,
        models: &[
            "migration::a_swing_has_seen_what_others_moved",
            "whole::a_log_meets_a_whole_migration",
            "migration",
            "payload",
        ],
    },
    Mutation {
        name: "progress: a chunk begun is as good as finished",
        file: TABLE,
        text: r#"        // Acquire, twice: pairs"#,
        with: r#"        if true { return None; }
        // Acquire, twice: pairs"#,
        models: &["migration::two_helpers_swing_once", "migration"],
    },
    Mutation {
        name: "map: root loads relaxed",
        file: MAP,
        text: r#"let root = self.root.load(Ordering::Acquire);
        guard.reach(root);"#,
        with: r#"let root = self.root.load(Ordering::Relaxed);
        guard.reach(root);"#,
        models: &["whole::a_peek_meets_a_whole_migration"],
    },
    Mutation {
        name: "map: an empty slot of the old table is not sealed",
        file: MAP,
        text: r#"(Some(next), Absent::Claim) => match slot.seal() {"#,
        with: r#"(Some(next), Absent::Claim) => match Ok::<(), slot::Owner>(()) {"#,
        models: &["migration::a_new_client_is_not_claimed_in_both_tables"],
    },
    Mutation {
        name: "map: a frozen word is left behind",
        file: MAP,
        text: r#"Applied::Frozen => table.next(guard).inspect(|next| {
                        self.carry(guard, slot, client, next, || next.touch(client));
                    }),"#,
        with: r#"Applied::Frozen => table.next(guard),"#,
        models: &["migration::nobody_waits_for_a_helper_that_has_frozen", "migration"],
    },
    Mutation {
        name: "map: the floor is forgotten by those who go from table to table",
        file: MAP,
        text: r#"let at = now.max(table.birth().floor);"#,
        with: r#"let at = now;"#,
        models: &["migration::dropping_an_idle_client_changes_no_answer"],
    },
    Mutation {
        name: "map: the floor is forgotten by those who start at the root",
        file: TABLE,
        text: r#"!self.is_due(now) && now >= self.birth().floor"#,
        with: r#"!self.is_due(now)"#,
        models: &["migration::a_floor_never_goes_back"],
    },
    Mutation {
        name: "batch: a found client needs no quiet table",
        file: BATCH,
        text: r#"let is_quiet = table.is_quiet(now) && self.shared.is_none();"#,
        with: r#"let is_quiet = self.shared.is_none();"#,
        models: &["batch::a_batch_goes_by_the_floor"],
    },
    Mutation {
        name: "batch: a client without a payload gets a fresh bucket where others share one",
        file: BATCH,
        text: r#"let is_quiet = table.is_quiet(now) && self.shared.is_none();"#,
        with: r#"let is_quiet = table.is_quiet(now);"#,
        models: &["batch::a_batch_gives_no_fresh_bucket_where_clients_share_one"],
    },
    Mutation {
        name: "map: claims need no room",
        file: MAP,
        text: r#"(None, Absent::Claim) if table.room.take() => {"#,
        with: r#"(None, Absent::Claim) if { table.room.take(); true } => {"#,
        models: &["claim::a_full_map_refuses_new_clients_and_keeps_the_old", "claim"],
    },
    Mutation {
        name: "map: a lost claim keeps its credit",
        file: MAP,
        text: r#"                            table.room.give(1);"#,
        with: r#""#,
        models: &["claim::two_threads_that_bring_one_new_client_share_its_slot", "claim"],
    },
    Mutation {
        name: "map: new clients forget what those without a place share",
        file: MAP,
        text: r#"word.apply::<A, _>(&Pointees::under(guard), Step::Keep).never_frozen()"#,
        with: r#"{ let _ = word; 0 }"#,
        models: &["claim::a_client_that_gets_a_place_starts_from_what_those_without_have_left"],
    },
    Mutation {
        name: "map: what clients hold at the end is not freed",
        file: MAP,
        text: r#"unsafe { A::free(word.take()) };"#,
        with: r#"word.take();"#,
        models: &["payload::a_payload_that_is_read_once_is_whole"],
    },
    Mutation {
        name: "map: a log written on trial is not freed",
        file: MAP,
        text: r#"                Pointees::<A>::under(guard).discard(payload);
                None"#,
        with: r#"                let _ = (guard, payload);
                None"#,
        models: &["payload::a_log_that_is_shared_is_copied_and_not_handed_on"],
    },
    Mutation {
        name: "migration: the room is left open",
        file: MIGRATION,
        text: r#"table.room.close().min(birth.limit)"#,
        with: r#"table.room.left().min(birth.limit)"#,
        models: &[
            "claim::claims_beyond_the_table_grow_it_and_lose_nobody",
            "migration::a_new_client_meets_the_start",
            "whole::a_new_client_meets_a_whole_migration",
            "claim",
            "migration",
        ],
    },
    Mutation {
        name: "migration: no places are set aside",
        file: MIGRATION,
        text: r#"self.sizes.limit(slots), spent, floor,"#,
        with: r#"self.sizes.limit(slots), 0, floor,"#,
        models: &["migration::a_charge_meets_the_start", "claim"],
    },
    Mutation {
        name: "migration: the floor lies in the past",
        file: MIGRATION,
        text: r#"let floor = birth.floor.max(now);"#,
        with: r#"let floor = birth.floor;"#,
        models: &["migration::dropping_an_idle_client_changes_no_answer", "migration::a_floor_never_goes_back"],
    },
    Mutation {
        name: "migration: the floor goes back",
        file: MIGRATION,
        text: r#"let floor = birth.floor.max(now);"#,
        with: r#"let floor = now;"#,
        models: &["migration::a_floor_never_goes_back"],
    },
    Mutation {
        name: "migration: live clients are dropped",
        file: MIGRATION,
        text: r#"let kept = self.is_kept(payload, next);"#,
        with: r#"let kept = false;"#,
        models: &["migration::a_charge_meets_the_move"],
    },
    Mutation {
        name: "migration: a client is idle a nanosecond early",
        file: MIGRATION,
        text: r#"self.algorithm.is_idle(payload, next.birth().floor)"#,
        with: r#"self.algorithm.is_idle(payload, next.birth().floor + 1)"#,
        models: &["migration::a_charge_meets_the_move", "log::nobody_waits_for_a_helper_that_has_begun_a_log"],
    },
    Mutation {
        name: "migration: empty slots stay open",
        file: MIGRATION,
        text: r#"Owner::Nobody => match slot.seal() {"#,
        with: r#"Owner::Nobody => match Ok::<(), Owner>(()) {"#,
        models: &["whole::a_new_client_meets_a_whole_migration"],
    },
    Mutation {
        name: "migration: marked before it is installed",
        file: MIGRATION,
        text: r#"        if kept {
            Self::install(client, payload, next);
        }
        if slot.word"#,
        with: r#"        let first = slot.word.mark_moved(payload, kept);
        if kept {
            Self::install(client, payload, next);
        }
        if first || slot.word"#,
        models: &["migration::a_charge_meets_the_move"],
    },
    Mutation {
        name: "migration: a log that was kept is retired",
        file: MIGRATION,
        text: r#"if slot.word.mark_moved(payload, kept) && !kept {"#,
        with: r#"if slot.word.mark_moved(payload, kept) {"#,
        models: &["payload::two_helpers_take_a_log_along_once"],
    },
    Mutation {
        name: "migration: a log that was dropped is not retired",
        file: MIGRATION,
        text: r#"if slot.word.mark_moved(payload, kept) && !kept {"#,
        with: r#"let _ = slot.word.mark_moved(payload, kept);
        if false {"#,
        models: &["payload::two_helpers_drop_a_log_once"],
    },
    Mutation {
        name: "migration: a log is retired by each who finds it dropped",
        file: MIGRATION,
        text: r#"if slot.word.mark_moved(payload, kept) && !kept {"#,
        with: r#"let _ = slot.word.mark_moved(payload, kept);
        if !kept {"#,
        models: &["payload::two_helpers_drop_a_log_once"],
    },
    Mutation {
        name: "migration: each helper accounts for a chunk",
        file: MIGRATION,
        text: r#"if !table.progress.finish(chunk) {
            return 0;"#,
        with: r#"table.progress.finish(chunk);
        if false {
            return 0;"#,
        models: &["migration::two_helpers_move_a_chunk_once", "migration"],
    },
    Mutation {
        name: "migration: swung before the end",
        file: MIGRATION,
        text: r#"            Some(chunk) => self.move_chunk(guard, table, chunk, next),"#,
        with: r#"            Some(chunk) => {
                let dropped = self.move_chunk(guard, table, chunk, next);
                self.swing(guard, table, next);
                dropped
            }"#,
        models: &["migration::a_new_client_meets_the_move", "migration"],
    },
    Mutation {
        name: "migration: swung relaxed",
        file: MIGRATION,
        text: r#"self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)"#,
        with: r#"self.root.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)"#,
        models: &["whole::a_peek_meets_a_whole_migration"],
    },
    Mutation {
        name: "migration: retired by every helper",
        file: MIGRATION,
        text: r#"if self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }"#,
        with: r#"let _ = self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);"#,
        models: &["migration::two_helpers_swing_once", "migration"],
    },
    Mutation {
        name: "migration: retired before it is unlinked",
        file: MIGRATION,
        text: r#"        let (old, new) = (ptr::from_ref(table).cast_mut(), ptr::from_ref(next).cast_mut());"#,
        with: r#"        let (old, new) = (ptr::from_ref(table).cast_mut(), ptr::from_ref(next).cast_mut());
        if ptr::eq(self.root(guard), table) {
            unsafe { guard.retire(old, || ()) };
        }
        if ptr::eq(self.root(guard), table) {
            self.root.store(new, Ordering::Release);
        }
        return;"#,
        models: &["migration::a_table_is_reached_by_nobody_who_pins_after_its_retirement", "migration"],
    },
    Mutation {
        name: "room: a closed cell goes on spending",
        file: ROOM,
        text: r#"if left == 0 || left & CLOSED != 0 {"#,
        with: r#"if left & !CLOSED == 0 {"#,
        models: &["claim::a_room_spends_no_credit_twice_and_counts_all_when_it_closes"],
    },
    Mutation {
        name: "room: a credit is spent twice",
        file: ROOM,
        text: r#"match cell.compare_exchange(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {"#,
        with: r#"match { cell.store(left - taken, Ordering::Relaxed); Ok::<usize, usize>(0) } {"#,
        models: &["claim::a_room_spends_no_credit_twice_and_counts_all_when_it_closes"],
    },
    Mutation {
        name: "graveyard: a burial is published relaxed",
        file: GRAVEYARD,
        text: r#"compare_exchange(top, first, Ordering::Release, Ordering::Relaxed)"#,
        with: r#"compare_exchange(top, first, Ordering::Relaxed, Ordering::Relaxed)"#,
        models: &["graveyard"],
    },
    Mutation {
        name: "graveyard: the dead are taken relaxed",
        file: GRAVEYARD,
        text: r#"self.graves.swap(ptr::null_mut(), Ordering::Acquire)"#,
        with: r#"self.graves.swap(ptr::null_mut(), Ordering::Relaxed)"#,
        models: &["graveyard"],
    },
    Mutation {
        name: "graveyard: a burial overwrites others",
        file: GRAVEYARD,
        text: r#"match self.graves.compare_exchange(top, first, Ordering::Release, Ordering::Relaxed) {"#,
        with: r#"match { self.graves.store(first, Ordering::Release); Ok::<*mut Grave, *mut Grave>(first) } {"#,
        models: &["graveyard"],
    },
    Mutation {
        name: "graveyard: two helpers take the same dead",
        file: GRAVEYARD,
        text: r#"let first = self.graves.swap(ptr::null_mut(), Ordering::Acquire);"#,
        with: r#"let first = self.graves.load(Ordering::Acquire);
        self.graves.store(ptr::null_mut(), Ordering::Relaxed);"#,
        models: &["graveyard"],
    },
    Mutation {
        name: "bucket: the payload of a full bucket is 0",
        file: BUCKET,
        text: r#"        1 + ((u128::from(raised)"#,
        with: r#"        ((u128::from(raised)"#,
        models: &["migration::a_late_helper_undoes_no_reset", "migration::a_late_helper_undoes_no_refund"],
    },
    Mutation {
        name: "bucket: one token too many",
        file: BUCKET,
        text: r#"(cost * self.scale.unit, full + self.capacity);"#,
        with: r#"(cost * self.scale.unit, full + self.capacity + 1);"#,
        models: &["word::charges_of_two_threads_never_exceed_the_bucket"],
    },
    Mutation {
        name: "log: an event counts a nanosecond too long",
        file: LOG,
        text: r#"instant - event.get() < self.window"#,
        with: r#"instant - event.get() <= self.window"#,
        models: &["log::calls_meet_an_expiry"],
    },
    Mutation {
        name: "log: an event is forgotten a nanosecond early",
        file: LOG,
        text: r#"instant - event.get() < self.window"#,
        with: r#"instant - event.get() + 1 < self.window"#,
        models: &["log::calls_meet_an_expiry"],
    },
    Mutation {
        name: "log: one event too many",
        file: LOG,
        text: r#"(events.len() as u64 + cost <= self.limit)"#,
        with: r#"(events.len() as u64 + cost <= self.limit + 1)"#,
        models: &["log::calls_meet_at_the_last_place"],
    },
    Mutation {
        name: "log: what was written at a later instant is not waited for",
        file: LOG,
        text: r#"now.min(HORIZON).max(instant)"#,
        with: r#"{ let _ = instant; now.min(HORIZON).max(events.last().map_or(0, Plain::get)) }"#,
        models: &["log::a_call_whose_clock_is_late_finds_no_room_in_what_was_given_back"],
    },
    Mutation {
        name: "log: one from which all was taken back is idle at once",
        file: LOG,
        text: r#"events.last().map_or(instant, "#,
        with: r#"events.last().map_or({ let _ = instant; 0 }, "#,
        models: &["log::a_call_whose_clock_is_late_meets_a_reset_and_the_drop_of_what_it_left"],
    },
    Mutation {
        name: "limbo: a passage opens relaxed",
        file: LIMBO,
        text: r#"self.mark.0.fetch_max(self.last, Ordering::Release)"#,
        with: r#"self.mark.0.fetch_max(self.last, Ordering::Relaxed)"#,
        models: &["limbo::a_log_is_written_over_after_its_readers_are_done"],
    },
    Mutation {
        name: "limbo: an open passage is seen relaxed",
        file: LIMBO,
        text: r#"self.mark.0.load(Ordering::Acquire)"#,
        with: r#"self.mark.0.load(Ordering::Relaxed)"#,
        models: &["limbo::a_log_is_written_over_after_its_readers_are_done"],
    },
    Mutation {
        name: "limbo: an early passage that opens late takes back what the later one gave",
        file: LIMBO,
        text: r#"self.mark.0.fetch_max(self.last, Ordering::Release)"#,
        with: r#"self.mark.0.store(self.last, Ordering::Release)"#,
        models: &["limbo::a_log_is_written_over_after_its_readers_are_done"],
    },
    Mutation {
        name: "limbo: a log is taken before its passage opens",
        file: LIMBO,
        text: r#"        if self.passed < self.first {
            return None;"#,
        with: r#"        if false {
            return None;"#,
        models: &["limbo::a_log_is_written_over_after_its_readers_are_done"],
    },
    Mutation {
        name: "fixed: a window ends a nanosecond late",
        file: FIXED,
        text: r#"used if instant < self.end(payload) => used"#,
        with: r#"used if instant <= self.end(payload) => used"#,
        models: &["windows::calls_meet_at_the_end_of_a_fixed_window"],
    },
    Mutation {
        name: "fixed: a window ends a nanosecond early",
        file: FIXED,
        text: r#"used if instant < self.end(payload) => used"#,
        with: r#"used if instant + 1 < self.end(payload) => used"#,
        models: &["windows::a_first_request_meets_the_end_of_a_window"],
    },
    Mutation {
        name: "fixed: one too many",
        file: FIXED,
        text: r#"(used + cost <= self.limit)"#,
        with: r#"(used + cost <= self.limit + 1)"#,
        models: &["windows::calls_meet_at_the_last_place_of_a_fixed_window"],
    },
    Mutation {
        name: "fixed: a window goes back",
        file: FIXED,
        text: r#"self.windows.number(instant).max(payload >> self.bits)"#,
        with: r#"self.windows.number(instant)"#,
        models: &["windows::a_late_clock_finds_no_room_in_a_fixed_window_that_is_over"],
    },
    Mutation {
        name: "fixed: a window in which all was given back is idle at once",
        file: FIXED,
        text: r#"            0 => self.windows.start(payload >> self.bits),"#,
        with: r#"            0 => 0,"#,
        models: &["windows::a_late_clock_drops_no_fixed_window_that_has_begun"],
    },
    Mutation {
        name: "windows: a first request begins an aligned window",
        file: WINDOWS,
        text: r#"period * self.points() + (within >> self.grain) + 1"#,
        with: r#"{ let _ = within; period * self.points() + 1 }"#,
        models: &["windows::first_requests_meet"],
    },
    Mutation {
        name: "counter: the window before is forgotten",
        file: COUNTER,
        text: r#"            previous: counts.current,"#,
        with: r#"            previous: 0,"#,
        models: &["windows::calls_meet_at_the_end_of_a_sliding_counters_window"],
    },
    Mutation {
        name: "counter: the next window begins a nanosecond early",
        file: COUNTER,
        text: r#"if elapsed < self.windows.period {
            counts"#,
        with: r#"if elapsed + 1 < self.windows.period {
            counts"#,
        models: &["windows::calls_meet_at_the_last_place_of_a_sliding_counter"],
    },
    Mutation {
        name: "counter: the next window has the number of the last",
        file: COUNTER,
        text: r#"number: counts.number + self.windows.points(),"#,
        with: r#"number: counts.number,"#,
        models: &["windows::calls_meet_at_the_end_of_a_sliding_counters_window"],
    },
    Mutation {
        name: "counter: one too many",
        file: COUNTER,
        text: r#"self.limit.checked_sub(counts.current + cost)?;"#,
        with: r#"(self.limit + 1).checked_sub(counts.current + cost)?;"#,
        models: &["windows::calls_meet_at_the_last_place_of_a_sliding_counter"],
    },
    Mutation {
        name: "counter: a window goes back",
        file: COUNTER,
        text: r#"self.windows.number(instant).max(payload >> (2 * self.bits))"#,
        with: r#"self.windows.number(instant)"#,
        models: &["windows::a_late_clock_finds_no_room_in_a_sliding_counters_windows_that_are_over"],
    },
    Mutation {
        name: "counter: a window in which all was given back is idle at once",
        file: COUNTER,
        text: r#"(0, 0) => 0,"#,
        with: r#"(0, 0) => return 0,"#,
        models: &["windows::a_late_clock_drops_no_sliding_counters_window_that_has_begun"],
    },
    Mutation {
        name: "together: a refused call keeps what it took",
        file: TOGETHER,
        text: r#"groups.iter().zip(taken).for_each(|((part, _), (_, held))| part.give_back(held));"#,
        with: r#"drop(taken);"#,
        models: &["together"],
    },
    Mutation {
        name: "together: each call takes in the order of its own list",
        file: TOGETHER,
        text: r#"let groups: Few<(&P, u64)> = groups(parts).collect();"#,
        with: r#"let groups: Few<(&P, u64)> = parts.iter().map(|part| (part, part.cost())).collect();"#,
        models: &["together"],
    },
    Mutation {
        name: "clock: the time of the comparison loads relaxed",
        file: TSC,
        text: r#"let synced = self.synced.load(Ordering::Acquire);"#,
        with: r#"let synced = self.synced.load(Ordering::Relaxed);"#,
        models: &["clock"],
    },
    Mutation {
        name: "clock: a comparison publishes nothing",
        file: TSC,
        text: r#"self.synced.fetch_max(published, Ordering::AcqRel)"#,
        with: r#"self.synced.fetch_max(published, Ordering::Acquire)"#,
        models: &["clock"],
    },
    Mutation {
        name: "clock: each thread has a floor of its own",
        file: TSC,
        text: r#"self.floor.compare_exchange(0, floor, Ordering::Relaxed, Ordering::Relaxed).err().unwrap_or(floor)"#,
        with: r#"{ let _ = self.floor.compare_exchange(0, floor, Ordering::Relaxed, Ordering::Relaxed); floor }"#,
        models: &["clock"],
    },
    Mutation {
        name: "clock: a torn comparison is trusted",
        file: TSC,
        text: r#"if self.synced.fetch_max(published, Ordering::AcqRel) == PARTED {"#,
        with: r#"self.synced.fetch_max(published, Ordering::AcqRel);
        if false {"#,
        models: &["clock::a_comparison_that_a_parting_overtakes_is_dropped"],
    },
    Mutation {
        name: "clock: a counter that is ahead is trusted",
        file: TSC,
        text: r#"if ahead || behind || back {"#,
        with: r#"if behind || back {"#,
        models: &["clock"],
    },
    Mutation {
        name: "clock: a counter that is behind is trusted",
        file: TSC,
        text: r#"if ahead || behind || back {"#,
        with: r#"if ahead {"#,
        models: &["clock"],
    },
    Mutation {
        name: "clock: the high-water mark is not read again",
        file: TIMELINE,
        text: r#"self.latest.fetch_max(reading, Ordering::Relaxed).max(reading)"#,
        with: r#"{ self.latest.store(reading, Ordering::Relaxed); reading }"#,
        models: &["clock"],
    },
];

/// Orderings that no model can miss, and why they stay. Each leads to the next table: whoever sees a seal or a frozen word
/// must see that table. A caller who does not goes the long way, by trying to start the migration that runs already. It
/// then finds the table, so its answer is right; but in a full map it may give up before that.
pub(super) const UNMISSED: &[&str] = &[
    "word: freeze releases nothing",
    "slot: owner loads relaxed",
    "slot: seal publishes relaxed",
    "slot: a lost claim reads relaxed",
];

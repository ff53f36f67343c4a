//! The mutations, by the file that they change.

use super::Mutation;

const WORD: &str = "src/map/word.rs";
const SLOT: &str = "src/map/slot.rs";
const TABLE: &str = "src/map/table.rs";
const ROOM: &str = "src/map/room.rs";
const MAP: &str = "src/map.rs";
const MIGRATION: &str = "src/map/migration.rs";
const GRAVEYARD: &str = "src/map/graveyard.rs";
const TOGETHER: &str = "src/all_or_nothing.rs";
const TSC: &str = "src/clock/tsc.rs";
const TIMELINE: &str = "src/clock/timeline.rs";
const BUCKET: &str = "src/algorithm/token_bucket.rs";

pub(super) const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "word: apply loads relaxed",
        file: WORD,
        text: r#"let mut word = self.0.load(Ordering::Acquire);"#,
        with: r#"let mut word = self.0.load(Ordering::Relaxed);"#,
        models: &["payload"],
    },
    Mutation {
        name: "word: apply publishes relaxed",
        file: WORD,
        text: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.0.compare_exchange(word, payload, Ordering::Relaxed, Ordering::Acquire)"#,
        models: &["payload"],
    },
    Mutation {
        name: "word: apply fails relaxed",
        file: WORD,
        text: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Relaxed)"#,
        models: &["payload"],
    },
    Mutation {
        name: "word: apply overwrites what it has not seen",
        file: WORD,
        text: r#"match self.0.compare_exchange(word, payload, Ordering::Release, Ordering::Acquire) {"#,
        with: r#"match { self.0.store(payload, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["word"],
    },
    Mutation {
        name: "word: apply answers from a moved word",
        file: WORD,
        text: r#"if word & MOVED != 0 {"#,
        with: r#"if false {"#,
        models: &["migration"],
    },
    Mutation {
        name: "word: apply writes to a frozen word",
        file: WORD,
        text: r#"Step::Write(..) if word & FROZEN != 0 => return Applied::Frozen,"#,
        with: r#""#,
        models: &["migration"],
    },
    Mutation {
        name: "word: freeze acquires nothing",
        file: WORD,
        text: r#"self.0.fetch_or(FROZEN, Ordering::AcqRel)"#,
        with: r#"self.0.fetch_or(FROZEN, Ordering::Release)"#,
        models: &["payload"],
    },
    Mutation {
        name: "word: freeze releases nothing",
        file: WORD,
        text: r#"self.0.fetch_or(FROZEN, Ordering::AcqRel)"#,
        with: r#"self.0.fetch_or(FROZEN, Ordering::Acquire)"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "word: install overwrites",
        file: WORD,
        text: r#"let _ = self.0.compare_exchange(0, payload, Ordering::Relaxed, Ordering::Relaxed);"#,
        with: r#"self.0.store(payload, Ordering::Relaxed);"#,
        models: &["migration"],
    },
    Mutation {
        name: "word: moved is set relaxed",
        file: WORD,
        text: r#"self.0.fetch_or(MOVED, Ordering::Release)"#,
        with: r#"self.0.fetch_or(MOVED, Ordering::Relaxed)"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "slot: owner loads relaxed",
        file: SLOT,
        text: r#"Owner::of(self.fingerprint.load(Ordering::Acquire))"#,
        with: r#"Owner::of(self.fingerprint.load(Ordering::Relaxed))"#,
        models: &["migration"],
    },
    Mutation {
        name: "slot: seal publishes relaxed",
        file: SLOT,
        text: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Relaxed, Ordering::Acquire)"#,
        models: &["migration"],
    },
    Mutation {
        name: "slot: a lost claim reads relaxed",
        file: SLOT,
        text: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire)"#,
        with: r#"self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Relaxed)"#,
        models: &["migration", "claim"],
    },
    Mutation {
        name: "slot: a claim takes whatever slot",
        file: SLOT,
        text: r#"match self.fingerprint.compare_exchange(EMPTY, new, Ordering::Release, Ordering::Acquire) {"#,
        with: r#"match { self.fingerprint.store(new, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["claim", "migration"],
    },
    Mutation {
        name: "table: next loads relaxed",
        file: TABLE,
        text: r#"let next = self.next.load(Ordering::Acquire);
        guard.reach(next);"#,
        with: r#"let next = self.next.load(Ordering::Relaxed);
        guard.reach(next);"#,
        models: &["migration"],
    },
    Mutation {
        name: "table: next is published relaxed",
        file: TABLE,
        text: r#"compare_exchange(std::ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed)"#,
        with: r#"compare_exchange(std::ptr::null_mut(), next, Ordering::Relaxed, Ordering::Relaxed)"#,
        models: &["migration"],
    },
    Mutation {
        name: "table: next is published twice",
        file: TABLE,
        text: r#"match self.next.compare_exchange(std::ptr::null_mut(), next, Ordering::Release, Ordering::Relaxed) {"#,
        with: r#"match { self.next.store(next, Ordering::Release); Ok::<u64, u64>(0) } {"#,
        models: &["migration"],
    },
    Mutation {
        name: "progress: a finished chunk is seen relaxed",
        file: TABLE,
        text: r#"done.load(Ordering::Acquire).trailing_ones()"#,
        with: r#"done.load(Ordering::Relaxed).trailing_ones()"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "progress: a chunk is finished relaxed",
        file: TABLE,
        text: r#"self.done[chunk / 64].fetch_or(bit, Ordering::Release)"#,
        with: r#"self.done[chunk / 64].fetch_or(bit, Ordering::Relaxed)"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "progress: the last account acquires nothing",
        file: TABLE,
        text: r#"self.counted.fetch_add(1, Ordering::AcqRel)"#,
        with: r#"self.counted.fetch_add(1, Ordering::Release)"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "progress: an account releases nothing",
        file: TABLE,
        text: r#"self.counted.fetch_add(1, Ordering::AcqRel)"#,
        with: r#"self.counted.fetch_add(1, Ordering::Acquire)"#,
        models: &["migration", "payload"],
    },
    Mutation {
        name: "progress: a chunk begun is as good as finished",
        file: TABLE,
        text: r#"        // Acquire, twice: pairs"#,
        with: r#"        if true { return None; }
        // Acquire, twice: pairs"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: root loads relaxed",
        file: MAP,
        text: r#"let root = self.root.load(Ordering::Acquire);
        guard.reach(root);"#,
        with: r#"let root = self.root.load(Ordering::Relaxed);
        guard.reach(root);"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: an empty slot of the old table is not sealed",
        file: MAP,
        text: r#"(Some(next), Absent::Claim) => match slot.seal() {"#,
        with: r#"(Some(next), Absent::Claim) => match Ok::<(), slot::Owner>(()) {"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: a frozen word is left behind",
        file: MAP,
        text: r#"Applied::Frozen => table.next(guard).inspect(|next| {
                        self.carry(slot, client, next);
                    }),"#,
        with: r#"Applied::Frozen => table.next(guard),"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: the floor is forgotten by those who go from table to table",
        file: MAP,
        text: r#"let at = now.max(table.birth().floor);"#,
        with: r#"let at = now;"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: the floor is forgotten by those who start at the root",
        file: MAP,
        text: r#"            let now = now.max(table.birth().floor);
            if let Applied::Done"#,
        with: r#"            if let Applied::Done"#,
        models: &["migration"],
    },
    Mutation {
        name: "map: claims need no room",
        file: MAP,
        text: r#"(None, Absent::Claim) if table.room.take() => {"#,
        with: r#"(None, Absent::Claim) if { table.room.take(); true } => {"#,
        models: &["claim", "migration"],
    },
    Mutation {
        name: "map: a lost claim keeps its credit",
        file: MAP,
        text: r#"                            table.room.give(1);"#,
        with: r#""#,
        models: &["claim", "migration"],
    },
    Mutation {
        name: "map: new clients forget what those without a place share",
        file: MAP,
        text: r#"(0, Some(word)) => word.apply(Step::Keep).never_frozen(),"#,
        with: r#"(0, Some(_)) => 0,"#,
        models: &["claim"],
    },
    Mutation {
        name: "migration: the room is left open",
        file: MIGRATION,
        text: r#"table.room.close().min(birth.limit)"#,
        with: r#"table.room.left().min(birth.limit)"#,
        models: &["claim", "migration"],
    },
    Mutation {
        name: "migration: no places are set aside",
        file: MIGRATION,
        text: r#"self.sizes.limit(slots), spent, floor,"#,
        with: r#"self.sizes.limit(slots), 0, floor,"#,
        models: &["migration", "claim"],
    },
    Mutation {
        name: "migration: the floor lies in the past",
        file: MIGRATION,
        text: r#"let floor = birth.floor.max(now);"#,
        with: r#"let floor = birth.floor;"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: the floor goes back",
        file: MIGRATION,
        text: r#"let floor = birth.floor.max(now);"#,
        with: r#"let floor = now;"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: live clients are dropped",
        file: MIGRATION,
        text: r#"let live = frozen.payload != 0 && !"#,
        with: r#"let live = false && frozen.payload != 0 && !"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: a client is idle a nanosecond early",
        file: MIGRATION,
        text: r#"self.algorithm.is_idle(frozen.payload, next.birth().floor)"#,
        with: r#"self.algorithm.is_idle(frozen.payload, next.birth().floor + 1)"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: empty slots stay open",
        file: MIGRATION,
        text: r#"Owner::Nobody => match slot.seal() {"#,
        with: r#"Owner::Nobody => match Ok::<(), Owner>(()) {"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: marked before it is installed",
        file: MIGRATION,
        text: r#"            if live {
                Self::install"#,
        with: r#"            slot.word.mark_moved();
            if live {
                Self::install"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: each helper accounts for a chunk",
        file: MIGRATION,
        text: r#"if !table.progress.finish(chunk) {
            return 0;"#,
        with: r#"table.progress.finish(chunk);
        if false {
            return 0;"#,
        models: &["migration"],
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
        models: &["migration"],
    },
    Mutation {
        name: "migration: swung relaxed",
        file: MIGRATION,
        text: r#"self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)"#,
        with: r#"self.root.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed)"#,
        models: &["migration"],
    },
    Mutation {
        name: "migration: retired by every helper",
        file: MIGRATION,
        text: r#"if self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_err() {
            return;
        }"#,
        with: r#"let _ = self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);"#,
        models: &["migration"],
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
        models: &["migration"],
    },
    Mutation {
        name: "room: a closed cell goes on spending",
        file: ROOM,
        text: r#"if left == 0 || left & CLOSED != 0 {"#,
        with: r#"if left & !CLOSED == 0 {"#,
        models: &["claim"],
    },
    Mutation {
        name: "room: a credit is spent twice",
        file: ROOM,
        text: r#"match cell.compare_exchange(left, left - taken, Ordering::Relaxed, Ordering::Relaxed) {"#,
        with: r#"match { cell.store(left - taken, Ordering::Relaxed); Ok::<usize, usize>(0) } {"#,
        models: &["claim"],
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
        text: r#"        1 + (produced >> self.scale.shift) as u64"#,
        with: r#"        (produced >> self.scale.shift) as u64"#,
        models: &["migration"],
    },
    Mutation {
        name: "bucket: one token too many",
        file: BUCKET,
        text: r#"(charged <= full + self.capacity).then_some(charged)"#,
        with: r#"(charged <= full + self.capacity + 1).then_some(charged)"#,
        models: &["word"],
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
        models: &["clock"],
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

//! Reclamation: when a table that nobody can reach any more may be freed.
//!
//! A [`Guard`] pins the calling thread. What is unlinked from the structure and handed to [`Guard::retire`] is disposed of
//! once every guard that existed at that moment is gone. The work is crossbeam-epoch's. The models put a *quarantine* in
//! its place: it disposes of nothing, and panics when a retired object is reached under a guard that was pinned later.

#[cfg(any(not(tollgate_loom), crossbeam_loom))]
pub use crossbeam::{Epoch, Guard};
#[cfg(all(tollgate_loom, not(crossbeam_loom)))]
pub use quarantine::{Epoch, Guard};

#[cfg(any(not(tollgate_loom), crossbeam_loom))]
mod crossbeam {
    #[cfg(tollgate_loom)]
    use loom::sync::atomic::{Ordering, fence};
    #[cfg(not(tollgate_loom))]
    use std::sync::atomic::{Ordering, fence};

    /// The reclamation domain of one structure; all share crossbeam's default collector.
    #[derive(Debug, Default)]
    pub struct Epoch(());

    /// Keeps whatever was reachable when it was pinned from being freed.
    #[derive(Debug)]
    pub struct Guard(crossbeam_epoch::Guard);

    impl Epoch {
        #[inline]
        pub fn pin(&self) -> Guard {
            Guard(crossbeam_epoch::pin())
        }
    }

    impl Guard {
        /// Lets go of everything reached so far and pins again. Exclusive, so no reference from before survives it.
        pub fn repin(&mut self) {
            self.0.repin();
            // The epoch was read relaxed. Without the fence a processor might reach for a table before, find one that was
            // retired since, and pin an epoch that does not protect it any more.
            fence(Ordering::Acquire);
        }

        /// Hands on what this thread has retired, tries to move the epoch on, and runs what has become due.
        pub fn flush(&self) {
            self.0.flush();
        }

        /// Runs `dispose` once no guard of today is left, on any thread.
        ///
        /// # Safety
        ///
        /// `object` is unreachable for every guard pinned from now on, and is retired only once. `dispose` may run on any
        /// thread at any later time, so what it owns must be `Send` and must outlive everything.
        pub unsafe fn retire<T>(&self, _object: *const T, dispose: impl FnOnce() + 'static) {
            // SAFETY: the caller's promise.
            unsafe { self.0.defer_unchecked(dispose) };
        }

        /// Notes that `object` is reached under this guard.
        #[inline]
        pub fn reach<T>(&self, _object: *const T) {}
    }
}

#[cfg(all(tollgate_loom, not(crossbeam_loom)))]
mod quarantine {
    use loom::sync::atomic::{AtomicUsize, Ordering};
    use std::collections::HashMap;
    use std::sync::{Arc, Mutex};

    /// Counts retirements. A pin is later than those that it has seen, and synchronizes with them as it does in an epoch
    /// scheme: the epoch cannot have moved on otherwise.
    #[derive(Default)]
    pub struct Epoch(Arc<Quarantine>);

    struct Quarantine {
        clock: AtomicUsize,
        retired: Mutex<HashMap<usize, Retired>>,
    }

    struct Retired {
        at: usize,
        dispose: Option<Box<dyn FnOnce()>>,
    }

    pub struct Guard {
        domain: Arc<Quarantine>,
        pinned: usize,
    }

    // SAFETY: a model runs on one OS thread at a time.
    unsafe impl Send for Retired {}

    impl std::fmt::Debug for Epoch {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Epoch")
        }
    }

    impl Default for Quarantine {
        fn default() -> Self {
            Self { clock: AtomicUsize::new(0), retired: Mutex::default() }
        }
    }

    impl Epoch {
        pub fn pin(&self) -> Guard {
            Guard { domain: self.0.clone(), pinned: self.0.clock.load(Ordering::Acquire) }
        }

        /// Disposes of what was retired. For the end of a model, when no guard is left.
        pub fn empty(&self) {
            for (_, retired) in self.0.retired.lock().unwrap().iter_mut() {
                if let Some(dispose) = retired.dispose.take() {
                    dispose();
                }
            }
        }
    }

    impl Guard {
        pub fn repin(&mut self) {
            self.pinned = self.domain.clock.load(Ordering::Acquire);
        }

        pub fn flush(&self) {}

        /// # Safety
        ///
        /// As in the other body.
        pub unsafe fn retire<T>(&self, object: *const T, dispose: impl FnOnce() + 'static) {
            let at = self.domain.clock.fetch_add(1, Ordering::AcqRel);
            let retired = Retired { at, dispose: Some(Box::new(dispose)) };
            let twice = self.domain.retired.lock().unwrap().insert(object as usize, retired).is_some();
            assert!(!twice, "retired twice");
        }

        pub fn reach<T>(&self, object: *const T) {
            if let Some(retired) = self.domain.retired.lock().unwrap().get(&(object as usize)) {
                assert!(self.pinned <= retired.at, "reached after its retirement");
            }
        }
    }
}

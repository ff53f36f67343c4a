#![doc = include_str!("../README.md")]
//!
//! # How the crate is laid out
//!
//! Layers, each knowing only those below: *algorithms* are pure functions on one 64-bit word; the *map* finds a client's
//! word and updates it by CAS; the *faces* ([`Limiter`], [`Session`], [`Gate`]) read the clock, hash the key and pin the
//! epoch; [`check_all`] charges several of them together; `http` puts them in front of services; `redis` keeps the state of
//! limits in a store. `docs/design.md` in the repository explains the whole as questions and answers.
#![cfg_attr(
    tollgate_loom,
    allow(
        dead_code,
        missing_docs,
        unused_imports,
        clippy::len_without_is_empty,
        clippy::new_without_default,
        rustdoc::broken_intra_doc_links
    )
)]

mod algorithm;
mod all_or_nothing;
#[cfg(not(tollgate_loom))]
mod builder;
mod clock;
#[cfg(not(tollgate_loom))]
mod decision;
mod epoch;
mod error;
mod few;
#[cfg(not(tollgate_loom))]
mod gate;
#[cfg(all(feature = "tower", not(tollgate_loom)))]
pub mod http;
#[cfg(not(tollgate_loom))]
mod limiter;
mod map;
mod prefetch;
mod quota;
#[cfg(all(feature = "redis", not(tollgate_loom)))]
pub mod redis;
#[cfg(not(tollgate_loom))]
mod registry;
#[cfg(not(tollgate_loom))]
mod session;
mod stripes;
#[cfg(not(tollgate_loom))]
mod sync;
#[cfg(tollgate_loom)]
#[doc(hidden)]
pub mod sync;
#[cfg(not(tollgate_loom))]
mod together;

pub use algorithm::{Algorithm, Anchor, Answers, FixedWindow, SlidingCounter, SlidingLog, TokenBucket};
pub use clock::{Clock, ManualClock, MonotonicClock};
pub use error::BuildError;
pub use quota::{Excerpt, Quota, QuotaError};
#[cfg(not(tollgate_loom))]
pub use {
    builder::{GateBuilder, LimiterBuilder, WhenFull, Windowed},
    decision::{Allowed, Denied, Reason, Status},
    gate::Gate,
    limiter::Limiter,
    session::Session,
    together::{AllAllowed, Demand, SomeDenied, check_all},
};

/// The core, opened for the models.
#[cfg(tollgate_loom)]
#[allow(missing_docs)]
pub mod model {
    pub use crate::algorithm::{Charged, Limbo, Snapshot, sealed::Sealed};
    pub use crate::all_or_nothing::{Part, take_all};
    pub use crate::clock::timeline::Timeline;
    pub use crate::clock::tsc::{Sample, Tsc};
    pub use crate::epoch::Guard;
    pub use crate::few::Few;
    pub use crate::map::migration::Stop;
    pub use crate::map::{Charge, Map, graveyard::Graveyard, room::Room, slot::Fingerprint};
    pub use crate::sync;
}

//! Limits that several processes share, in a Redis or Valkey server.
//!
//! ```no_run
//! use tollgate::Quota;
//! use tollgate::redis::{SharedLimiter, Store, WhenAway};
//!
//! # async fn example() -> Result<(), tollgate::redis::SetupError> {
//! let store = Store::open("redis://127.0.0.1/")?;
//! let limiter = SharedLimiter::token_bucket("api", Quota::per_second(10).burst(20))
//!     .when_away(WhenAway::Local { one_in: 3 }) // of three instances
//!     .cache_refusals(100_000)
//!     .build(&store)?;
//! match limiter.check("alice").await {
//!     Ok(allowed) => println!("{} left", allowed.remaining()),
//!     Err(denied) => println!("{denied}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # What it guarantees
//!
//! - **One limit, whatever the number of processes.** A decision is one script, which the server runs alone: it looks and
//!   takes in one step.
//! - **The answers of the in-process limiters**, for the same history. All numbers are whole and below 2^53, up to which the
//!   server's numbers are exact; a quota that would need larger ones is an error when the limiter is built. Time is the
//!   server's, in whole microseconds: clocks of clients do not matter, and waits are rounded up to that. Windows that are
//!   aligned are so to the Unix epoch.
//! - **One round trip a decision**, also over several limits ([`check_all`]). A second one only where the server does not
//!   know the script, because it was restarted, and only after it has said that it did nothing.
//! - **No key stays.** Each lives until nothing of it counts: to full refill, to the end of the window, or two windows for
//!   the sliding counter; rounded up to a millisecond, and one more. A time to live that somebody removed is put back by
//!   the next call.
//! - **An answer in time.** See [`WhenAway`], [`StoreBuilder::budget`] and [`StoreBuilder::breaker`].
//!
//! # What it does not
//!
//! A server that loses writes loses charges: a replica that takes over may lack the last ones, and a server that starts
//! again without its data lets everybody begin anew. When the server's clock steps back, a client's time stands still until
//! it has caught up, or until the key expires.
//!
//! # Changing a quota
//!
//! A limiter's name and algorithm make the key; its numbers do not. So a new quota takes over what was used under the old
//! one, rounded against the client: tokens stay tokens, and a window of another length starts with all that the old one
//! still counted. Processes with the old and the new quota may run side by side for the time of a deployment.

mod away;
mod blocking;
mod breaker;
mod builder;
mod error;
mod limiter;
mod link;
mod name;
mod refusals;
mod rule;
mod script;
mod stats;
mod store;
mod together;

pub use away::WhenAway;
pub use blocking::BlockingLimiter;
pub use builder::{SharedLimiterBuilder, StoreBuilder, SystemClock};
pub use error::{CheckAllError, SetupError, StoreError, Trouble};
pub use limiter::SharedLimiter;
pub use stats::Stats;
pub use store::Store;
pub use together::{Demand, check_all};

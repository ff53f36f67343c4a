//! Shared limiters against real servers.

#![cfg(all(feature = "redis", not(miri)))]

#[path = "redis/cache.rs"]
mod cache;
#[cfg(feature = "redis-cluster")]
#[path = "redis/cluster.rs"]
mod cluster;
#[path = "redis/histories.rs"]
mod histories;
#[path = "redis/keys.rs"]
mod keys;
#[path = "redis/outages.rs"]
mod outages;
#[path = "redis/scripts.rs"]
mod scripts;
#[path = "common/redis_server.rs"]
mod server;
#[path = "redis/together.rs"]
mod together;

use server::RedisServer;
use std::time::Duration;
use tollgate::redis::{Store, StoreBuilder};

/// A store that waits for a busy machine: for tests that are not about time.
fn patient(server: &RedisServer) -> StoreBuilder {
    Store::at(&server.url()).budget(Duration::from_secs(20))
}

//! What limits cost an HTTP service, with our layer and with tower_governor's.
//!
//! `cargo bench --bench http` measures it twice: the layer [alone], around a service that answers at once, and an axum
//! service with and without it over [sockets]. `-- alone` and `-- sockets` do one of these. What is measured takes turns in
//! a new random order each round, so what slows the machine down for long falls on all of it; printed are medians over
//! the rounds.
//!
//! The layers do not do the same. Both take the peer's address from axum's `ConnectInfo`, and decide. tower_governor's then
//! hands the request on. Ours has also looked whether the request is exempt or was counted before, and whether there is a
//! forwarding header that it was not told of; it counts the outcome for the `metrics` facade, for which these programs have
//! no recorder, and puts the decision into the request's extensions, where a handler finds what is left. A refusal by
//! tower_governor is a line of text with the wait in two headers; one by ours is a JSON object, or text, or a gRPC status,
//! whichever the client can read, with the headers of the limits. Of the time of tower_governor's refusals most is for a new
//! clock for each, which asks the processor by `cpuid` what it can do: a virtual machine has to be left for that. Where
//! responses that are no refusals have headers too, tower_governor's have the limit and what is left; ours of the older
//! family have the time until it is whole beside that.

#[path = "../common/mod.rs"]
mod common;

mod alone;
mod sockets;

use axum::body::Body;
use axum::extract::ConnectInfo;
use common::form::is_bench;
use common::keys::Draw;
use common::output::{Progress, machine};
use governor::middleware::{NoOpMiddleware, StateInformationMiddleware};
use http::Request;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::time::Duration;
use tollgate::http::{Decision, RateLimitLayer};
use tollgate::{Limiter, Quota};
use tower::util::MapRequestLayer;
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

/// So much that nobody is ever refused, and so little that everybody is after the first request.
const PLENTY: Quota = Quota::per_second(1_000_000).burst(1_000_000);
const HARDLY_ANY: Quota = Quota::per_day(1);

fn limiter(quota: Quota) -> Limiter {
    Limiter::token_bucket(quota).build().expect("a quota that fits")
}

fn ours(quota: Quota) -> RateLimitLayer {
    RateLimitLayer::new(limiter(quota))
}

type Governor<M> = GovernorLayer<PeerIpKeyExtractor, M, Body>;

/// tower_governor as it is by default, but for the quota.
fn governor(quota: Quota) -> Governor<NoOpMiddleware> {
    GovernorLayer::new(governor_config(quota).finish().expect("a quota that fits"))
}

/// The same with headers about the limit on every response.
fn governor_with_headers(quota: Quota) -> Governor<StateInformationMiddleware> {
    GovernorLayer::new(governor_config(quota).use_headers().finish().expect("a quota that fits"))
}

fn governor_config(quota: Quota) -> GovernorConfigBuilder<PeerIpKeyExtractor, NoOpMiddleware> {
    let each = u64::try_from(quota.period().as_nanos()).expect("a period below 584 years") / quota.count();
    let each = NonZeroU64::new(each).expect("a period of at least a nanosecond");
    let burst = u32::try_from(quota.capacity()).expect("a burst of 32 bits");
    let mut config = GovernorConfigBuilder::default();
    config.period(Duration::from_nanos(each.get())).burst_size(burst);
    config
}

/// No layer of limits, but what one that checks by address and inserts a decision cannot do without.
fn least(limiter: Option<Limiter>) -> MapRequestLayer<impl Fn(Request<Body>) -> Request<Body> + Clone> {
    MapRequestLayer::new(move |mut request: Request<Body>| {
        if let Some(limiter) = &limiter {
            let ConnectInfo(peer) = request.extensions().get::<ConnectInfo<SocketAddr>>().expect("a peer");
            assert!(limiter.check(&peer.ip()).is_ok(), "there is plenty");
        }
        request.extensions_mut().insert(Decision::default());
        request
    })
}

/// Gives every subject a turn in each round, in a new random order. Returns what the turns came to, by subject.
fn in_turns<S, T>(name: &'static str, subjects: &mut [S], rounds: usize, turn: impl Fn(&mut S) -> T) -> Vec<Vec<T>> {
    const STEPS: usize = 10;
    let (mut draw, progress) = (Draw::new(0), Progress::new(name));
    let mut turns: Vec<Vec<T>> = subjects.iter().map(|_| Vec::with_capacity(rounds)).collect();
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    for round in 1..=rounds {
        if round % (rounds / STEPS) == 0 {
            progress.step(&format!("round {round} of {rounds}"));
        }
        draw.shuffle(&mut order);
        for &at in &order {
            turns[at].push(turn(&mut subjects[at]));
        }
    }
    turns
}

fn main() {
    if !is_bench() {
        return;
    }
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    println!("{}\n", machine());
    match part.as_deref() {
        None => {
            alone::run();
            sockets::run();
        }
        Some("alone") => alone::run(),
        Some("sockets") => sockets::run(),
        Some(part) => eprintln!("there is no part {part}: it is `alone` or `sockets`, or both without a word"),
    }
}

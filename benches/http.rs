//! What the layer adds to a request, beside tower_governor's.
//!
//! `cargo bench --bench http [PART-OF-A-NAME]`: the same service, which answers at once and with nothing, bare and with limits around it,
//! without a socket or a runtime. The subjects take turns, in a new random order each round, so what slows the machine
//! down for long falls on all of them. Printed are the medians over the rounds of what a request takes more than the bare
//! service's, building the request included in both.

mod common;

use axum::body::Body;
use axum::extract::ConnectInfo;
use common::form::is_bench;
use common::keys::Draw;
use common::output::{Progress, Table, machine};
use http::{Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tollgate::http::{Draft, Headers, Policy, RateLimitLayer, RateLimitLayerBuilder, Reset};
use tollgate::{Gate, Limiter, Quota};
use tower::{Layer, Service, service_fn};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;

/// Clients that call in turn.
const CLIENTS: u32 = 1_000;

const ROUNDS: usize = 1_001;

/// Requests in a turn: so few that most turns end before the system gives the processor to another.
const REQUESTS: u32 = 200;

/// So much that nobody is ever refused, and so little that everybody is after the first request.
const PLENTY: Quota = Quota::per_second(1_000_000).burst(1_000_000);
const HARDLY_ANY: Quota = Quota::per_day(1);

struct Subject {
    name: &'static str,
    /// What it is compared with.
    peer: Option<&'static str>,
    /// Answers one request, and says whether it was let through.
    answer: Box<dyn FnMut(Request<Body>) -> bool>,
    passes: bool,
    next: u32,
}

impl Subject {
    fn new<S, B>(name: &'static str, peer: Option<&'static str>, passes: bool, mut service: S) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + 'static,
    {
        let mut context = Context::from_waker(Waker::noop());
        let answer = move |request| {
            let Poll::Ready(Ok(())) = service.poll_ready(&mut context) else { panic!("the service is always ready") };
            match pin!(service.call(request)).poll(&mut context) {
                Poll::Ready(Ok(response)) => response.status().is_success(),
                _ => panic!("the service answers at once"),
            }
        };
        Self { name, peer, answer: Box::new(answer), passes, next: 0 }
    }

    /// Nanoseconds a request.
    fn turn(&mut self) -> f64 {
        let start = Instant::now();
        let mut passed = 0;
        for _ in 0..REQUESTS {
            passed += u32::from((self.answer)(request(self.next)));
            self.next = (self.next + 1) % CLIENTS;
        }
        let nanos = start.elapsed().as_nanos() as f64;
        assert_eq!(passed, if self.passes { REQUESTS } else { 0 }, "{}: {passed} passed", self.name);
        nanos / f64::from(REQUESTS)
    }
}

fn request(client: u32) -> Request<Body> {
    let mut request = Request::new(Body::empty());
    let address = Ipv4Addr::from_bits(0x0A00_0000 + client);
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 443))));
    request
}

fn hello() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answer> + Clone {
    service_fn(|_| ready(Ok(Response::new(Body::empty()))))
}

type Answer = Ready<Result<Response<Body>, Infallible>>;

fn limiter(quota: Quota) -> Limiter {
    Limiter::token_bucket(quota).build().expect("a quota that fits")
}

fn layer(builder: RateLimitLayerBuilder) -> RateLimitLayer {
    builder.build().expect("policies with names")
}

fn governor(name: &'static str, passes: bool, period: u64, burst: u32) -> Subject {
    let config =
        GovernorConfigBuilder::default().period(std::time::Duration::from_nanos(period)).burst_size(burst).finish();
    Subject::new(name, None, passes, GovernorLayer::new(config.expect("a quota that fits")).layer(hello()))
}

const BARE: &str = "bare";
const GOVERNOR: &str = "tower_governor";
const GOVERNOR_REFUSED: &str = "tower_governor, refused";

fn subjects() -> Vec<Subject> {
    let ours = |name, peer, passes, layer: RateLimitLayer| Subject::new(name, peer, passes, layer.layer(hello()));
    let builder = RateLimitLayer::builder;
    let day = 86_400_000_000_000;
    vec![
        Subject::new(BARE, None, true, hello()),
        governor(GOVERNOR, true, 1_000, 1_000_000),
        governor(GOVERNOR_REFUSED, false, day, 1),
        ours("tollgate", Some(GOVERNOR), true, RateLimitLayer::new(limiter(PLENTY))),
        ours("tollgate, refused", Some(GOVERNOR_REFUSED), false, RateLimitLayer::new(limiter(HARDLY_ANY))),
        ours(
            "tollgate, headers on every response",
            None,
            true,
            layer(builder().policy(limiter(PLENTY)).headers(
                Headers::rate_limit(Draft::Bridge).and(Headers::x_rate_limit(Reset::After)).on_every_response(),
            )),
        ),
        ours(
            "tollgate, three policies",
            None,
            true,
            layer(
                builder()
                    .policy(Policy::new("second", limiter(PLENTY)))
                    .policy(Policy::new("minute", limiter(PLENTY)))
                    .policy(Policy::new("all", Gate::token_bucket(PLENTY).build().expect("a quota that fits"))),
            ),
        ),
        ours("tollgate, exempt", None, true, layer(builder().policy(limiter(PLENTY)).exempt_path("/"))),
    ]
}

fn main() {
    if !is_bench() {
        return;
    }
    println!("{}\n", machine());
    let part = std::env::args().skip(1).find(|arg| !arg.starts_with('-')).unwrap_or_default();
    let mut subjects = subjects();
    let whole = subjects.iter().any(|subject| subject.name == part);
    subjects.retain(|Subject { name, .. }| *name == BARE || *name == part || !whole && name.contains(&part));
    // Everybody is known, and has used up what there was of little.
    for subject in &mut subjects {
        for client in 0..CLIENTS {
            (subject.answer)(request(client));
        }
    }
    let (mut draw, progress) = (Draw::new(0), Progress::new("http"));
    let mut times = vec![Vec::new(); subjects.len()];
    let mut order: Vec<usize> = (0..subjects.len()).collect();
    for round in 1..=ROUNDS {
        if round % 100 == 0 {
            progress.step(&format!("round {round} of {ROUNDS}"));
        }
        draw.shuffle(&mut order);
        for &at in &order {
            times[at].push(subjects[at].turn());
        }
    }
    drop(progress);
    let medians: Vec<f64> = times.iter_mut().map(|times| median(times)).collect();
    let added = |at: usize| medians[at] - medians[0];
    let mut table = Table::new(["", "ns a request", "ns added", "of its peer's"]);
    for (at, subject) in subjects.iter().enumerate() {
        let peer = subject.peer.and_then(|peer| subjects.iter().position(|other| other.name == peer));
        table.row(vec![
            subject.name.to_owned(),
            format!("{:.0}", medians[at]),
            if at == 0 { String::new() } else { format!("{:.0}", added(at)) },
            peer.map(|peer| format!("{:.0} %", 100.0 * added(at) / added(peer))).unwrap_or_default(),
        ]);
    }
    println!("{table}");
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    times[times.len() / 2]
}

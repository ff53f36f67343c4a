//! What a layer adds to a request, around a service that answers at once and with nothing: without a socket or a runtime.
//!
//! A request looks as it comes from axum's server: with a few headers, and with the `ConnectInfo` in its extensions. What
//! its making takes is part of all figures, and of no difference between them.
//!
//! Two rows are no layers but the least that one like ours could do: an empty decision put into the extensions, and the
//! same after a check of the peer's address.

use crate::common::output::Table;
use crate::common::records::median;
use crate::{HARDLY_ANY, PLENTY, governor, governor_with_headers, in_turns, least, limiter, ours};
use axum::body::Body;
use axum::extract::ConnectInfo;
use http::header::{ACCEPT, ACCEPT_ENCODING, HOST, USER_AGENT};
use http::{HeaderValue, Request, Response};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tollgate::Gate;
use tollgate::http::{Draft, Headers, Policy, RateLimitLayer, RateLimitLayerBuilder, Reset};
use tower::{Layer, Service, service_fn};

/// Clients that call in turn.
const CLIENTS: u32 = 1_000;

const ROUNDS: usize = 1_001;

/// Requests in a turn: so few that most turns end before the system gives the processor to another.
const REQUESTS: u32 = 200;

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
    for (name, value) in
        [(HOST, "localhost"), (USER_AGENT, "curl/8.5.0"), (ACCEPT, "*/*"), (ACCEPT_ENCODING, "gzip, deflate")]
    {
        request.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    request.extensions_mut().insert(ConnectInfo(SocketAddr::from((address, 443))));
    request
}

fn hello() -> impl Service<Request<Body>, Response = Response<Body>, Error = Infallible, Future = Answer> + Clone {
    service_fn(|_| ready(Ok(Response::new(Body::empty()))))
}

type Answer = Ready<Result<Response<Body>, Infallible>>;

fn layer(builder: RateLimitLayerBuilder) -> RateLimitLayer {
    builder.build().expect("policies with names")
}

const BARE: &str = "bare";
const GOVERNOR: &str = "tower_governor";
const GOVERNOR_HEADERS: &str = "tower_governor, headers";
const GOVERNOR_REFUSED: &str = "tower_governor, refused";

fn subjects() -> Vec<Subject> {
    let tollgate = |name, peer, passes, layer: RateLimitLayer| Subject::new(name, peer, passes, layer.layer(hello()));
    let builder = RateLimitLayer::builder;
    vec![
        Subject::new(BARE, None, true, hello()),
        Subject::new("an insert", Some(GOVERNOR), true, least(None).layer(hello())),
        Subject::new("a check and an insert", Some(GOVERNOR), true, least(Some(limiter(PLENTY))).layer(hello())),
        Subject::new(GOVERNOR, None, true, governor(PLENTY).layer(hello())),
        Subject::new(GOVERNOR_HEADERS, None, true, governor_with_headers(PLENTY).layer(hello())),
        Subject::new(GOVERNOR_REFUSED, None, false, governor(HARDLY_ANY).layer(hello())),
        tollgate("tollgate", Some(GOVERNOR), true, ours(PLENTY)),
        tollgate("tollgate, refused", Some(GOVERNOR_REFUSED), false, ours(HARDLY_ANY)),
        tollgate(
            "tollgate, x-ratelimit on every response",
            Some(GOVERNOR_HEADERS),
            true,
            layer(builder().policy(limiter(PLENTY)).headers(Headers::x_rate_limit(Reset::After).on_every_response())),
        ),
        tollgate(
            "tollgate, both families on every response",
            None,
            true,
            layer(builder().policy(limiter(PLENTY)).headers(
                Headers::rate_limit(Draft::Bridge).and(Headers::x_rate_limit(Reset::After)).on_every_response(),
            )),
        ),
        tollgate(
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
        tollgate("tollgate, exempt", None, true, layer(builder().policy(limiter(PLENTY)).exempt_path("/"))),
    ]
}

pub fn run() {
    let mut subjects = subjects();
    // Everybody is known, and has used up what there was of little.
    for subject in &mut subjects {
        for client in 0..CLIENTS {
            (subject.answer)(request(client));
        }
    }
    let mut times = in_turns("http", &mut subjects, ROUNDS, Subject::turn);
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
    println!("The layer alone: {CLIENTS} clients in turn, {ROUNDS} rounds of {REQUESTS} requests.\n\n{table}");
}

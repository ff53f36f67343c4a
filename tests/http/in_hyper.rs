//! Around a plain hyper service, whose peers are told by hand.

use super::support::*;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::net::SocketAddr;
use tollgate::http::{RateLimitLayer, WhenUnknown, client::Peer};
use tollgate::{ManualClock, Quota};
use tower::{ServiceBuilder, service_fn};

async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new("hello".into()))
}

/// Serves `hello` behind a layer, with or without the peers' addresses.
async fn serve(layer: RateLimitLayer, tell_peers: bool) -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let service = ServiceBuilder::new()
                .map_request(move |mut request: Request<Incoming>| {
                    if tell_peers {
                        request.extensions_mut().insert(Peer::from(peer));
                    }
                    request
                })
                .layer(layer.clone())
                .service(service_fn(hello));
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
            tokio::spawn(connection);
        }
    });
    address
}

#[tokio::test]
async fn every_connection_is_limited_by_one_state() {
    let limiter = frozen(Quota::per_minute(2));
    let address = serve(RateLimitLayer::new(limiter.clone()), true).await;
    let mut one = Client::connect(address).await;
    assert_eq!(one.get("/").await.body, "hello");
    let mut other = Client::connect(address).await;
    assert_eq!(other.statuses("/", 2).await, [200, 429]);
    let refused = one.get("/").await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("30")));
    assert_eq!(limiter.len(), 1);
}

#[tokio::test]
async fn without_a_peer_the_configured_answer_is_given() {
    for (answer, expected) in [
        (None, [200, 429, 429]),
        (Some(WhenUnknown::Shared), [200, 429, 429]),
        (Some(WhenUnknown::Allow), [200, 200, 200]),
        (Some(WhenUnknown::Refuse), [403, 403, 403]),
    ] {
        let limiter = tollgate::Limiter::token_bucket(Quota::per_hour(1)).clock(ManualClock::new()).build().unwrap();
        let builder = RateLimitLayer::builder().policy(limiter);
        let layer = match answer {
            Some(answer) => builder.when_unknown(answer).build().unwrap(),
            None => builder.build().unwrap(),
        };
        let mut client = Client::connect(serve(layer, false).await).await;
        assert_eq!(client.statuses("/", 3).await, expected, "{answer:?}");
    }
}

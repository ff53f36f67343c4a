//! Limits around HTTP services: [`RateLimitLayer`], for whatever speaks tower.
//!
//! A [`Policy`] is a limiter or a gate with the requests that it is for. A layer holds one or more, finds out
//! [whose](client) each request is, decides on all policies together, and answers those it refuses. See
//! [`RateLimitLayerBuilder`] for all that can be set.
//!
//! # axum
//!
//! Around the whole app, one router or one route. The connect info tells the peers' addresses, with the feature `axum`.
//!
//! ```no_run
//! # use axum::{Router, routing::get};
//! # use std::net::SocketAddr;
//! # use tollgate::{Limiter, Quota, http::RateLimitLayer};
//! # async fn run(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! let all = RateLimitLayer::new(Limiter::token_bucket(Quota::per_second(10)).build()?);
//! let exports = RateLimitLayer::new(Limiter::token_bucket(Quota::per_hour(5)).build()?);
//! let app = Router::new()
//!     .route("/", get(async || "hello"))
//!     .route("/export", get(async || "a lot").layer(exports))
//!     .layer(all);
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # hyper
//!
//! The peer's address is put into each request of a connection by hand. The layer outlives connections, so they share its
//! state.
//!
//! ```no_run
//! # use http::{Request, Response};
//! # use http_body_util::Full;
//! # use hyper::{body::{Bytes, Incoming}, server::conn::http1};
//! # use hyper_util::{rt::TokioIo, service::TowerToHyperService};
//! # use std::convert::Infallible;
//! # use tollgate::{Limiter, Quota, http::{RateLimitLayer, client::Peer}};
//! # use tower::{ServiceBuilder, service_fn};
//! # async fn hello(_: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> { unimplemented!() }
//! # async fn run(listener: tokio::net::TcpListener) -> Result<(), Box<dyn std::error::Error>> {
//! let layer = RateLimitLayer::new(Limiter::token_bucket(Quota::per_second(10)).build()?);
//! loop {
//!     let (stream, peer) = listener.accept().await?;
//!     let tell = move |mut request: Request<Incoming>| {
//!         request.extensions_mut().insert(Peer::from(peer));
//!         request
//!     };
//!     let service = ServiceBuilder::new().map_request(tell).layer(layer.clone()).service(service_fn(hello));
//!     let service = TowerToHyperService::new(service);
//!     tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
//! }
//! # }
//! ```
//!
//! # tonic
//!
//! ```no_run
//! # use tollgate::{Limiter, Quota, http::{RateLimitLayer, client::ClientAddress}};
//! # use tonic::transport::{Server, server::TcpConnectInfo};
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! # let (_, service) = tonic_health::server::health_reporter();
//! let peer = ClientAddress::new()
//!     .peer_from(|head| Some(head.extensions().get::<TcpConnectInfo>()?.remote_addr()?.ip()));
//! let limiter = Limiter::token_bucket(Quota::per_second(10)).build()?;
//! let layer = RateLimitLayer::builder().policy(limiter).identify(peer).build()?;
//! Server::builder().layer(layer).add_service(service).serve("127.0.0.1:50051".parse()?).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Behind a proxy
//!
//! ```
//! # use tollgate::{Limiter, Quota, http::{RateLimitLayer, client::{ClientAddress, Trust}}};
//! # let limiter = Limiter::token_bucket(Quota::per_second(10)).build()?;
//! let address = ClientAddress::new().trust(Trust::networks(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]));
//! let layer = RateLimitLayer::builder().policy(limiter).identify(address).build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A new limit, tried out first
//!
//! In shadow it counts and reports, and refuses nothing. With the feature `metrics`, `tollgate_requests_total` has what it
//! would have refused, under `outcome="shadow_refused"`; handlers see it in the [`Decision`].
//!
//! ```
//! # use tollgate::{Limiter, Quota, http::{Policy, RateLimitLayer}};
//! # let (old, new) = (Quota::per_second(100), Quota::per_second(10));
//! # let limiter = |quota| Limiter::token_bucket(quota).build();
//! let layer = RateLimitLayer::builder()
//!     .policy(Policy::new("current", limiter(old)?))
//!     .policy(Policy::new("next", limiter(new)?).shadow())
//!     .build()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Messages of a stream
//!
//! The layer sees the request that opens a WebSocket or another stream, and nothing of what comes on it. Messages draw from
//! the same limit where they are checked by the same limiter, with the client as the layer knows it.
//!
//! ```
//! # use tollgate::{Limiter, Quota, http::{Head, RateLimitLayer, client::{ApiKey, Identify}}};
//! # let request = http::Request::get("/stream").header("x-api-key", "k-ann").body(())?;
//! let (limiter, clients) = (Limiter::token_bucket(Quota::per_minute(15)).build()?, ApiKey::new());
//! let layer = RateLimitLayer::builder().policy(limiter.clone()).identify(clients.clone()).build()?;
//! // Where the stream is opened:
//! let client = clients.identify(&Head::from(&request)).ok_or("a request without a key")?;
//! // For each message:
//! if let Err(denied) = limiter.check(&client) {
//!     println!("{denied}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # With CORS
//!
//! Let the CORS layer go around this one. It then answers preflights itself, and adds to a refusal what an app in a browser
//! needs to read it. In axum the layer that is added last is the outermost; in a `ServiceBuilder` it is the first.

mod accept;
mod body;
pub mod client;
mod decision;
mod grpc;
mod head;
mod headers;
mod layer;
mod observe;
mod path;
mod policy;
mod refusal;
mod rules;
mod service;
#[cfg(feature = "redis")]
mod shared;
pub mod testing;
mod text;

pub use body::RateLimitBody;
pub use decision::{Answer, Decision};
pub use head::Head;
pub use headers::{Draft, Headers, Reset};
pub use layer::{LayerError, RateLimitLayer, RateLimitLayerBuilder};
pub use policy::{Limit, Policy};
pub use refusal::Refusal;
pub use rules::{Exempt, WhenUnknown};
pub use service::{RateLimit, ResponseFuture};
#[cfg(feature = "redis")]
pub use shared::{SharedRateLimit, SharedRateLimitLayer};

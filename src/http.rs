//! Limits around HTTP services: [`RateLimitLayer`], for whatever speaks tower.
//!
//! A [`Policy`] is a limiter or a gate with the requests that it is for. A layer holds one or more, finds out
//! [whose](client) each request is, decides on all policies together, and answers those it refuses. See
//! [`RateLimitLayer`] for the shortest program, and [`RateLimitLayerBuilder`] for all that can be set.

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
pub mod testing;

pub use body::RateLimitBody;
pub use decision::{Answer, Decision};
pub use head::Head;
pub use headers::{Draft, Headers, Reset};
pub use layer::{LayerError, RateLimitLayer, RateLimitLayerBuilder};
pub use policy::{Limit, Policy};
pub use refusal::Refusal;
pub use rules::{Exempt, WhenUnknown};
pub use service::{RateLimit, ResponseFuture};

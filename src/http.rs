//! Limits for HTTP services: whose request it is.

pub mod client;
mod head;

pub use head::Head;

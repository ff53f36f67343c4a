//! [`Trust`], which hops are our own.

use super::network::{Network, Networks};
use std::net::IpAddr;
use std::sync::Arc;

/// Which hops between the client and this service are our own proxies.
#[derive(Clone, Debug)]
pub struct Trust(Trusted);

#[derive(Clone, Debug)]
enum Trusted {
    Networks(Arc<Networks>),
    Hops(usize),
}

impl Trust {
    /// No hop: the peer is the client.
    pub const fn nobody() -> Self {
        Self::hops(0)
    }

    /// Every hop with an address in one of these networks. None of them is the same as [`nobody`](Trust::nobody).
    ///
    /// Name the networks that hold proxies and no clients. Whoever is inside is believed about anybody.
    pub fn networks(networks: impl IntoIterator<Item = Network>) -> Self {
        Self(Trusted::Networks(Arc::new(networks.into_iter().collect())))
    }

    /// The `count` hops next to this service, whatever their addresses: 1 for a single proxy in front of it.
    ///
    /// Only where nobody can reach the service but through all of them: the peer is believed, whoever it is. This works
    /// over Unix sockets, too, and with proxies whose addresses change or are hidden.
    pub const fn hops(count: usize) -> Self {
        Self(Trusted::Hops(count))
    }

    pub(super) fn is_nobody(&self) -> bool {
        match &self.0 {
            Trusted::Networks(networks) => networks.is_empty(),
            Trusted::Hops(count) => *count == 0,
        }
    }

    /// Whether the hop at this place is trusted; the peer is at place 0.
    pub(super) fn covers(&self, place: usize, address: Option<IpAddr>) -> bool {
        match &self.0 {
            Trusted::Networks(networks) => address.is_some_and(|address| networks.contains(address)),
            Trusted::Hops(count) => place < *count,
        }
    }
}

impl Default for Trust {
    fn default() -> Self {
        Self::nobody()
    }
}

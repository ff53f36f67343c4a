//! [`Peer`], the address a connection comes from.

use crate::http::Head;
#[cfg(feature = "axum")]
use axum::extract::ConnectInfo;
use std::net::{IpAddr, SocketAddr};

/// The address at the other end of the connection, for the extensions of each request on it.
///
/// ```
/// use std::net::SocketAddr;
/// use tollgate::http::client::Peer;
///
/// let accepted: SocketAddr = "192.0.2.1:40000".parse().unwrap();
/// let mut request = http::Request::new(());
/// request.extensions_mut().insert(Peer::from(accepted));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub IpAddr);

impl From<IpAddr> for Peer {
    fn from(address: IpAddr) -> Self {
        Self(address)
    }
}

impl From<SocketAddr> for Peer {
    fn from(address: SocketAddr) -> Self {
        Self(address.ip())
    }
}

/// The peer of a request, as the server has told it.
pub(super) fn peer_from_extensions(head: &Head<'_>) -> Option<IpAddr> {
    let peer = head.extensions().get().map(|&Peer(address)| address);
    #[cfg(feature = "axum")]
    let peer = peer.or_else(|| {
        let ConnectInfo(peer) = head.extensions().get::<ConnectInfo<SocketAddr>>()?;
        Some(peer.ip())
    });
    peer
}

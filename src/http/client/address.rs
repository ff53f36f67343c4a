//! [`ClientAddress`], clients by their address, also behind proxies.

use super::forwarded::{self, Hop};
use super::peer::peer_from_extensions;
use super::trust::Trust;
use super::{Client, Identify, Identity};
use crate::http::Head;
use http::header::{FORWARDED, ValueIter};
use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use std::error::Error;
use std::fmt;
use std::iter;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Knows clients by their address: the peer's, or where proxies are trusted, what they say about theirs.
///
/// By default nobody is trusted and the peer is the client. [`trust`](ClientAddress::trust) says which hops are ours, and
/// [`header`](ClientAddress::header) what they write into. How the client is found then, and what can go wrong, is told in
/// the [module's documentation](super#behind-proxies).
///
/// IPv4 in IPv6 is IPv4: ::ffff:192.0.2.1 and 192.0.2.1 are one client. An IPv6 subscriber gets a whole network, by custom
/// a /64, so addresses are grouped by their first 64 bits unless [`ipv6_prefix`](ClientAddress::ipv6_prefix) says
/// otherwise.
///
/// The peer is what the server put into the extensions of the request: a [`Peer`](super::Peer), or with the feature `axum` a
/// `ConnectInfo<SocketAddr>`, or what [`peer_from`](ClientAddress::peer_from) finds. Without one, as over a Unix socket,
/// there is no client, unless hops are counted.
///
/// ```
/// use tollgate::http::client::{ClientAddress, Trust};
///
/// let clients = ClientAddress::new().trust(Trust::networks(["10.0.0.0/8".parse()?, "fd00::/8".parse()?]));
/// # Ok::<(), tollgate::http::client::NetworkError>(())
/// ```
///
/// Clones share what [`ignored_a_proxy`](ClientAddress::ignored_a_proxy) tells.
#[derive(Clone)]
pub struct ClientAddress {
    trust: Trust,
    header: ForwardingHeader,
    peer: Option<Arc<PeerFrom>>,
    ipv4_prefix: u8,
    ipv6_prefix: u8,
    ignored: Arc<AtomicBool>,
}

type PeerFrom = dyn Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

impl ClientAddress {
    /// The address of the peer, each IPv4 address and each /64 of IPv6 on its own.
    pub fn new() -> Self {
        Self {
            trust: Trust::nobody(),
            header: ForwardingHeader::default(),
            peer: None,
            ipv4_prefix: 32,
            ipv6_prefix: 64,
            ignored: Arc::default(),
        }
    }

    /// Whose word about its own peer is taken.
    #[must_use]
    pub fn trust(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    /// The one header in which the trusted proxies say it; `X-Forwarded-For` by default. No other is looked at.
    #[must_use]
    pub fn header(self, header: ForwardingHeader) -> Self {
        Self { header, ..self }
    }

    /// Takes the address of the peer from elsewhere, in place of the extensions listed above: from what the server or a
    /// layer around this one has found out, say tonic's `TcpConnectInfo`.
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use tollgate::http::client::ClientAddress;
    ///
    /// let clients = ClientAddress::new().peer_from(|head| Some(head.extensions().get::<SocketAddr>()?.ip()));
    /// ```
    #[must_use]
    pub fn peer_from(self, peer: impl Fn(&Head<'_>) -> Option<IpAddr> + Send + Sync + 'static) -> Self {
        Self { peer: Some(Arc::new(peer)), ..self }
    }

    /// Groups IPv4 addresses by their first `bits`, 1 to 32; 32 by default.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Ipv4`] outside of that range.
    pub fn ipv4_prefix(self, bits: u8) -> Result<Self, PrefixError> {
        match bits {
            1..=32 => Ok(Self { ipv4_prefix: bits, ..self }),
            _ => Err(PrefixError::Ipv4(bits)),
        }
    }

    /// Groups IPv6 addresses by their first `bits`, 1 to 128; 64 by default.
    ///
    /// Some providers hand out a /56 or a /48 to whoever asks. A shorter prefix stops more of an attacker, and more of
    /// those who are near.
    ///
    /// # Errors
    ///
    /// [`PrefixError::Ipv6`] outside of that range.
    pub fn ipv6_prefix(self, bits: u8) -> Result<Self, PrefixError> {
        match bits {
            1..=128 => Ok(Self { ipv6_prefix: bits, ..self }),
            _ => Err(PrefixError::Ipv6(bits)),
        }
    }

    /// The client of an address, as a request from it would be counted. For a look at a limit, or to reset it.
    pub fn client(&self, address: IpAddr) -> Client {
        let address = address.to_canonical();
        let prefix = if address.is_ipv4() { self.ipv4_prefix } else { self.ipv6_prefix };
        // Never the address alone: the prefixes were checked.
        Client(Identity::Address(IpNet::new(address, prefix).unwrap_or(address.into()).trunc()))
    }

    /// The address of the client, not grouped.
    pub fn find(&self, head: &Head<'_>) -> Option<IpAddr> {
        self.notice_ignored_proxy(head);
        let peer = match &self.peer {
            Some(peer) => peer(head),
            None => peer_from_extensions(head),
        };
        match &self.header {
            ForwardingHeader::XForwardedFor => self.walk(peer, forwarded::listed(lines(head, &X_FORWARDED_FOR))),
            ForwardingHeader::Other(name) => self.walk(peer, forwarded::listed(lines(head, name))),
            ForwardingHeader::Forwarded => self.walk(peer, forwarded::elements(lines(head, &FORWARDED))),
        }
    }

    /// Goes from the peer outwards for as long as the hops are trusted: each of them wrote the next. The client is the last
    /// address seen, be it the first that is not trusted or the outermost of the trusted ones.
    fn walk(&self, peer: Option<IpAddr>, told: impl Iterator<Item = Hop>) -> Option<IpAddr> {
        let peer = peer.map_or(Hop::Hidden, |address| Hop::At(address.to_canonical()));
        let mut client = None;
        for (place, hop) in iter::once(peer).chain(told).enumerate() {
            let address = match hop {
                Hop::At(address) => Some(address),
                Hop::Hidden => None,
                Hop::Malformed => break,
            };
            client = address.or(client);
            if !self.trust.covers(place, address) {
                break;
            }
        }
        client
    }

    /// Whether a forwarding header has arrived while nobody was trusted: most likely there is a proxy that this does not
    /// know of, whose clients all count as one.
    ///
    /// It may also be a client's own doing. With the feature `tracing` the first time is a warning, too.
    pub fn ignored_a_proxy(&self) -> bool {
        self.ignored.load(Relaxed)
    }

    fn notice_ignored_proxy(&self, head: &Head<'_>) {
        if !self.trust.is_nobody() || self.ignored.load(Relaxed) {
            return;
        }
        let headers = head.headers();
        let forwarded = headers.contains_key(&X_FORWARDED_FOR) || headers.contains_key(FORWARDED);
        if forwarded && !self.ignored.swap(true, Relaxed) {
            #[cfg(feature = "tracing")]
            tracing::warn!(
                "a request came with a forwarding header, but no proxy is trusted: if there is one, all of its clients \
                 share one limit, so name it with ClientAddress::trust"
            );
        }
    }
}

impl Default for ClientAddress {
    fn default() -> Self {
        Self::new()
    }
}

impl Identify for ClientAddress {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        self.find(head).map(|address| self.client(address))
    }
}

impl fmt::Debug for ClientAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientAddress")
            .field("trust", &self.trust)
            .field("header", &self.header)
            .field("ipv4_prefix", &self.ipv4_prefix)
            .field("ipv6_prefix", &self.ipv6_prefix)
            .finish_non_exhaustive()
    }
}

fn lines<'a>(head: &Head<'a>, name: &HeaderName) -> ValueIter<'a, HeaderValue> {
    head.headers().get_all(name).into_iter()
}

/// The header in which proxies say whom they speak for.
///
/// It is one, never several: most proxies write one of them and hand on the others as the client sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForwardingHeader {
    /// `X-Forwarded-For`: addresses between commas.
    #[default]
    XForwardedFor,
    /// `Forwarded` of [RFC 7239](https://www.rfc-editor.org/rfc/rfc7239): what it says with `for`.
    Forwarded,
    /// Another header of the form of `X-Forwarded-For`, often with a single address, such as `X-Real-IP`. The proxy must
    /// replace what the client sent, or add to the right of it.
    Other(HeaderName),
}

/// Why addresses cannot be grouped like that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrefixError {
    /// No prefix of IPv4, or one that makes all addresses one client.
    Ipv4(u8),
    /// No prefix of IPv6, or one that makes all addresses one client.
    Ipv6(u8),
}

impl fmt::Display for PrefixError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(bits) => write!(f, "cannot group IPv4 addresses by {bits} bits: use 1 to 32"),
            Self::Ipv6(bits) => write!(f, "cannot group IPv6 addresses by {bits} bits: use 1 to 128"),
        }
    }
}

impl Error for PrefixError {}

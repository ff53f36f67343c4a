//! Whose request it is: clients by API key, by token, by signed-in user or by address.
//!
//! An [`Identify`] tells from the head of a request who its [`Client`] is. They are asked in order, and most services want
//! this one: the key if there is a valid one, else the user, else the address.
//!
//! ```
//! use tollgate::http::{Head, client::{ApiKey, ClientAddress, FromExtensions, Identify, Peer, Trust}};
//!
//! let clients = ApiKey::new()
//!     .valid_if(|key| key == "k-ann")
//!     .or(FromExtensions::<String>::new("user"))
//!     .or(ClientAddress::new().trust(Trust::networks(["10.0.0.0/8".parse()?])));
//!
//! let mut request = http::Request::get("/")
//!     .header("x-api-key", "made up")
//!     .header("x-forwarded-for", "192.0.2.99, 203.0.113.7")
//!     .body(())?;
//! request.extensions_mut().insert(Peer("10.0.0.1".parse()?));
//! let client = clients.identify(&Head::from(&request)).unwrap();
//! assert_eq!(client.expose().to_string(), "address:203.0.113.7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Order
//!
//! What comes first decides, so it should be what is hardest to come by. An identity that a client can make up is a new
//! limit for each one it makes up: a key nobody gave out, a token nobody checked. Have them validated, here or by a layer
//! around the limiter, or put the address first. Where made-up ones must cost something, too, as with logins, limit by the
//! address in a second policy.
//!
//! [`and`](Identify::and) makes one client of two: a user from one address. Parts are kept apart, so `("10.0.0.1", "1/x")`
//! and `("10.0.0.11", "/x")` are two clients, as are a key and an address of the same text.
//!
//! # Behind proxies
//!
//! Behind a proxy every peer is the proxy, and the client's address is in a header, `X-Forwarded-For` or `Forwarded`. To
//! that header each proxy adds, at the right end, the address it was called from. The rest is what its caller sent: anybody
//! can send one. [`ClientAddress`] therefore believes a part of it only if somebody trusted wrote it:
//!
//! 1. It starts at the peer. If that one is not trusted, it is the client, and the header is not looked at.
//! 2. Otherwise the rightmost entry is true. If its address is not trusted, it is the client; if it is, the next entry to
//!    the left is true, and so on. Several lines of the header are one list.
//! 3. If all are trusted, the leftmost is the client.
//! 4. An entry that cannot be read, or in a list of networks one without an address (`unknown`, `_name`), ends the walk: the
//!    client is the last trusted hop before it. To go on would be to believe what nobody vouches for.
//!
//! Trust is a set of networks or a number of hops. With hops, an entry without an address is passed like any other, since its
//! place alone makes it ours; if there are fewer entries than hops, the leftmost is the client; and a peer without an
//! address, as on a Unix socket, is a hop like any other.
//!
//! # Traps
//!
//! - **One header only.** A proxy that writes `X-Forwarded-For` hands on a `Forwarded` that the client made up, and the other
//!   way round. So the header is named in the configuration, and the other one is never a fallback.
//! - **Trust networks of proxies only.** If clients connect from a trusted network, each can be whoever it likes. To trust
//!   `0.0.0.0/0` is to let everybody choose their address.
//! - **Trust hops only where there is no other way in.** Whoever reaches the service directly, past a proxy that was
//!   counted, chooses their address, too.
//! - **Trusting nobody behind a proxy** makes all clients one. [`ClientAddress::ignored_a_proxy`] tells, and a warning does
//!   with the feature `tracing`.
//! - **Each trusted proxy must add its peer.** One that hands the header on as it came makes whatever the client wrote the
//!   rightmost entry, and so the truth.
//! - **Addresses are shared**, by an office or a provider's whole town. Set limits by address with that in mind.
//! - **Values are not logged.** `Debug` of a [`Client`] shows its kind; for the value there is [`Client::expose`].

mod address;
mod api_key;
mod bearer;
mod extension;
mod forwarded;
mod identify;
mod network;
mod peer;
mod secret;
mod trust;

pub use address::{ClientAddress, ForwardingHeader, PrefixError};
pub use api_key::ApiKey;
pub use bearer::Bearer;
pub use extension::FromExtensions;
pub use identify::{And, Identify, Or};
pub use network::{Network, NetworkError};
pub use peer::Peer;
pub use trust::Trust;

use http::{HeaderName, HeaderValue};
use ipnet::IpNet;
use std::fmt::{self, Display, Write};

/// Who a request is counted for.
///
/// What it was made from is part of it, so kinds never collide: the key `10.0.0.1` and the address 10.0.0.1 are two
/// clients. A limiter takes it as a key.
///
/// `Debug` names the kind only, never the value, so that what holds a client can be logged. To see the value, ask for
/// it: [`expose`](Client::expose).
///
/// ```
/// use tollgate::http::client::Client;
///
/// let client = Client::named("user", "ann");
/// assert_eq!(format!("{client:?}"), "Client(user)");
/// assert_eq!(client.expose().to_string(), r#"value:user="ann""#);
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Client(Identity);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Identity {
    /// The value of a header.
    Header(HeaderName, HeaderValue),
    /// A keyed hash of a bearer token.
    Token([u8; 16]),
    /// Anything else, in the name space of its kind.
    Named(&'static str, Box<str>),
    /// An address, or all of a network.
    Address(IpNet),
    /// Two in one.
    Both(Box<(Client, Client)>),
}

impl Client {
    /// A client known by a value of some `kind`, a name that separates it from all other kinds: `("user", 7)`.
    pub fn named(kind: &'static str, value: impl Display) -> Self {
        let mut text = String::new();
        // Fails only where `value` says so without a reason. What it has written so far has to do then.
        let _ = write!(text, "{value}");
        Self(Identity::Named(kind, text.into()))
    }

    /// The pair of this one and another, as one client. The order counts, and so does where a part ends.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(Identity::Both(Box::new((self, other))))
    }

    /// Whether it is named by an empty text.
    fn is_blank(&self) -> bool {
        matches!(&self.0, Identity::Named(_, value) if value.is_empty())
    }

    /// The kind and the value for a log, an admin page or a name in a store.
    ///
    /// A text of one line without control characters, and two clients never have the same. A bearer token shows its
    /// hash only.
    pub fn expose(&self) -> Exposed<'_> {
        Exposed(self)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn kind(identity: &Identity, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            match identity {
                Identity::Header(name, _) => f.write_str(name.as_str()),
                Identity::Token(_) => f.write_str("token"),
                Identity::Named(kind, _) => f.write_str(kind),
                Identity::Address(_) => f.write_str("address"),
                Identity::Both(both) => {
                    kind(&both.0.0, f)?;
                    f.write_str(" + ")?;
                    kind(&both.1.0, f)
                }
            }
        }
        f.write_str("Client(")?;
        kind(&self.0, f)?;
        f.write_str(")")
    }
}

/// Displays a client with its value; made by [`Client::expose`].
#[derive(Clone, Copy, Debug)]
pub struct Exposed<'a>(&'a Client);

impl Display for Exposed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.0 {
            Identity::Header(name, value) => write!(f, "header:{name}=\"{}\"", value.as_bytes().escape_ascii()),
            Identity::Token(hash) => {
                f.write_str("token:")?;
                hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Identity::Named(kind, value) => write!(f, "value:{}={value:?}", kind.escape_debug()),
            Identity::Address(network) if network.prefix_len() == network.max_prefix_len() => {
                write!(f, "address:{}", network.addr())
            }
            Identity::Address(network) => write!(f, "address:{network}"),
            Identity::Both(both) => write!(f, "({} + {})", both.0.expose(), both.1.expose()),
        }
    }
}

//! Whose request it is.

mod identify;

pub use identify::{And, Identify, Or};

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

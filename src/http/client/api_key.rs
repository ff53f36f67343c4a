//! [`ApiKey`], clients by the value of a header.

use super::secret::Secret;
use super::{Client, Identify, Identity};
use crate::http::Head;
use http::{HeaderName, HeaderValue};

/// Knows clients by an API key in a header, by default `X-API-Key`.
///
/// An empty value is no key, and whitespace around one is no part of it. Of several lines the first counts, as it does
/// for `HeaderMap::get`. Keys are compared byte by byte, and keys in different headers are different clients.
///
/// A service must refuse keys that it never gave out, or each made-up one is a client with a limit of its own. If that
/// happens further in than the limiter, say here which are valid; the others are passed over, to whatever is next.
///
/// ```
/// use tollgate::http::client::{ApiKey, ClientAddress, Identify};
///
/// let clients = ApiKey::new().valid_if(|key| ["k-ann", "k-ben"].contains(&key)).or(ClientAddress::new());
/// ```
#[derive(Clone, Debug)]
pub struct ApiKey {
    header: HeaderName,
    secret: Secret,
}

impl ApiKey {
    /// Reads `X-API-Key`.
    pub fn new() -> Self {
        const X_API_KEY: HeaderName = HeaderName::from_static("x-api-key");
        Self::header(X_API_KEY)
    }

    /// Reads another header: `ApiKey::header(HeaderName::from_static("x-tenant-key"))`.
    pub fn header(name: HeaderName) -> Self {
        Self { header: name, secret: Secret::default() }
    }

    /// Only keys that `valid` says yes to count. It is called for each request, so it should look into a table in memory.
    /// Keys that are not UTF-8 are not valid.
    #[must_use]
    pub fn valid_if(self, valid: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { secret: Secret::valid_if(valid), ..self }
    }

    /// The client of a key, as a request with it would be counted; `None` if the key does not count. For a look at a
    /// limit, or to reset it.
    pub fn client(&self, key: &HeaderValue) -> Option<Client> {
        let trimmed = self.secret.read(key.as_bytes())?;
        let key = if trimmed.len() == key.len() { key.clone() } else { HeaderValue::from_bytes(trimmed).ok()? };
        Some(Client(Identity::Header(self.header.clone(), key)))
    }
}

impl Default for ApiKey {
    fn default() -> Self {
        Self::new()
    }
}

impl Identify for ApiKey {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        self.client(head.headers().get(&self.header)?)
    }
}

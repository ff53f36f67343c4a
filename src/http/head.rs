//! [`Head`], a request without its body.

use http::{Extensions, HeaderMap, Method, Request, Uri, Version, request::Parts};
use std::fmt;

/// A view of a request without its body: all that a limiter looks at, whatever the body's type.
///
/// ```
/// use tollgate::http::Head;
///
/// let request = http::Request::post("/login").body(()).unwrap();
/// let head = Head::from(&request);
/// assert_eq!((head.method().as_str(), head.uri().path()), ("POST", "/login"));
/// ```
///
/// `Debug` leaves out the headers, the query and the extensions, since they hold what only the client should know.
#[derive(Clone, Copy)]
pub struct Head<'a> {
    method: &'a Method,
    uri: &'a Uri,
    version: Version,
    headers: &'a HeaderMap,
    extensions: &'a Extensions,
}

impl<'a> Head<'a> {
    /// The method.
    pub fn method(&self) -> &'a Method {
        self.method
    }

    /// The target, as this layer of the service sees it: a router that nests services may have cut its path.
    pub fn uri(&self) -> &'a Uri {
        self.uri
    }

    /// The version of HTTP.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The headers.
    pub fn headers(&self) -> &'a HeaderMap {
        self.headers
    }

    /// What the server and the outer layers have added, such as the peer's address or the signed-in user.
    pub fn extensions(&self) -> &'a Extensions {
        self.extensions
    }
}

impl<'a, B> From<&'a Request<B>> for Head<'a> {
    fn from(request: &'a Request<B>) -> Self {
        Self {
            method: request.method(),
            uri: request.uri(),
            version: request.version(),
            headers: request.headers(),
            extensions: request.extensions(),
        }
    }
}

impl<'a> From<&'a Parts> for Head<'a> {
    fn from(parts: &'a Parts) -> Self {
        Self {
            method: &parts.method,
            uri: &parts.uri,
            version: parts.version,
            headers: &parts.headers,
            extensions: &parts.extensions,
        }
    }
}

impl fmt::Debug for Head<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head")
            .field("method", self.method)
            .field("path", &self.uri.path())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

//! [`FromExtensions`], clients by what an outer layer has found out.

use super::{Client, Identify};
use crate::http::Head;
use std::fmt::{self, Display};
use std::marker::PhantomData;

/// Knows clients by a value in the extensions of the request, such as the user that an outer layer has signed in.
///
/// The value is taken as it displays; one that displays as nothing is no client. Its `kind` separates it from other
/// values that display the same. For a part of a value use a closure and [`Client::named`].
///
/// The layer that inserts the value has to wrap the limiter, or there is none yet.
///
/// ```
/// use tollgate::http::{Head, client::{Client, FromExtensions, Identify}};
///
/// #[derive(Clone)]
/// struct UserId(u64);
///
/// impl std::fmt::Display for UserId {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
///         self.0.fmt(f)
///     }
/// }
///
/// let users = FromExtensions::<UserId>::new("user");
/// let mut request = http::Request::new(());
/// assert_eq!(users.identify(&Head::from(&request)), None);
/// request.extensions_mut().insert(UserId(7));
/// assert_eq!(users.identify(&Head::from(&request)), Some(Client::named("user", 7)));
/// ```
pub struct FromExtensions<T> {
    kind: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T: Display + Send + Sync + 'static> FromExtensions<T> {
    /// Looks for a `T`, of this kind.
    pub const fn new(kind: &'static str) -> Self {
        Self { kind, value: PhantomData }
    }
}

impl<T: Display + Send + Sync + 'static> Identify for FromExtensions<T> {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        let client = Client::named(self.kind, head.extensions().get::<T>()?);
        (!client.is_blank()).then_some(client)
    }
}

impl<T> Clone for FromExtensions<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for FromExtensions<T> {}

impl<T> fmt::Debug for FromExtensions<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FromExtensions").field("kind", &self.kind).finish()
    }
}

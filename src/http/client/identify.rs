//! [`Identify`], what tells whose request it is, and how two of them make a third.

use super::Client;
use crate::http::Head;
use std::sync::Arc;

/// Tells whose request it is.
///
/// Closures implement it too:
///
/// ```
/// use tollgate::http::{Head, client::{Client, Identify}};
///
/// let tenant = |head: &Head<'_>| Some(Client::named("tenant", head.uri().host()?));
/// let request = http::Request::get("http://acme.example/").body(()).unwrap();
/// assert_eq!(tenant.identify(&Head::from(&request)), Some(Client::named("tenant", "acme.example")));
/// ```
pub trait Identify: Send + Sync + 'static {
    /// The client, or `None` if this request does not say who it is in the way that is looked at here.
    ///
    /// Called once for each request and policy, on the way in: it must not block.
    fn identify(&self, head: &Head<'_>) -> Option<Client>;

    /// The client as told by this, or else by `other`.
    fn or<I: Identify>(self, other: I) -> Or<Self, I>
    where
        Self: Sized,
    {
        Or(self, other)
    }

    /// The pair of both, as one client: say an address together with a user. `None` unless both tell.
    fn and<I: Identify>(self, other: I) -> And<Self, I>
    where
        Self: Sized,
    {
        And(self, other)
    }
}

impl<F> Identify for F
where
    F: Fn(&Head<'_>) -> Option<Client> + Send + Sync + 'static,
{
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        self(head)
    }
}

impl<I: Identify + ?Sized> Identify for Arc<I> {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        (**self).identify(head)
    }
}

/// Made by [`Identify::or`].
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

impl<A: Identify, B: Identify> Identify for Or<A, B> {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        self.0.identify(head).or_else(|| self.1.identify(head))
    }
}

/// Made by [`Identify::and`].
#[derive(Clone, Copy, Debug)]
pub struct And<A, B>(A, B);

impl<A: Identify, B: Identify> Identify for And<A, B> {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        Some(self.0.identify(head)?.and(self.1.identify(head)?))
    }
}

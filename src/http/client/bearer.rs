//! [`Bearer`], clients by a hash of their token.
//!
//! The hash is SipHash-2-4 with 128 bits: a pseudorandom function for short inputs, and the smallest dependency that is
//! one. Its key is what counts here. Whoever sees a hash, in a log or a store, cannot try tokens against it without the
//! key, as they could with a plain SHA-256; nor can they look for two tokens with one hash. With 128 bits, chance does
//! not find such a pair either.

use super::secret::Secret;
use super::{Client, Identify, Identity};
use crate::http::Head;
use http::header::AUTHORIZATION;
use siphasher::sip128::SipHasher24;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

/// Knows clients by the bearer token in `Authorization` ([RFC 6750](https://www.rfc-editor.org/rfc/rfc6750)).
///
/// The token is never kept, only a keyed 128-bit hash of it (SipHash-2-4). The key is drawn at random once in a process,
/// so all of its bearers agree, and no hash says anything to anybody else. Processes that share their limits need a
/// common key: [`keyed`](Bearer::keyed).
///
/// The scheme is compared without case; another scheme, an empty token or no header is no client. The first line counts.
///
/// As with an [`ApiKey`](super::ApiKey), a token that nobody has checked is worth nothing: everybody can make up more. Where
/// the check is made by an outer layer, limit by what it found out instead:
/// [`FromExtensions`](super::FromExtensions).
#[derive(Clone)]
pub struct Bearer {
    hasher: SipHasher24,
    secret: Secret,
}

impl Bearer {
    /// Hashes tokens under this process's random key.
    pub fn new() -> Self {
        static PROCESS: OnceLock<SipHasher24> = OnceLock::new();
        let hasher = *PROCESS.get_or_init(|| {
            // The one source of randomness in std: two outputs under a key from the system.
            let random = RandomState::new();
            SipHasher24::new_with_keys(random.hash_one(0), random.hash_one(1))
        });
        Self { hasher, secret: Secret::default() }
    }

    /// Hashes tokens under a key of your own, 16 random bytes to be kept secret.
    pub fn keyed(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key), secret: Secret::default() }
    }

    /// Only tokens that `valid` says yes to count. It is called for each request, so it must not block. Tokens that are
    /// not UTF-8 are not valid.
    #[must_use]
    pub fn valid_if(self, valid: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { secret: Secret::valid_if(valid), ..self }
    }

    /// The client of a token, as a request with it would be counted; `None` if the token does not count. For a look at a
    /// limit, or to reset it.
    pub fn client(&self, token: impl AsRef<[u8]>) -> Option<Client> {
        let token = self.secret.read(token.as_ref())?;
        Some(Client(Identity::Token(self.hasher.hash(token).as_bytes())))
    }
}

impl Default for Bearer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bearer").field("secret", &self.secret).finish_non_exhaustive()
    }
}

impl Identify for Bearer {
    fn identify(&self, head: &Head<'_>) -> Option<Client> {
        let credentials = head.headers().get(AUTHORIZATION)?.as_bytes().trim_ascii_start();
        let (scheme, token) = credentials.split_at(credentials.iter().position(u8::is_ascii_whitespace)?);
        scheme.eq_ignore_ascii_case(b"bearer").then(|| self.client(token))?
    }
}

//! [`Secret`], the part that API keys and bearer tokens share: what counts as one.

use std::fmt;
use std::sync::Arc;

/// Which values count: not empty, and given out by the service where it can tell.
#[derive(Clone, Default)]
pub(super) struct Secret {
    valid: Option<Arc<Valid>>,
}

type Valid = dyn Fn(&str) -> bool + Send + Sync;

impl Secret {
    pub(super) fn valid_if(valid: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        Self { valid: Some(Arc::new(valid)) }
    }

    /// The value without the whitespace around it, if it counts.
    ///
    /// HTTP/1 drops that whitespace and HTTP/2 hands it on. A service that trims its keys would give whoever adds some a
    /// limit of their own with each space.
    pub(super) fn read<'a>(&self, raw: &'a [u8]) -> Option<&'a [u8]> {
        let value = raw.trim_ascii();
        let counts = !value.is_empty()
            && self.valid.as_ref().is_none_or(|valid| str::from_utf8(value).is_ok_and(|value| valid(value)));
        counts.then_some(value)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.valid.is_some() { "validated" } else { "any" })
    }
}

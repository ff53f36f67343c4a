//! Paths that a policy or an exemption is for.

use std::borrow::Cow;

/// A path, or with `/*` at its end all that is below it and itself.
#[derive(Clone, Debug)]
pub(super) struct Pattern(Cow<'static, str>);

impl Pattern {
    pub(super) fn new(pattern: impl Into<Cow<'static, str>>) -> Self {
        Self(pattern.into())
    }

    /// Compares bytes, as routers do: nothing is decoded, and no slash is dropped.
    pub(super) fn matches(&self, path: &str) -> bool {
        match self.0.strip_suffix("/*") {
            Some(root) => path.strip_prefix(root).is_some_and(|below| below.is_empty() || below.starts_with('/')),
            None => path == self.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_takes_in_the_root_and_all_below() {
        for (pattern, matching, other) in [
            ("/health", &["/health"][..], &["/health/", "/healthy", "/", "/Health", "/a/health", "/%68ealth"][..]),
            ("/api/*", &["/api", "/api/", "/api/v1", "/api/v1/x"], &["/apis", "/", "/API", "//api/v1"]),
            ("/*", &["/", "/a", "/a/b"], &["*"]),
            ("", &[""], &["/"]),
        ] {
            let pattern = Pattern::new(pattern);
            assert!(matching.iter().all(|path| pattern.matches(path)), "{pattern:?}");
            assert!(!other.iter().any(|path| pattern.matches(path)), "{pattern:?}");
        }
    }
}

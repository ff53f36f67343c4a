//! [`Headers`]: what a response tells a client about its limits.
//!
//! There are two families, beside `Retry-After`. The older one has no specification, only users. The newer one is a draft
//! of the IETF, of Structured Fields (RFC 9651), whose names for the numbers in `RateLimit` changed between versions.

use super::decision::{Answer, Decision};
use http::{HeaderMap, HeaderName, HeaderValue};
use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const X_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const X_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// The largest integer of Structured Fields.
const LARGEST: u64 = 999_999_999_999_999;

/// Which headers tell clients about their limits, and on which responses. `Retry-After` is not among them: a refusal that
/// a wait can mend always has it.
///
/// The default is `RateLimit` and `RateLimit-Policy` on refusals only.
///
/// ```
/// use tollgate::http::{Draft, Headers, Reset};
///
/// let both = Headers::rate_limit(Draft::Bridge).and(Headers::x_rate_limit(Reset::After)).on_every_response();
/// # let _ = both;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Headers {
    rate_limit: Option<Draft>,
    x_rate_limit: Option<Reset>,
    every_response: bool,
    partition_key: bool,
}

/// The syntax of `RateLimit`: a draft, which the versions of draft-ietf-httpapi-ratelimit-headers write differently.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Draft {
    /// The parameters of 11 and of 12. Either version ignores those of the other.
    #[default]
    Bridge,
    /// Draft 11: `r` for what is left, `t` for the time until it is whole.
    V11,
    /// Draft 12: `a` and `w` for the same.
    V12,
}

/// What `X-RateLimit-Reset` counts from: servers differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reset {
    /// Seconds from now.
    #[default]
    After,
    /// Seconds since 1970, by the system's clock.
    Epoch,
}

impl Default for Headers {
    fn default() -> Self {
        Self::rate_limit(Draft::default())
    }
}

impl Headers {
    /// No headers.
    pub const fn none() -> Self {
        Self { rate_limit: None, x_rate_limit: None, every_response: false, partition_key: false }
    }

    /// `RateLimit-Policy` and `RateLimit`, in the syntax of a draft:
    ///
    /// ```text
    /// RateLimit-Policy: "burst";q=10;w=1, "hourly";q=1000;w=3600
    /// RateLimit: "burst";r=0;t=1;a=0;w=1
    /// ```
    ///
    /// `q` is the [limit](Answer::limit) and `w` in `RateLimit-Policy` the [window](Answer::window). `RateLimit` says what
    /// is left, and for how many seconds that is to last: until the limit is whole, or on a refusal, until the same request
    /// passes. A refusal has the policies that refuse in `RateLimit`, and all in `RateLimit-Policy`.
    pub const fn rate_limit(draft: Draft) -> Self {
        Self { rate_limit: Some(draft), ..Self::none() }
    }

    /// `X-RateLimit-Limit`, `X-RateLimit-Remaining` and `X-RateLimit-Reset`, of the policy that leaves the least.
    pub const fn x_rate_limit(reset: Reset) -> Self {
        Self { x_rate_limit: Some(reset), ..Self::none() }
    }

    /// These and those of `other`.
    pub const fn and(self, other: Self) -> Self {
        Self {
            rate_limit: if other.rate_limit.is_some() { other.rate_limit } else { self.rate_limit },
            x_rate_limit: if other.x_rate_limit.is_some() { other.x_rate_limit } else { self.x_rate_limit },
            every_response: self.every_response || other.every_response,
            partition_key: self.partition_key || other.partition_key,
        }
    }

    /// On every response to a request that was counted, not on refusals only.
    pub const fn on_every_response(self) -> Self {
        Self { every_response: true, ..self }
    }

    /// Adds `pk` to the fields of the draft, which tells apart whose limit is spoken of: by a hash of the client that is
    /// keyed at random when the layer is built, never by the client itself. Not sent for a [`Gate`](crate::Gate).
    pub const fn with_partition_key(self) -> Self {
        Self { partition_key: true, ..self }
    }

    /// Whether a response that is no refusal gets any.
    pub(super) fn are_on_every_response(&self) -> bool {
        self.every_response && (self.rate_limit.is_some() || self.x_rate_limit.is_some())
    }

    /// Whether clients have to be told apart.
    pub(super) fn have_partition_keys(&self) -> bool {
        self.partition_key && self.rate_limit.is_some()
    }

    /// Adds what `decision` says.
    pub(super) fn write(&self, decision: &Decision, headers: &mut HeaderMap) {
        if let Some(reset) = self.x_rate_limit {
            write_x(reset, decision, headers);
        }
        if let Some(draft) = self.rate_limit {
            write_draft(draft, decision, headers);
        }
    }
}

fn write_x(reset: Reset, decision: &Decision, headers: &mut HeaderMap) {
    let refusing = decision.answers().filter(|answer| answer.refuses());
    let longest = refusing.max_by_key(|answer| answer.retry_after().unwrap_or(Duration::MAX));
    let Some(answer) = longest.or_else(|| decision.tightest()) else { return };
    // A layer further in may have said the same of a tighter limit.
    let said = headers.get(&X_REMAINING).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    if said.is_some_and(|said| said < answer.remaining()) {
        return;
    }
    let from = match reset {
        Reset::After => Duration::ZERO,
        Reset::Epoch => SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
    };
    headers.insert(X_LIMIT, answer.limit().into());
    headers.insert(X_REMAINING, answer.remaining().into());
    headers.insert(X_RESET, whole_seconds(from.saturating_add(answer.reset_after())).into());
}

fn write_draft(draft: Draft, decision: &Decision, headers: &mut HeaderMap) {
    let refused = decision.answers().any(Answer::refuses);
    let (mut policies, mut limits) = (String::new(), String::new());
    for answer in decision.answers().filter(|answer| !answer.is_shadow()) {
        let (quota, window) = (answer.limit().min(LARGEST), seconds(answer.window()));
        let comma = if policies.is_empty() { "" } else { ", " };
        let partition = answer.partition.map(partition_key).unwrap_or_default();
        // Writing to a string never fails.
        let _ = write!(policies, "{comma}\"{}\";q={quota};w={window}{partition}", answer.policy());
        if refused && !answer.refuses() {
            continue;
        }
        let (left, lasts) =
            (answer.remaining().min(LARGEST), seconds(answer.retry_after().unwrap_or(answer.reset_after())));
        let comma = if limits.is_empty() { "" } else { ", " };
        let _ = match draft {
            Draft::V11 => write!(limits, "{comma}\"{}\";r={left};t={lasts}", answer.policy()),
            Draft::V12 => write!(limits, "{comma}\"{}\";a={left};w={lasts}", answer.policy()),
            Draft::Bridge => write!(limits, "{comma}\"{}\";r={left};t={lasts};a={left};w={lasts}", answer.policy()),
        };
        limits.push_str(&partition);
    }
    for (name, list) in [(POLICY, policies), (RATE_LIMIT, limits)] {
        // Several lines of a list are one list: what a layer further in has said stays.
        if let (false, Ok(value)) = (list.is_empty(), HeaderValue::try_from(list)) {
            headers.append(name, value);
        }
    }
}

/// The parameter `pk`: a byte sequence, which Structured Fields write in Base64 between colons.
fn partition_key(hash: u64) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // 64 bits are ten digits of six bits and one of four, filled up with zeros.
    let digits = (0..11).map(|place| u128::from(hash) << 2 >> (60 - 6 * place) & 63);
    digits.fold(";pk=:".to_owned(), |text, digit| text + char::from(DIGITS[digit as usize]).encode_utf8(&mut [0; 4]))
        + "=:"
}

/// Seconds for a Structured Field that must not be 0.
fn seconds(duration: Duration) -> u64 {
    whole_seconds(duration).clamp(1, LARGEST)
}

/// Whole seconds, rounded up.
pub(super) fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs().saturating_add((duration.subsec_nanos() > 0).into())
}

/// Whether a text may be a policy's name: `[a-z][a-z0-9_.-]*`, which needs no escapes, wherever it stands.
pub(super) fn is_name(name: &str) -> bool {
    let rest = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.-".contains(&byte);
    name.bytes().next().is_some_and(|first| first.is_ascii_lowercase()) && name.bytes().all(rest)
}

#[cfg(test)]
mod tests;

//! What a layer reports: counters through the `metrics` facade and events through `tracing`, each behind its feature.
//!
//! Neither says who a client is, unless [`log_clients`](super::RateLimitLayerBuilder::log_clients) asks for it in events.

use super::client::Client;
use super::decision::Answer;
use super::policy::Policy;
use crate::Reason;

/// What a policy's answer counts as.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "metrics"), allow(dead_code))]
enum CountedAs {
    Allowed,
    Refused,
    Never,
    ShadowRefused,
}

impl CountedAs {
    fn of(answer: &Answer) -> Self {
        match answer.reason() {
            None => Self::Allowed,
            Some(_) if answer.is_shadow() => Self::ShadowRefused,
            Some(Reason::Never) => Self::Never,
            Some(_) => Self::Refused,
        }
    }
}

/// The counters of one policy.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    #[cfg(feature = "metrics")]
    keys: facade::Keys,
}

impl Meter {
    #[cfg_attr(not(feature = "metrics"), allow(unused_variables))]
    pub(super) fn new(policy: &Policy) -> Self {
        Self {
            #[cfg(feature = "metrics")]
            keys: facade::Keys::new(policy.name()),
        }
    }

    /// Reports an answer that counted: of a request that was let through, or of a policy that refused one.
    #[cfg_attr(not(all(feature = "metrics", feature = "tracing")), allow(unused_variables))]
    #[inline]
    pub(super) fn report(&self, answer: &Answer, client: Option<&Client>) {
        let outcome = CountedAs::of(answer);
        #[cfg(feature = "metrics")]
        self.keys.count(outcome);
        #[cfg(feature = "tracing")]
        log(outcome, answer, client);
    }

    /// Reports what the policy holds.
    #[cfg(feature = "metrics")]
    pub(super) fn report_upkeep(&self, policy: &Policy) {
        if let Some((clients, migrations)) = policy.upkeep() {
            self.keys.upkeep(clients, migrations);
        }
    }
}

#[cfg(feature = "tracing")]
fn log(outcome: CountedAs, answer: &Answer, client: Option<&Client>) {
    let Some(reason) = answer.reason() else { return };
    let message = match outcome {
        CountedAs::ShadowRefused => "request would have been refused",
        _ => "request refused",
    };
    tracing::debug!(
        target: "tollgate",
        policy = answer.policy(),
        ?reason,
        retry_after = ?answer.retry_after(),
        client = client.map(|client| tracing::field::display(client.expose())),
        "{message}"
    );
}

#[cfg(feature = "metrics")]
mod facade {
    use super::CountedAs;
    use metrics::{Key, KeyName, Label, Level, Metadata, SharedString, Unit};

    const REQUESTS: &str = "tollgate_requests_total";
    const CLIENTS: &str = "tollgate_clients";
    const MIGRATIONS: &str = "tollgate_migrations_total";

    const METADATA: Metadata<'static> = Metadata::new("tollgate", Level::INFO, Some(module_path!()));

    /// Names and labels, made once.
    #[derive(Clone, Debug)]
    pub(super) struct Keys {
        requests: [Key; 4],
        clients: Key,
        migrations: Key,
    }

    impl Keys {
        pub(super) fn new(policy: &str) -> Self {
            let label = || Label::new("policy", policy.to_owned());
            let requests = |outcome: &'static str| {
                Key::from_parts(REQUESTS, vec![label(), Label::from_static_parts("outcome", outcome)])
            };
            Self {
                requests: ["allowed", "refused", "never", "shadow_refused"].map(requests),
                clients: Key::from_parts(CLIENTS, vec![label()]),
                migrations: Key::from_parts(MIGRATIONS, vec![label()]),
            }
        }

        /// Asks the recorder anew each time: it may be installed after the layer was built.
        pub(super) fn count(&self, outcome: CountedAs) {
            let key = &self.requests[outcome as usize];
            metrics::with_recorder(|recorder| recorder.register_counter(key, &METADATA).increment(1));
        }

        pub(super) fn upkeep(&self, clients: usize, migrations: u64) {
            metrics::with_recorder(|recorder| {
                recorder.register_gauge(&self.clients, &METADATA).set(clients as f64);
                recorder.register_counter(&self.migrations, &METADATA).absolute(migrations);
            });
        }
    }

    /// Says what the metrics are.
    pub(in super::super) fn describe() {
        let describe = |name: &'static str| (KeyName::from_const_str(name), Some(Unit::Count));
        metrics::with_recorder(|recorder| {
            let text = |text: &'static str| SharedString::const_str(text);
            let (name, unit) = describe(REQUESTS);
            recorder.describe_counter(name, unit, text("Requests that a policy has decided on, by outcome."));
            let (name, unit) = describe(CLIENTS);
            recorder.describe_gauge(name, unit, text("Clients that a policy's limiter holds."));
            let (name, unit) = describe(MIGRATIONS);
            recorder.describe_counter(name, unit, text("Times that a policy's clients have moved to another table."));
        });
    }
}

#[cfg(feature = "metrics")]
pub(super) use facade::describe;

//! Metrics and events: what they count, and that they tell nobody who a client is.

use super::support::*;
use http::{Request, Response};
use metrics_exporter_prometheus::PrometheusBuilder;
use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use tollgate::Quota;
use tollgate::http::client::ApiKey;
use tollgate::http::{Policy, RateLimitLayer, RateLimitLayerBuilder};
use tower::{Service, ServiceBuilder, service_fn};
use tracing_subscriber::filter::LevelFilter;

const KEY: &str = "s3cret-key";

fn builder() -> RateLimitLayerBuilder {
    RateLimitLayer::builder()
        .policy(Policy::new("seven", frozen(Quota::per_hour(7))).cost_by(|head| head.uri().path().len() as u64))
        .policy(Policy::new("roomy", frozen(Quota::per_hour(100))))
        .policy(Policy::new("tried", frozen(Quota::per_hour(5))).shadow())
        .identify(ApiKey::new())
}

/// Seven that pass, three that do not, and one that never can.
fn eleven_requests(layer: &RateLimitLayer) {
    let service = service_fn(async |_: Request<()>| Ok::<_, Infallible>(Response::new(())));
    let mut service = ServiceBuilder::new().layer(layer.clone()).service(service);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for path in [["/"; 10].as_slice(), &["/too-long"]].concat() {
        let request = Request::get(path).header("x-api-key", KEY).body(()).unwrap();
        let _ = runtime.block_on(service.call(request));
    }
}

#[test]
fn metrics_count_by_policy_and_outcome() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let page = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let layer = builder().build().unwrap();
        eleven_requests(&layer);
        layer.publish_metrics();
    });
    let page = page.render();
    for line in [
        r#"tollgate_requests_total{policy="seven",outcome="allowed"} 7"#,
        r#"tollgate_requests_total{policy="seven",outcome="refused"} 3"#,
        r#"tollgate_requests_total{policy="seven",outcome="never"} 1"#,
        // A request that another policy refuses was not charged here.
        r#"tollgate_requests_total{policy="roomy",outcome="allowed"} 7"#,
        r#"tollgate_requests_total{policy="tried",outcome="allowed"} 5"#,
        r#"tollgate_requests_total{policy="tried",outcome="shadow_refused"} 2"#,
        r#"tollgate_clients{policy="seven"} 1"#,
        r#"tollgate_migrations_total{policy="seven"} 0"#,
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    assert!(!page.contains(KEY), "{page}");
}

/// Where events go.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn events(layer: &RateLimitLayer) -> String {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    tracing::subscriber::with_default(subscriber, || eleven_requests(layer));
    String::from_utf8(log.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn events_name_the_policy_and_no_client_unless_asked_to() {
    let events_without = events(&builder().build().unwrap());
    let count = |text: &str| events_without.lines().filter(|line| line.contains(text)).count();
    assert_eq!((count("request refused"), count("request would have been refused")), (4, 2), "{events_without}");
    assert!(count(r#"policy="seven" reason=Never retry_after=None"#) == 1, "{events_without}");
    assert!(!events_without.contains(KEY));
    assert!(events(&builder().log_clients().build().unwrap()).contains(KEY));
}

//! Around a tonic server, asked by a tonic client.

use super::support::*;
use std::time::Duration;
use tollgate::http::client::ClientAddress;
use tollgate::http::{Policy, RateLimitLayer, WhenUnknown};
use tollgate::{ManualClock, Quota};
use tonic::transport::server::TcpConnectInfo;
use tonic::transport::{Channel, Server};
use tonic::{Code, Status};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_types::StatusExt;

async fn client(layer: RateLimitLayer) -> HealthClient<Channel> {
    let (listener, address) = listen().await;
    let (_, health) = tonic_health::server::health_reporter();
    let incoming = tonic::transport::server::TcpIncoming::from(listener);
    tokio::spawn(Server::builder().layer(layer).add_service(health).serve_with_incoming(incoming));
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(channel.connect().await.unwrap())
}

async fn check(client: &mut HealthClient<Channel>) -> Result<(), Status> {
    client.check(HealthCheckRequest { service: String::new() }).await.map(drop)
}

#[tokio::test]
async fn a_refusal_is_a_status_with_a_delay_and_no_error_of_transport() {
    let clock = ManualClock::new();
    let mut client = client(RateLimitLayer::new(limiter(Quota::per_minute(2), &clock))).await;
    assert!(check(&mut client).await.is_ok() && check(&mut client).await.is_ok());

    clock.advance(Duration::from_nanos(1));
    let refused = check(&mut client).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::ResourceExhausted, "Rate limit exceeded. Retry after 30 seconds.")
    );
    let metadata = refused.metadata();
    assert_eq!(metadata.get("grpc-retry-pushback-ms").unwrap(), "30000");
    assert_eq!(metadata.get("cache-control").unwrap(), "no-store");
    assert!(metadata.get("retry-after").is_none());
    let retry = refused.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(retry, Duration::from_secs(30) - Duration::from_nanos(1));

    clock.advance(retry);
    assert!(check(&mut client).await.is_ok());
}

#[tokio::test]
async fn a_call_that_can_never_pass_is_not_to_be_retried() {
    let policy = Policy::new("heavy", frozen(Quota::per_minute(2))).cost(3);
    let mut client = client(RateLimitLayer::builder().policy(policy).build().unwrap()).await;
    let refused = check(&mut client).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(refused.metadata().get("grpc-retry-pushback-ms").unwrap(), "-1");
    assert!(refused.get_details_retry_info().is_none());
}

#[tokio::test]
async fn the_peer_is_what_tonic_has_told() {
    let peer =
        ClientAddress::new().peer_from(|head| Some(head.extensions().get::<TcpConnectInfo>()?.remote_addr()?.ip()));
    let limit = frozen(Quota::per_minute(1));
    let layer = RateLimitLayer::builder().policy(limit.clone()).identify(peer).when_unknown(WhenUnknown::Refuse);
    let mut client = client(layer.build().unwrap()).await;
    assert!(check(&mut client).await.is_ok());
    assert_eq!(check(&mut client).await.unwrap_err().code(), Code::ResourceExhausted);
    let loopback = ClientAddress::new().client("127.0.0.1".parse().unwrap());
    assert_eq!(limit.peek(&loopback).remaining(), 0);
}

#[tokio::test]
async fn a_client_who_must_be_known_and_is_not_has_no_permission() {
    let layer = RateLimitLayer::builder()
        .policy(frozen(Quota::per_minute(2)))
        .when_unknown(WhenUnknown::Refuse)
        .build()
        .unwrap();
    let refused = check(&mut client(layer).await).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.message()),
        (Code::PermissionDenied, "The client of this request is not known.")
    );
}

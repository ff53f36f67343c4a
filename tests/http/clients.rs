//! Whose request it is, over real sockets: forged and malformed headers, keys, bytes that are no text.

use super::support::*;
use axum::{Router, routing::get};
use http::Method;
use tollgate::Quota;
use tollgate::http::RateLimitLayer;
use tollgate::http::client::{ApiKey, Bearer, ClientAddress, Identify, Trust};

async fn connect(limit: &Manual, clients: impl Identify) -> Client {
    let layer = RateLimitLayer::builder().policy(limit.clone()).identify(clients).build().unwrap();
    Client::connect(serve(Router::new().route("/", get(async || "hello")).layer(layer)).await).await
}

fn loopback() -> ClientAddress {
    ClientAddress::new().trust(Trust::networks(["127.0.0.0/8".parse().unwrap()]))
}

#[tokio::test]
async fn a_forwarded_header_from_nobody_we_trust_makes_no_other_client() {
    let limit = frozen(Quota::per_hour(5));
    let clients = ClientAddress::new();
    let mut client = connect(&limit, clients.clone()).await;
    let mut passed = 0;
    for n in 0..100 {
        let address = format!("203.0.113.{n}");
        let forwarded = format!("for={address}");
        let headers = [("x-forwarded-for", &*address), ("forwarded", &*forwarded), ("x-real-ip", &*address)];
        passed += u32::from(client.send(Method::GET, "/", &headers).await.status == 200);
    }
    assert_eq!((passed, limit.len()), (5, 1));
    assert!(clients.ignored_a_proxy());
}

#[tokio::test]
async fn behind_a_trusted_proxy_each_client_has_its_own_limit() {
    let limit = frozen(Quota::per_hour(1));
    let mut client = connect(&limit, loopback()).await;
    for (lines, status) in [
        (&["203.0.113.7"][..], 200),
        // The same client: with a port, behind what it made up, over two lines, as IPv4 in IPv6.
        (&["203.0.113.7:5678"], 429),
        (&["1.2.3.4, 203.0.113.7"], 429),
        (&["1.2.3.4", "203.0.113.7, 127.0.0.9"], 429),
        (&["::ffff:203.0.113.7"], 429),
        (&["[2001:db8::1]:443"], 200),
        (&["2001:db8::ffff:2"], 429),
        (&["2001:db8:0:1::1"], 200),
        // What cannot be read ends the walk at the proxy, however it changes.
        (&["203.0.113.8, garbage"], 200),
        (&["203.0.113.9, \u{1f980}"], 429),
        (&[","], 429),
    ] {
        let headers: Vec<_> = lines.iter().map(|line| ("X-Forwarded-For", *line)).collect();
        assert_eq!(client.send(Method::GET, "/", &headers).await.status, status, "{lines:?}");
    }
}

#[tokio::test]
async fn hostile_headers_are_answered_like_any_other() {
    let limit = frozen(Quota::per_hour(1000));
    let mut client = connect(&limit, ApiKey::new().or(Bearer::new()).or(loopback())).await;
    let long = "1,".repeat(4000);
    for value in ["", " ", "\u{80}\u{ff}", "a\tb", "\"", "{\"$ne\":null}", "%00%0d%0a", "::::::", "for=;for", &long] {
        for name in ["x-api-key", "authorization", "x-forwarded-for", "forwarded", "accept", "content-type", "origin"] {
            assert_eq!(client.send(Method::GET, "/", &[(name, value)]).await.status, 200, "{name}: {value:?}");
        }
    }
}

#[tokio::test]
async fn a_key_that_reads_like_an_address_is_somebody_else() {
    let limit = frozen(Quota::per_hour(1));
    let mut client = connect(&limit, ApiKey::new().or(Bearer::new()).or(ClientAddress::new())).await;
    for (name, value, status) in [
        ("x-other", "", 200),
        ("x-other", "", 429),
        ("x-api-key", "127.0.0.1", 200),
        ("x-api-key", "127.0.0.1", 429),
        ("authorization", "Bearer 127.0.0.1", 200),
        ("authorization", "Bearer 127.0.0.1", 429),
    ] {
        assert_eq!(client.send(Method::GET, "/", &[(name, value)]).await.status, status, "{name}: {value}");
    }
}

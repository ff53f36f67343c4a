//! What is left of HTTP once a request has become a stream, as for a WebSocket: the layer sees the request that opens it,
//! and nothing of what comes after. Its messages draw from the same limit if the code that reads them says so.

use super::support::*;
use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http::StatusCode;
use http::header::{CONNECTION, UPGRADE};
use hyper::upgrade::{OnUpgrade, Upgraded, on};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tollgate::http::client::{self, ApiKey, Identify};
use tollgate::http::{Head, RateLimitLayer};
use tollgate::{ManualClock, Quota};

/// What the handlers know of the limit: the same limiter, and the same way to tell clients apart, as the layer.
#[derive(Clone)]
struct Limits {
    limiter: Manual,
    clients: ApiKey,
}

impl Limits {
    fn layer(&self) -> RateLimitLayer {
        let builder = RateLimitLayer::builder().policy(self.limiter.clone()).identify(self.clients.clone());
        builder.build().unwrap()
    }
}

/// Agrees to the upgrade, and answers each line that comes then.
async fn open(State(limits): State<Limits>, mut request: Request) -> Response {
    let client = limits.clients.identify(&Head::from(&request)).unwrap();
    tokio::spawn(answer(on(&mut request), limits.limiter, client));
    (StatusCode::SWITCHING_PROTOCOLS, [(CONNECTION, "upgrade"), (UPGRADE, "lines")]).into_response()
}

async fn answer(stream: OnUpgrade, limiter: Manual, client: client::Client) {
    let mut stream: BufReader<TokioIo<Upgraded>> = BufReader::new(TokioIo::new(stream.await.unwrap()));
    let mut line = String::new();
    while stream.read_line(&mut line).await.unwrap() > 0 {
        let answer = match limiter.check(&client) {
            Ok(allowed) => format!("{} left\n", allowed.remaining()),
            Err(denied) => format!("wait {:?}\n", denied.retry_after().unwrap()),
        };
        stream.write_all(answer.as_bytes()).await.unwrap();
        line.clear();
    }
}

/// The client's end of a stream.
struct Lines(BufReader<TcpStream>);

impl Lines {
    async fn open(address: SocketAddr, key: &str) -> Self {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!(
            "GET /stream HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: lines\r\nx-api-key: {key}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.unwrap());
        }
        assert!(head.starts_with(b"HTTP/1.1 101 "), "{}", head.escape_ascii());
        Self(BufReader::new(stream))
    }

    async fn send(&mut self) -> String {
        self.0.write_all(b"hello\n").await.unwrap();
        let mut answer = String::new();
        self.0.read_line(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test]
async fn messages_of_a_stream_draw_from_the_limit_of_requests() {
    let clock = ManualClock::new();
    let limits = Limits { limiter: limiter(Quota::per_minute(15), &clock), clients: ApiKey::new() };
    // Only opened beside the layer, so that all 15 are left to messages.
    let app = Router::new()
        .route("/", any(async || "hello").layer(limits.layer()))
        .route("/stream", get(open))
        .with_state(limits);
    let address = serve(app).await;
    let mut ann = Lines::open(address, "ann").await;
    for left in (0..15).rev() {
        assert_eq!(ann.send().await, format!("{left} left\n"));
    }
    assert_eq!(ann.send().await, "wait 4s\n");

    // Nor by another stream or a request, and somebody else is not concerned.
    assert_eq!(Lines::open(address, "ann").await.send().await, "wait 4s\n");
    assert_eq!(Lines::open(address, "ben").await.send().await, "14 left\n");
    let mut client = Client::connect(address).await;
    let mut status = async |key| client.send(http::Method::GET, "/", &[("x-api-key", key)]).await.status.as_u16();
    assert_eq!([status("ann").await, status("ben").await], [429, 200]);
    clock.advance(Duration::from_secs(4));
    assert_eq!(status("ann").await, 200);
    assert_eq!(ann.send().await, "wait 4s\n");
}

#[tokio::test]
async fn behind_the_layer_to_open_a_stream_costs_as_a_request() {
    let limits = Limits { limiter: frozen(Quota::per_minute(15)), clients: ApiKey::new() };
    let app = Router::new().route("/stream", get(open)).layer(limits.layer()).with_state(limits);
    let mut ann = Lines::open(serve(app).await, "ann").await;
    assert_eq!(ann.send().await, "13 left\n");
}

//! Servers on free ports of the loopback, and a client with a connection of its own.

use axum::Router;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use std::net::SocketAddr;
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Limiter, ManualClock, Quota, TokenBucket};

pub type Manual = Limiter<TokenBucket, ManualClock>;

/// A limiter whose clock stands still until it is moved.
pub fn limiter(quota: Quota, clock: &ManualClock) -> Manual {
    Limiter::token_bucket(quota).clock(clock.clone()).build().unwrap()
}

/// A limiter whose clock stands still.
pub fn frozen(quota: Quota) -> Manual {
    limiter(quota, &ManualClock::new())
}

pub async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Serves an app until the test ends.
pub async fn serve(app: Router) -> SocketAddr {
    let (listener, address) = listen().await;
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async { axum::serve(listener, service).await.unwrap() });
    address
}

/// One connection.
pub struct Client(SendRequest<Full<Bytes>>);

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (sender, connection) = handshake(stream).await.unwrap();
        tokio::spawn(connection);
        Self(sender)
    }

    pub async fn send(&mut self, method: Method, path: &str, headers: &[(&str, &str)]) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, value.as_bytes());
        }
        self.0.ready().await.unwrap();
        let response = self.0.send_request(request.body(Full::default()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        Reply { status: parts.status, headers: parts.headers, body }
    }

    pub async fn get(&mut self, path: &str) -> Reply {
        self.send(Method::GET, path, &[]).await
    }

    pub async fn status(&mut self, path: &str) -> u16 {
        self.get(path).await.status.as_u16()
    }

    /// The statuses of so many requests.
    pub async fn statuses(&mut self, path: &str, requests: usize) -> Vec<u16> {
        let mut statuses = Vec::new();
        for _ in 0..requests {
            statuses.push(self.status(path).await);
        }
        statuses
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

//! A small HTTP API with limits for its clients, and beside it one of them done wrong.
//!
//! ```text
//! cargo run --release --example server
//! curl -i -H 'X-API-Key: alice' http://127.0.0.1:8123/api/data
//! ```
//!
//! All there is to know about tollgate is in `app.rs`, where the limits are put around the routes. `race.rs` is the one
//! done wrong, and `shared.rs` the same in Redis or Valkey.

mod app;
mod race;
mod shared;

use clap::Parser;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;
use tokio::net::TcpListener;
use tollgate::Quota;
use tollgate::http::client::Network;

/// Serves an API that limits each client, known by its X-API-Key header or else by its IP address.
#[derive(Parser)]
#[command(after_help = "\
Routes:
  /health           never limited
  /metrics          for Prometheus, never limited
  /api/data         limited
  /api/data-safe    the same, on the same limit
  /api/data-unsafe  limited by a check-then-act race: try 30 requests at once
  /api/report       limited, and costs as much as five others
  /login            5 wrong passwords a minute for each address; ann's is \"open sesame\"")]
struct Args {
    /// Address and port to listen on; port 0 takes any free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8123")]
    listen: SocketAddr,

    /// What each client may do: 10/s, "100 per 5 min", or with a burst of its own, "2/s;burst=10"
    #[arg(long, value_name = "QUOTA", default_value_t = Quota::per_second(2).burst(10))]
    quota: Quota,

    /// Network whose X-Forwarded-For is believed, as 10.0.0.0/8; may be given several times
    #[arg(long = "trusted-proxy", value_name = "CIDR")]
    trusted_proxies: Vec<Network>,

    /// Redis or Valkey server that holds the limit of /api for all instances, as redis://127.0.0.1/
    #[arg(long, value_name = "URL")]
    redis: Option<String>,

    /// Milliseconds that a decision of that server may take, before a request is refused without one
    #[arg(long, value_name = "MS", default_value_t = 50)]
    redis_budget: u64,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(Args { listen, quota, trusted_proxies, redis, redis_budget }: Args) -> Result<(), Box<dyn Error>> {
    let app = app::new(quota, trusted_proxies, redis.map(|address| (address, Duration::from_millis(redis_budget))))?;
    let listener = TcpListener::bind(listen).await.map_err(|error| format!("cannot listen on {listen}: {error}"))?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}, {quota} for each client", listener.local_addr()?)?;
    stdout.flush()?;

    // Without the connect info there would be no peer address to know clients by.
    let service = app.into_make_service_with_connect_info::<SocketAddr>();
    axum::serve(listener, service).with_graceful_shutdown(asked_to_end()).await?;
    Ok(())
}

/// Ends with the first Ctrl-C or SIGTERM: requests under way are still answered then, and new connections refused.
async fn asked_to_end() {
    #[cfg(unix)]
    let terminated = async {
        use tokio::signal::unix::{SignalKind, signal};
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => _ = signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<()>();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}

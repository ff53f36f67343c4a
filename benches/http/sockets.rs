//! An axum service over sockets of the loopback, with and without a layer.
//!
//! Each server is a thread with a runtime of its own, which does nothing while another is driven. So is the client, in this
//! process: it keeps a number of connections alive, and sends the next request on each when the answer to the last is
//! there. It works on bytes and so takes less time than a server, which is what the throughput measures. Connections come
//! from addresses of their own, 127.0.1.1 and on, so each is a client to the limiters; there is plenty for everybody.
//!
//! Beside requests per second stands the processor time that a server's thread took for a request, as Linux counts it. What
//! else runs on the machine lengthens a round and not that time, so it tells small differences when rounds do not.
//! The client's thread has a column of its own: only where it takes less than the server does the throughput tell of the
//! server.
//!
//! The last rows are no layers of limits, but lower bounds: what axum takes for a layer that does nothing, for one that makes
//! the body another type, as any layer does whose own answers come beside the service's, and for one that makes a check
//! and puts an empty decision into the extensions.

use crate::common::output::Table;
use crate::common::records::median;
use crate::{PLENTY, governor, in_turns, least, limiter, ours};
use axum::body::Bytes;
use axum::response::Response;
use axum::{Router, routing::get};
use http_body::Body;
use http_body_util::BodyExt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Instant;
use std::{fs, thread};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::{self, Runtime};
use tokio::task::JoinSet;
use tower::layer::util::Identity;
use tower::util::MapResponseLayer;

const ROUNDS: usize = 201;
const CONNECTIONS: u8 = 16;
/// Requests on each connection in a turn.
const REQUESTS: usize = 100;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: localhost\r\nuser-agent: bench\r\naccept: */*\r\n\r\n";

const BARE: usize = 0;
const GOVERNOR: usize = 1;

struct Subject {
    name: &'static str,
    /// The file in which the system counts the processor time of the server's thread.
    schedule: PathBuf,
    connections: Vec<TcpStream>,
}

/// What a turn came to.
struct Turn {
    /// Nanoseconds of the wall clock for a request.
    wall: f64,
    /// Nanoseconds of processor time for a request, of the server and of the client, where the system counts it.
    server: Option<f64>,
    client: Option<f64>,
    /// Nanoseconds that all but a hundredth of the requests stayed below.
    p99: f64,
}

impl Subject {
    fn new(client: &Runtime, name: &'static str, app: Router) -> Self {
        let (told, tell) = mpsc::channel();
        // Named, so that a profile tells the servers apart.
        let server = thread::Builder::new().name(name.to_owned());
        let server = server.spawn(move || {
            runtime().block_on(async {
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
                let address = listener.local_addr().expect("an address");
                let thread = fs::read_link("/proc/thread-self").unwrap_or_default();
                told.send((address, thread)).expect("the benchmark waits for this");
                let service = app.into_make_service_with_connect_info::<SocketAddr>();
                axum::serve(listener, service).await.expect("a server that goes on");
            });
        });
        server.expect("a thread");
        let (server, thread) = tell.recv().expect("a server that has started");
        let connect = async |nth: u8| {
            let socket = TcpSocket::new_v4().expect("a socket");
            let own = IpAddr::from([127, 0, 1, nth + 1]);
            socket.bind(SocketAddr::new(own, 0)).expect("an address of the loopback");
            let stream = socket.connect(server).await.expect("a server that listens");
            stream.set_nodelay(true).expect("a socket with options");
            stream
        };
        let connections = client.block_on(async {
            let mut connections = Vec::new();
            for nth in 0..CONNECTIONS {
                connections.push(connect(nth).await);
            }
            connections
        });
        Self { name, schedule: PathBuf::from("/proc").join(thread).join("schedstat"), connections }
    }

    fn turn(&mut self, client: &Runtime) -> Turn {
        let own = Path::new("/proc/thread-self/schedstat");
        let (server, own_before) = (processor_time(&self.schedule), processor_time(own));
        let start = Instant::now();
        let latencies = client.block_on(async {
            let mut all = JoinSet::new();
            self.connections.drain(..).for_each(|connection| _ = all.spawn(talk(connection)));
            let mut latencies = Vec::new();
            for (connection, its) in all.join_all().await {
                self.connections.push(connection);
                latencies.extend(its);
            }
            latencies.sort_unstable();
            latencies
        });
        let requests = latencies.len();
        let wall = start.elapsed().as_nanos() as f64 / requests as f64;
        let since = |path, before| Some((processor_time(path)? - before?) as f64 / requests as f64);
        let (server, client) = (since(&self.schedule, server), since(own, own_before));
        Turn { wall, server, client, p99: latencies[requests * 99 / 100] as f64 }
    }
}

/// Nanoseconds that a thread has run.
fn processor_time(schedule: &Path) -> Option<u64> {
    fs::read_to_string(schedule).ok()?.split_whitespace().next()?.parse().ok()
}

/// Sends requests one after the other, and returns how many nanoseconds each answer took.
async fn talk(mut connection: TcpStream) -> (TcpStream, Vec<u64>) {
    let (mut latencies, mut answer) = (Vec::with_capacity(REQUESTS), [0; 1024]);
    for _ in 0..REQUESTS {
        let start = Instant::now();
        connection.write_all(REQUEST).await.expect("a server that reads");
        let mut len = 0;
        while !answer[..len].ends_with(b"\r\n\r\nhello") {
            let more = connection.read(&mut answer[len..]).await.expect("a server that writes");
            assert!(more > 0, "no such answer is expected: {}", answer[..len].escape_ascii());
            len += more;
        }
        latencies.push(start.elapsed().as_nanos() as u64);
        assert!(answer.starts_with(b"HTTP/1.1 200 "), "somebody was refused, and there is plenty");
    }
    (connection, latencies)
}

/// A response whose body is of another type than axum's, which axum then puts into a box.
fn with_own_body(response: Response) -> http::Response<impl Body<Data = Bytes, Error = axum::Error>> {
    response.map(|body| body.map_err(|error| error))
}

fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

pub fn run() {
    let client = runtime();
    let app = || Router::new().route("/", get(async || "hello"));
    let mut subjects = [
        Subject::new(&client, "bare", app()),
        Subject::new(&client, "tower_governor", app().layer(governor(PLENTY))),
        Subject::new(&client, "tollgate", app().layer(ours(PLENTY))),
        Subject::new(&client, "an empty layer", app().layer(Identity::new())),
        Subject::new(&client, "a body of its own", app().layer(MapResponseLayer::new(with_own_body))),
        Subject::new(&client, "a check and an insert", app().layer(least(Some(limiter(PLENTY))))),
    ];
    // To warm up.
    for subject in &mut subjects {
        subject.turn(&client);
    }
    let turns = in_turns("http, sockets", &mut subjects, ROUNDS, |subject| subject.turn(&client));

    let of = |at: usize, what: &dyn Fn(&Turn) -> f64| median(&mut turns[at].iter().map(what).collect::<Vec<_>>());
    // Of a round's turns, which were near each other in time.
    let added = |at: usize, what: &dyn Fn(&Turn) -> f64| {
        let pairs = turns[at].iter().zip(&turns[BARE]);
        median(&mut pairs.map(|(turn, bare)| what(turn) - what(bare)).collect::<Vec<_>>())
    };
    let server = |turn: &Turn| turn.server.unwrap_or(f64::NAN);
    let mut table = Table::new([
        "",
        "requests/s",
        "of bare",
        "p99, us",
        "client, ns a request",
        "server, ns a request",
        "ns added",
        "of bare's",
        "of tower_governor's",
    ]);
    for (at, subject) in subjects.iter().enumerate() {
        let percent = |part: f64, whole: f64| format!("{:.1} %", 100.0 * part / whole);
        let throughput = median(
            &mut turns[at].iter().zip(&turns[BARE]).map(|(turn, bare)| bare.wall / turn.wall).collect::<Vec<_>>(),
        );
        let mut row = vec![
            subject.name.to_owned(),
            format!("{:.0}", 1e9 / of(at, &|turn| turn.wall)),
            percent(throughput, 1.0),
            format!("{:.0}", of(at, &|turn| turn.p99) / 1e3),
            format!("{:.0}", of(at, &|turn| turn.client.unwrap_or(f64::NAN))),
            format!("{:.0}", of(at, &server)),
        ];
        if at != BARE {
            row.extend([format!("{:.0}", added(at, &server)), percent(added(at, &server), of(BARE, &server))]);
        }
        if at > GOVERNOR {
            row.push(percent(added(at, &server), added(GOVERNOR, &server)));
        }
        table.row(row);
    }
    println!(
        "Over sockets: {CONNECTIONS} connections that are kept alive, {ROUNDS} rounds of {} requests.\n\n{table}",
        usize::from(CONNECTIONS) * REQUESTS
    );
}

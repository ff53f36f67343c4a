//! The example server from end to end: the built program, over real sockets.

// Miri cannot start programs.
#![cfg(not(miri))]

mod common;
#[path = "common/redis_server.rs"]
mod redis_server;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};
use ureq::Agent;

const REFUSAL: &str = r#"{"detail":"Rate limit exceeded"}"#;

/// Refills so slowly that no test notices.
const TEN: &[&str] = &["--quota", "10/h"];

/// The program, killed when the test ends in whatever way.
struct Program(Child);

impl Program {
    /// Starts it and waits for its first line, which is empty if it ends without one.
    fn start(args: &[&str]) -> (Self, String) {
        let program = common::example("server");
        let mut command = Command::new(&program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut program = Self(command.spawn().unwrap_or_else(|error| panic!("{}: {error}", program.display())));
        let mut line = String::new();
        BufReader::new(program.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        (program, line)
    }

    /// Its exit code and what it wrote to stderr, once it has ended.
    fn end(mut self) -> (Option<i32>, String) {
        let mut stderr = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        (self.0.wait().unwrap().code(), stderr)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running server, and one connection to it.
struct Server {
    program: Program,
    first_line: String,
    url: String,
    client: Agent,
}

struct Reply {
    status: u16,
    headers: ureq::http::HeaderMap,
    body: String,
}

impl Server {
    /// Starts it on a free port.
    fn start(args: &[&str]) -> Self {
        let (program, line) = Program::start(&[&["--listen", "127.0.0.1:0"], args].concat());
        let Some(url) = line.strip_prefix("listening on ").and_then(|rest| rest.split(',').next()) else {
            panic!("instead of a line with its address the server wrote {line:?}: {:?}", program.end());
        };
        Self { url: url.to_owned(), program, first_line: line, client: client() }
    }

    fn try_get(&self, client: &Agent, path: &str, key: Option<&str>) -> Result<Reply, ureq::Error> {
        let mut request = client.get(format!("{}{path}", self.url));
        if let Some(key) = key {
            request = request.header("X-API-Key", key);
        }
        Reply::read(request.call()?)
    }

    /// A request with one header.
    fn get_with(&self, path: &str, name: &str, value: &str) -> Reply {
        Reply::read(self.client.get(format!("{}{path}", self.url)).header(name, value).call().unwrap()).unwrap()
    }

    fn login(&self, user: &str, password: &str) -> Reply {
        let form = serde_json::json!({ "user": user, "password": password }).to_string();
        // The key is no way around a limit by address.
        let request = self.client.post(format!("{}/login", self.url)).header("X-API-Key", password);
        Reply::read(request.content_type("application/json").send(form).unwrap()).unwrap()
    }

    fn get(&self, path: &str, key: Option<&str>) -> Reply {
        self.try_get(&self.client, path, key).unwrap()
    }

    fn status(&self, path: &str, key: Option<&str>) -> u16 {
        self.get(path, key).status
    }

    /// Uses up a limit of ten that nobody has drawn from.
    fn drain(&self, path: &str, key: Option<&str>) {
        for _ in 0..10 {
            assert_eq!(self.status(path, key), 200);
        }
        assert_eq!(self.status(path, key), 429);
    }

    /// For each key, how many of 30 requests pass that are sent at once, each over its own connection opened before.
    fn passed_of_thirty(&self, path: &str, keys: &[String]) -> Vec<usize> {
        let barrier = Barrier::new(30);
        // No thread may panic before the last round, or the others would wait for it forever: they return what they got.
        let rush = || {
            let client = client();
            let opened = self.try_get(&client, "/health", None);
            let replies: Vec<_> = keys
                .iter()
                .map(|key| {
                    barrier.wait();
                    self.try_get(&client, path, Some(key))
                })
                .collect();
            opened.and_then(|_| replies.into_iter().collect::<Result<Vec<Reply>, _>>())
        };
        let replies: Vec<Vec<Reply>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..30).map(|_| scope.spawn(rush)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
        });
        (0..keys.len())
            .map(|round| {
                let count = |status| replies.iter().filter(|replies| replies[round].status == status).count();
                assert_eq!(count(200) + count(429), 30, "every request is answered with one or the other");
                count(200)
            })
            .collect()
    }
}

impl Reply {
    fn read(mut response: ureq::http::Response<ureq::Body>) -> Result<Self, ureq::Error> {
        let body = response.body_mut().read_to_string()?;
        Ok(Self { status: response.status().as_u16(), headers: response.headers().clone(), body })
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A client with a pool of connections of its own.
fn client() -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        // A proxy in the environment must not come between.
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(10)));
    config.build().into()
}

#[test]
fn the_eleventh_waits_for_as_long_as_it_is_told() {
    let server = Server::start(&[]);
    assert!(server.first_line.ends_with(", 2/s;burst=10 for each client\n"), "{}", server.first_line);

    let start = Instant::now();
    let first = server.get("/api/data", Some("alice"));
    assert_eq!(first.status, 200);
    assert_eq!(first.body, r#"{"data":"hello","remaining":9}"#);
    assert_eq!(first.header("x-ratelimit-limit"), Some("10"));
    assert_eq!(first.header("x-ratelimit-remaining"), Some("9"));
    assert_eq!(first.header("retry-after"), None);

    let mut passed = 1;
    let refused = loop {
        match server.get("/api/data", Some("alice")) {
            reply if reply.status == 200 => passed += 1,
            reply => break reply,
        }
    };
    // Exactly 10, unless the machine is so busy that tokens come back meanwhile.
    let refilled = (start.elapsed().as_secs_f64() * 2.0) as u64;
    assert!((10..=10 + refilled).contains(&passed), "{passed} passed, {refilled} refilled");

    assert_eq!(refused.status, 429);
    assert_eq!(refused.body, REFUSAL);
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(refused.header("cache-control"), Some("no-store"));
    assert_eq!(refused.header("retry-after"), Some("1"));

    thread::sleep(Duration::from_secs(1));
    assert_eq!(server.status("/api/data", Some("alice")), 200);
}

#[test]
fn the_race_lets_more_pass_and_the_fix_exactly_ten() {
    let server = Server::start(TEN);
    let keys: Vec<String> = (0..20).map(|i| format!("fresh-{i}")).collect();

    let safe = server.passed_of_thirty("/api/data-safe", &keys);
    assert!(safe.iter().all(|&passed| passed == 10), "{safe:?}");

    let racy = server.passed_of_thirty("/api/data-unsafe", &keys);
    assert!(racy.iter().all(|&passed| passed > 10), "{racy:?}");
}

#[test]
fn one_call_after_the_other_does_not_show_the_race() {
    let server = Server::start(TEN);
    for path in ["/api/data", "/api/data-unsafe"] {
        let start = Instant::now();
        server.drain(path, Some("alice"));
        let refused = server.get(path, Some("alice"));
        assert_eq!((refused.status, &*refused.body), (429, REFUSAL));

        // Six minutes after the first call, in seconds rounded up.
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((360 - start.elapsed().as_secs()..=360).contains(&wait), "{path}: {wait}");
    }
}

#[test]
fn clients_do_not_disturb_each_other() {
    let server = Server::start(TEN);
    server.drain("/api/data", Some("alice"));
    server.drain("/api/data", Some("bob"));

    // Without a key, or with an empty one, the client is its address; a key that reads like one is somebody else.
    server.drain("/api/data", None);
    assert_eq!(server.status("/api/data", Some("")), 429);
    server.drain("/api/data", Some("127.0.0.1"));
}

#[test]
fn both_routes_draw_from_one_limit() {
    let server = Server::start(TEN);
    for left in (0..10).rev() {
        let path = if left % 2 == 0 { "/api/data" } else { "/api/data-safe" };
        assert_eq!(server.get(path, Some("alice")).header("x-ratelimit-remaining"), Some(&*left.to_string()));
    }
    assert_eq!(server.status("/api/data", Some("alice")), 429);
    assert_eq!(server.status("/api/data-safe", Some("alice")), 429);
}

#[test]
fn health_is_never_limited() {
    let server = Server::start(TEN);
    server.drain("/api/data", None);
    for _ in 0..100 {
        let reply = server.get("/health", None);
        assert_eq!((reply.status, &*reply.body), (200, r#"{"status":"ok"}"#));
    }
}

#[test]
fn five_wrong_passwords_are_all_and_right_ones_cost_nothing() {
    let server = Server::start(TEN);
    for _ in 0..7 {
        let reply = server.login("ann", "open sesame");
        assert_eq!((reply.status, &*reply.body), (200, r#"{"welcome":"ann"}"#));
        assert_eq!(reply.header("x-ratelimit-remaining"), Some("5"));
    }
    for guess in 0..5 {
        assert_eq!(server.login("ann", &format!("guess-{guess}")).status, 401);
    }
    let refused = server.login("ann", "open sesame");
    assert_eq!((refused.status, &*refused.body), (429, REFUSAL));
    let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=12).contains(&wait), "{wait}");
    // The other limit is another one.
    assert_eq!(server.status("/api/data", None), 200);
}

#[test]
fn a_report_costs_as_much_as_five() {
    let server = Server::start(TEN);
    let start = Instant::now();
    for left in ["5", "0"] {
        assert_eq!(server.get("/api/report", Some("alice")).header("x-ratelimit-remaining"), Some(left));
    }
    for (path, whole) in [("/api/report", 1800), ("/api/data", 360)] {
        let refused = server.get(path, Some("alice"));
        assert_eq!(refused.status, 429);
        let wait: u64 = refused.header("retry-after").unwrap().parse().unwrap();
        assert!((whole - start.elapsed().as_secs()..=whole).contains(&wait), "{path}: {wait}");
    }
}

#[test]
fn an_app_from_another_origin_can_read_a_refusal() {
    let server = Server::start(TEN);
    server.drain("/api/data", None);
    let refused = server.get_with("/api/data", "Origin", "https://app.example");
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("access-control-allow-origin"), Some("*"));
    assert!(refused.header("access-control-expose-headers").unwrap().contains("retry-after"));
}

#[test]
fn only_a_trusted_proxy_is_believed() {
    let forwarded =
        |server: &Server, n: usize| server.get_with("/api/data", "X-Forwarded-For", &format!("203.0.113.{n}")).status;
    let server = Server::start(TEN);
    let statuses: Vec<u16> = (0..12).map(|n| forwarded(&server, n)).collect();
    assert_eq!(statuses, [[200; 10].as_slice(), &[429; 2]].concat());

    let proxies = ["--trusted-proxy", "10.0.0.0/8", "--trusted-proxy", "127.0.0.0/8"];
    let server = Server::start(&[TEN, &proxies].concat());
    assert!((0..12).all(|n| forwarded(&server, n) == 200));
}

/// For each of the instances in turn, as many requests as make up `requests`, all at once, each over its own connection
/// opened before. Returns how many passed.
fn rush(instances: &[Server], path: &str, key: &str, requests: usize) -> usize {
    let barrier = Barrier::new(requests);
    let call = |server: &Server| {
        let client = client();
        let opened = server.try_get(&client, "/health", None);
        barrier.wait();
        opened.and_then(|_| server.try_get(&client, path, Some(key))).map(|reply| reply.status)
    };
    let statuses: Vec<Result<u16, ureq::Error>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..requests)
            .map(|number| {
                scope.spawn({
                    let call = &call;
                    move || call(&instances[number % instances.len()])
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let statuses: Vec<u16> = statuses.into_iter().map(Result::unwrap).collect();
    assert!(statuses.iter().all(|status| [200, 429].contains(status)), "{statuses:?}");
    statuses.iter().filter(|&&status| status == 200).count()
}

/// Three processes with one store: together they let pass what one would, and the tutorial's GET and SET does not.
#[test]
fn instances_with_one_store_have_one_limit() {
    let store = redis_server::RedisServer::start();
    let url = store.url();
    // Decisions are fast, and the machine may not be.
    let start = || Server::start(&["--quota", "20/h", "--redis", &url, "--redis-budget", "20000"]);
    let instances = [start(), start(), start()];
    assert_eq!(rush(&instances, "/api/data", "alice", 300), 20);
    assert_eq!(instances[0].status("/api/data", Some("alice")), 429);
    assert_eq!(instances[1].get("/api/data", Some("bob")).header("x-ratelimit-remaining"), Some("19"));
    assert_eq!(instances[2].get("/api/data", Some("bob")).body, r#"{"data":"hello","remaining":18}"#);

    let passed = rush(&instances[..2], "/api/data-unsafe", "alice", 60);
    assert!(passed > 20, "{passed} passed: the race did not happen");
}

#[test]
fn an_instance_whose_store_is_away_says_so() {
    let server = Server::start(&["--quota", "10/h", "--redis", "redis://127.0.0.1:1/"]);
    let reply = server.get("/api/data", Some("alice"));
    assert_eq!((reply.status, &*reply.body), (503, r#"{"detail":"Rate limit unavailable"}"#));
    assert_eq!(reply.header("retry-after"), Some("1"));
    assert_eq!(server.status("/health", None), 200);
}

#[test]
fn prometheus_finds_counts_and_no_keys() {
    let server = Server::start(TEN);
    server.drain("/api/data", Some("alice"));
    let page = server.get("/metrics", None);
    assert_eq!(page.status, 200);
    for line in [
        r#"tollgate_requests_total{policy="requests",outcome="allowed"} 10"#,
        r#"tollgate_requests_total{policy="requests",outcome="refused"} 1"#,
        r#"tollgate_clients{policy="requests"} 1"#,
    ] {
        assert!(page.body.lines().any(|found| found == line), "{line} is not in\n{}", page.body);
    }
    assert!(!page.body.contains("alice"), "{}", page.body);
}

#[cfg(unix)]
#[test]
fn a_server_that_is_asked_to_end_answers_what_is_under_way() {
    let server = Server::start(TEN);
    let address = server.url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let form = r#"{"user":"ann","password":"open sesame"}"#;
    let head = "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n";
    write!(stream, "{head}Content-Length: {}\r\n\r\n", form.len()).unwrap();
    // The handler has asked for the body.
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    assert_eq!(line, "HTTP/1.1 100 Continue\r\n");

    let pid = server.program.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    // Nobody new is let in.
    while TcpStream::connect(address).is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
    stream.write_all(form.as_bytes()).unwrap();
    let mut reply = String::new();
    reader.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("HTTP/1.1 200 OK\r\n") && reply.ends_with(r#"{"welcome":"ann"}"#), "{reply}");
    assert_eq!(server.program.end(), (Some(0), String::new()));
}

#[test]
fn bad_starts_end_with_a_message() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let in_use = format!("error: cannot listen on {address}: ");
    let any = "--listen=127.0.0.1:0";
    let cases: [(&[&str], i32, &str); 7] = [
        (&[any, "--redis=nowhere"], 1, "error: no address of a store: "),
        (&[any, "--quota=0/s"], 2, "error: invalid value '0/s' for '--quota <QUOTA>': zero count: use at least 1\n"),
        (&[any, "--quota=nonsense"], 2, "error: invalid value 'nonsense' for '--quota <QUOTA>': no count: start with "),
        // Well-formed, and too fast for the engine.
        (&[any, "--quota=10/ns"], 1, "error: the rate of 10/ns is above "),
        (&[any, "--trusted-proxy=10.0.0.0/33"], 2, "error: invalid value '10.0.0.0/33' for '--trusted-proxy <CIDR>': "),
        (&["--listen=nowhere"], 2, "error: invalid value 'nowhere' for '--listen <ADDR>': "),
        (&["--listen", &address], 1, &in_use),
    ];
    for (args, code, message) in cases {
        let (program, line) = Program::start(args);
        assert_eq!(line, "", "{args:?} starts a server");
        let (status, stderr) = program.end();
        assert_eq!(status, Some(code), "{args:?}: {stderr}");
        assert!(stderr.starts_with(message), "{args:?}: {stderr}");
    }
}

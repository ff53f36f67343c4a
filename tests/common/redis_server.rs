//! Redis servers for tests: on free ports of the loopback, without persistence, stopped when dropped.

#![allow(dead_code)]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any start takes.
const PATIENCE: Duration = Duration::from_secs(20);

pub struct RedisServer {
    process: Child,
    port: u16,
    args: Vec<String>,
    directory: PathBuf,
}

impl RedisServer {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with further arguments, once it answers.
    pub fn with(args: &[&str]) -> Self {
        let server = Self::starting(args);
        server.wait_until("PONG", |server| server.query::<String>(redis::cmd("PING")).ok());
        server
    }

    /// A server that may not answer yet.
    pub fn starting(args: &[&str]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let directory = std::env::temp_dir().join(format!("tollgate-redis-{}-{number}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        // Somebody may take the port between the look and the start: then another.
        let start = Instant::now();
        loop {
            let port = free_port();
            let mut process = spawn(port, &args, &directory);
            while process.try_wait().unwrap().is_none() {
                if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                    return Self { process, port, args, directory };
                }
                assert!(start.elapsed() < PATIENCE, "redis-server does not listen on port {port}");
                thread::sleep(Duration::from_millis(2));
            }
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// A directory of its own.
    pub fn directory(&self) -> &PathBuf {
        &self.directory
    }

    pub fn client(&self) -> redis::Client {
        redis::Client::open(self.url()).unwrap()
    }

    /// Runs one command over a new connection.
    pub fn query<T: redis::FromRedisValue>(&self, command: redis::Cmd) -> redis::RedisResult<T> {
        let mut connection = self.client().get_connection_with_timeout(PATIENCE)?;
        command.query(&mut connection)
    }

    /// Runs one command, written with spaces.
    pub fn run<T: redis::FromRedisValue>(&self, command: &str) -> T {
        let mut words = command.split(' ');
        let mut query = redis::cmd(words.next().unwrap());
        words.for_each(|word| {
            query.arg(word);
        });
        self.query(query).unwrap_or_else(|error| panic!("{command}: {error}"))
    }

    pub fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.run("KEYS *");
        keys.sort();
        keys
    }

    /// Stops the process where it stands: connections stay open, and nothing is answered.
    pub fn freeze(&self) {
        self.signal("-STOP");
    }

    pub fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let status = Command::new("kill").args([signal, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }

    /// Ends the process, as a crash would.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Starts it again on its port, with what it has saved, after `kill`.
    pub fn revive(&mut self) {
        self.revive_loading();
        self.wait_until("PONG", |server| server.query::<String>(redis::cmd("PING")).ok());
    }

    /// The same, as soon as it listens: it may still be loading.
    pub fn revive_loading(&mut self) {
        self.process = spawn(self.port, &self.args, &self.directory);
        self.wait_until("a listener", |server| TcpStream::connect(("127.0.0.1", server.port)).ok());
    }

    /// Asks until there is an answer.
    pub fn wait_until<T>(&self, what: &str, ask: impl Fn(&Self) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(answer) = ask(self) {
                return answer;
            }
            assert!(start.elapsed() < PATIENCE, "the server on port {} does not come to: {what}", self.port);
            thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // All of it fails only if it has already happened.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Three primaries that share the slots.
pub struct Cluster {
    pub nodes: [RedisServer; 3],
}

impl Cluster {
    pub fn start() -> Self {
        let nodes =
            [(); 3].map(|()| RedisServer::with(&["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]));
        for (node, slots) in nodes.iter().zip(["0 5460", "5461 10922", "10923 16383"]) {
            let () = node.run(&format!("CLUSTER ADDSLOTSRANGE {slots}"));
        }
        for node in &nodes[1..] {
            let () = nodes[0].run(&format!("CLUSTER MEET 127.0.0.1 {}", node.port));
        }
        for node in &nodes {
            node.wait_until("a cluster of three", |node| {
                let info: String = node.run("CLUSTER INFO");
                (info.contains("cluster_state:ok") && info.contains("cluster_known_nodes:3")).then_some(())
            });
        }
        Self { nodes }
    }

    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::url).collect()
    }

    /// Which node has a slot.
    pub fn owner(&self, slot: u16) -> usize {
        match slot {
            ..=5460 => 0,
            5461..=10922 => 1,
            _ => 2,
        }
    }
}

fn spawn(port: u16, args: &[String], directory: &PathBuf) -> Child {
    let mut command = Command::new("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(directory).args(["--repl-diskless-sync-delay", "0", "--loglevel", "warning"]).args(args);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap_or_else(|error| {
        panic!("redis-server cannot be started ({error}): install it, as `bash tests/run` does, or put it on the PATH")
    })
}

/// A free port, whose sum with 10,000 is free too: the nodes of a cluster take that for themselves.
fn free_port() -> u16 {
    loop {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        if port < 55_000 && TcpListener::bind(("127.0.0.1", port + 10_000)).is_ok() {
            return port;
        }
    }
}

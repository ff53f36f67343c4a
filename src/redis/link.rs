//! The connection to a store: made when first needed, and made anew when one has gone silent.
//!
//! The client library reconnects when a connection breaks. It does not notice one that takes requests and never answers,
//! because a firewall dropped it or the other host is gone; so where the breaker opens on timeouts, the link gives that
//! connection up. What was sent over it may still be carried out, once; nothing is sent again.
//!
//! Only answers that say *not carried out* are followed by another request: `NOSCRIPT`, and the redirections of a cluster.
//! The library's own retries are off, as it would repeat requests whose fate it does not know.

use super::script::Source;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, Cmd, ErrorKind, RedisError, RedisResult, ServerErrorKind, Value};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[cfg(feature = "redis-cluster")]
use redis::{
    aio::ConnectionLike as _,
    cluster::{ClusterClient, ClusterConfig},
    cluster_async::ClusterConnection,
    cluster_routing::{RoutingInfo, SingleNodeRoutingInfo},
};

/// How long an attempt to connect may take. Attempts go on behind the calls, whose own budget is far smaller.
const CONNECT: Duration = Duration::from_secs(2);

/// The longest pause between attempts to connect.
const RECONNECT: Duration = Duration::from_millis(500);

/// Requests that the library's queue takes before callers wait for a place in it.
const QUEUE: usize = 1024;

/// Where the store is.
pub(super) enum Address {
    Single(Client),
    #[cfg(feature = "redis-cluster")]
    Cluster(Box<ClusterClient>),
}

pub(super) struct Link {
    address: Address,
    current: Mutex<Option<Line>>,
}

/// A connection in use.
struct Line {
    connection: Connection,
    since: Instant,
    /// Whether it has ever answered: one that never did may still be on its way.
    answered: Arc<std::sync::atomic::AtomicBool>,
}

#[derive(Clone)]
enum Connection {
    Single(ConnectionManager),
    #[cfg(feature = "redis-cluster")]
    Cluster(ClusterConnection),
}

/// What the script answered, and whether it had to be loaded.
pub(super) struct Answer {
    pub(super) value: Value,
    pub(super) loaded: bool,
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self { address, current: Mutex::new(None) }
    }

    /// Whether keys have slots.
    pub(super) fn is_cluster(&self) -> bool {
        match self.address {
            Address::Single(_) => false,
            #[cfg(feature = "redis-cluster")]
            Address::Cluster(_) => true,
        }
    }

    /// Runs a script once. To be cut off by whoever calls: dropped before it was sent, it is not sent; dropped later, it
    /// may be carried out.
    pub(super) async fn run<'a>(
        &self,
        script: &Source,
        keys: impl ExactSizeIterator<Item = &'a str> + Clone,
        argument: &[u8],
    ) -> RedisResult<Answer> {
        let (mut connection, answered) = self.connection()?;
        let evaluate = |name: &str, script: &str| {
            let size = script.len() + argument.len() + keys.clone().map(str::len).sum::<usize>() + 32;
            let mut command = Cmd::with_capacity(4 + keys.len(), size);
            command.arg(name).arg(script).arg(keys.len());
            keys.clone().for_each(|key| {
                command.arg(key);
            });
            command.arg(argument);
            command
        };
        let mut answer = connection.send(&evaluate("EVALSHA", &script.hash)).await;
        let unknown = |error: &RedisError| error.kind() == ErrorKind::Server(ServerErrorKind::NoScript);
        let loaded = answer.as_ref().err().is_some_and(unknown);
        if loaded {
            // Nothing was carried out. The text is loaded by the same command that runs it.
            answer = connection.send(&evaluate("EVAL", &script.text)).await;
        }
        let heard = match &answer {
            Ok(_) => true,
            Err(error) => matches!(error.kind(), ErrorKind::Server(_) | ErrorKind::Extension),
        };
        if heard {
            answered.store(true, std::sync::atomic::Ordering::Relaxed);
        }
        Ok(Answer { value: answer?, loaded })
    }

    /// Gives up a connection that has gone silent. One that never answered gets the time that connecting may take.
    pub(super) fn give_up(&self) {
        let mut current = self.lock();
        let silent = |line: &mut Line| {
            line.answered.load(std::sync::atomic::Ordering::Relaxed) || line.since.elapsed() > 2 * CONNECT
        };
        let line = current.take_if(silent);
        drop(current);
        drop(line);
    }

    fn connection(&self) -> RedisResult<(Connection, Arc<std::sync::atomic::AtomicBool>)> {
        let mut current = self.lock();
        if current.is_none() {
            let connection = self.address.open()?;
            *current = Some(Line { connection, since: Instant::now(), answered: Arc::default() });
        }
        // Just set, if it was not.
        let line = current.as_ref().ok_or((ErrorKind::Client, "no connection"))?;
        Ok((line.connection.clone(), line.answered.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Line>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Address {
    /// Starts to connect, and returns at once.
    fn open(&self) -> RedisResult<Connection> {
        match self {
            Self::Single(client) => {
                let config = ConnectionManagerConfig::new()
                    .set_connection_timeout(Some(CONNECT))
                    // The budget of each call is what limits it.
                    .set_response_timeout(None)
                    .set_max_delay(RECONNECT)
                    .set_pipeline_buffer_size(QUEUE);
                ConnectionManager::new_lazy_with_config(client.clone(), config).map(Connection::Single)
            }
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(client) => {
                let config = ClusterConfig::new().set_connection_timeout(CONNECT);
                Ok(Connection::Cluster(client.get_pending_async_connection_with_config(config)))
            }
        }
    }
}

impl Connection {
    async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::Single(connection) => connection.send_packed_command(command).await?.extract_error(),
            #[cfg(feature = "redis-cluster")]
            Self::Cluster(connection) => send_to_cluster(connection, command).await,
        }
    }
}

/// Sends a command, and follows the cluster as long as it says that it has not carried it out.
#[cfg(feature = "redis-cluster")]
async fn send_to_cluster(connection: &mut ClusterConnection, command: &Cmd) -> RedisResult<Value> {
    /// Between questions to a cluster that is being changed.
    const PAUSE: Duration = Duration::from_millis(5);
    let mut answer = connection.req_packed_command(command).await.and_then(Value::extract_error);
    // The caller's budget ends this.
    loop {
        let Err(error) = &answer else { return answer };
        let node = error.redirect_node().and_then(|(node, _)| {
            let (host, port) = node.rsplit_once(':')?;
            Some(SingleNodeRoutingInfo::ByAddress { host: host.to_owned(), port: port.parse().ok()? })
        });
        answer = match (error.kind(), node) {
            (ErrorKind::Server(ServerErrorKind::Moved), Some(node)) => {
                connection.route_command(command.clone(), RoutingInfo::SingleNode(node)).await
            }
            (ErrorKind::Server(ServerErrorKind::Ask), Some(node)) => {
                let mut asking = redis::pipe();
                asking.cmd("ASKING").ignore().add_command(command.clone());
                let answers = connection.route_pipeline(asking, 0, 2, node).await;
                answers.map(|mut answers| answers.pop().unwrap_or(Value::Nil))
            }
            (ErrorKind::Server(ServerErrorKind::TryAgain | ServerErrorKind::ClusterDown), _) => {
                tokio::time::sleep(PAUSE).await;
                connection.req_packed_command(command).await
            }
            _ => return answer,
        }
        .and_then(Value::extract_error);
        if answer.as_ref().err().is_some_and(is_unknown_node) {
            // The library learns of the new node meanwhile, and has sent nothing.
            tokio::time::sleep(PAUSE).await;
            answer = connection.req_packed_command(command).await.and_then(Value::extract_error);
        }
    }
}

#[cfg(feature = "redis-cluster")]
fn is_unknown_node(error: &RedisError) -> bool {
    error.kind() == ErrorKind::ClusterConnectionNotFound
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Addresses may hold passwords.
        f.debug_struct("Link").field("cluster", &self.is_cluster()).finish_non_exhaustive()
    }
}

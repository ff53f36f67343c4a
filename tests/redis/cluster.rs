//! Three nodes that share the slots.

use crate::server::Cluster;
use std::collections::BTreeSet;
use std::time::Duration;
use tollgate::Quota;
use tollgate::redis::{CheckAllError, SharedLimiter, Store, Trouble, check_all};

fn open(cluster: &Cluster) -> Store {
    let urls = cluster.urls();
    let store = Store::cluster(urls.iter().map(String::as_str)).readable_keys();
    store.budget(Duration::from_secs(20)).open().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_holds_limits() {
    let cluster = Cluster::start();
    let store = open(&cluster);
    let user = SharedLimiter::token_bucket("user", Quota::per_day(3)).build(&store).unwrap();
    let tenant = SharedLimiter::sliding_log("tenant", Quota::per_day(5)).build(&store).unwrap();

    // Clients spread over the nodes, and each has what it has.
    for client in 0..60 {
        let client = client.to_string();
        for left in (0..3).rev() {
            assert_eq!(user.check(&client).await.unwrap().remaining(), left);
        }
        assert!(!user.allow(&client).await);
    }
    assert!(cluster.nodes.iter().all(|node| node.run::<u64>("DBSIZE") > 5));
    assert_eq!(store.stats().all_failures(), 0);

    // All limits of a client share a slot, and so does what is tagged alike, braces and all.
    assert!(check_all([user.demand("{", 1), tenant.demand("{", 1)]).await.is_ok());
    let both = || check_all([user.demand("alice", 1).tagged("a{c}me"), tenant.demand("acme", 1).tagged("a{c}me")]);
    assert!(both().await.is_ok());
    let refused = check_all([user.demand("alice", 1), tenant.demand("acme", 1)]).await.unwrap_err();
    assert!(matches!(refused, CheckAllError::Slots), "{refused}");
    assert!(refused.to_string().contains("tagged"), "{refused}");

    // A slot moves to another node. Who asks the old one is sent on, and nothing is counted twice.
    let key = "tollgate:1:{mover}:user:t";
    assert!(user.allow("mover").await);
    let slot: u16 = cluster.nodes[0].run(&format!("CLUSTER KEYSLOT {key}"));
    let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
    let id = |node: usize| cluster.nodes[node].run::<String>("CLUSTER MYID");
    let () = cluster.nodes[to].run(&format!("CLUSTER SETSLOT {slot} IMPORTING {}", id(from)));
    let () = cluster.nodes[from].run(&format!("CLUSTER SETSLOT {slot} MIGRATING {}", id(to)));
    // The key itself is still where it was, then on its way: ASK.
    assert_eq!(user.check("mover").await.unwrap().remaining(), 1);
    let () = cluster.nodes[from].run(&format!("MIGRATE 127.0.0.1 {} {key} 0 5000", cluster.nodes[to].port()));
    assert_eq!(user.check("mover").await.unwrap().remaining(), 0);
    for node in [to, from, 3 - from - to] {
        let () = cluster.nodes[node].run(&format!("CLUSTER SETSLOT {slot} NODE {}", id(to)));
    }
    // And then for good: MOVED.
    assert!(!user.allow("mover").await);
    assert_eq!(user.reset("mover").await, Ok(true));
    assert_eq!(user.check("mover").await.unwrap().remaining(), 2);
    assert_eq!(store.stats().all_failures(), 0);
    let owners: BTreeSet<usize> = (0..3)
        .filter(|&node| cluster.nodes[node].run::<Vec<String>>("KEYS *").iter().any(|name| name == key))
        .collect();
    assert_eq!(owners, BTreeSet::from([to]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_gone_is_trouble_and_not_a_wait() {
    let mut cluster = Cluster::start();
    let urls = cluster.urls();
    let store = Store::cluster(urls.iter().map(String::as_str)).breaker(u32::MAX, Duration::from_millis(1));
    let store = store.readable_keys().open().unwrap();
    store.ping().await.unwrap();
    let limiter = SharedLimiter::fixed_window("api", Quota::per_day(1000)).build(&store).unwrap();
    let slot: u16 = cluster.nodes[0].run("CLUSTER KEYSLOT tollgate:1:{alice}:api:f");
    let owner = cluster.owner(slot);
    while !limiter.allow("alice").await {}
    cluster.nodes[owner].kill();
    let start = std::time::Instant::now();
    for _ in 0..5 {
        assert!(!limiter.allow("alice").await);
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    let stats = store.stats();
    let seen: u64 =
        [Trouble::TimedOut, Trouble::Disconnected, Trouble::Moved].map(|trouble| stats.failures(trouble)).iter().sum();
    assert!(seen >= 5, "{stats:?}");
}

//! The HTTP layer from end to end: axum, hyper and tonic servers over real sockets, with clocks that are moved by hand.

// Miri has no sockets.
#![cfg(not(miri))]

mod http {
    mod clients;
    mod cors;
    mod in_axum;
    mod in_hyper;
    mod in_tonic;
    mod policies;
    #[path = "../common/redis_server.rs"]
    mod redis_server;
    mod refusals;
    mod reports;
    #[cfg(feature = "redis")]
    mod shared;
    mod streams;
    mod support;
}

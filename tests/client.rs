//! Whose request it is: what must hold of keys, tokens and addresses, whatever a client sends.

use http::{HeaderName, HeaderValue, Request};
use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use tollgate::http::Head;
use tollgate::http::client::{
    ApiKey, Bearer, Client, ClientAddress, ForwardingHeader, FromExtensions, Identify, Network, Peer, PrefixError,
    Trust,
};
use tollgate::{Limiter, ManualClock, Quota};

fn request(headers: &[(&str, &str)]) -> Request<()> {
    let request = headers.iter().fold(Request::get("/"), |request, (name, value)| request.header(*name, *value));
    request.body(()).unwrap()
}

fn from(peer: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = request(headers);
    request.extensions_mut().insert(Peer(ip(peer)));
    request
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn networks(texts: &[&str]) -> Trust {
    Trust::networks(texts.iter().map(|text| text.parse::<Network>().unwrap()))
}

fn behind(texts: &[&str]) -> ClientAddress {
    ClientAddress::new().trust(networks(texts))
}

/// Who is found, exposed, or else "nobody".
fn who(clients: &impl Identify, request: &Request<()>) -> String {
    clients.identify(&Head::from(request)).map_or("nobody".into(), |client| client.expose().to_string())
}

#[track_caller]
fn assert_found(clients: &ClientAddress, peer: &str, headers: &[(&str, &str)], address: &str) {
    let request = from(peer, headers);
    assert_eq!(clients.find(&Head::from(&request)), Some(ip(address)), "{headers:?}");
}

#[test]
fn a_hundred_forwarded_addresses_of_an_untrusted_peer_are_one_client() {
    for clients in
        [ClientAddress::new(), behind(&["10.0.0.0/8"]), behind(&[]), ClientAddress::new().trust(Trust::hops(0))]
    {
        let limiter = Limiter::token_bucket(Quota::per_hour(5)).clock(ManualClock::new()).build().unwrap();
        let allowed = (0..100).filter(|i| {
            let spoofed = format!("203.0.113.{i}");
            let headers = [("x-forwarded-for", &*spoofed), ("forwarded", &format!("for={spoofed}"))];
            limiter.allow(&clients.identify(&Head::from(&from("192.0.2.1", &headers))).unwrap())
        });
        assert_eq!(allowed.count(), 5, "{clients:?}");
    }
}

#[test]
fn behind_two_proxies_the_client_is_the_first_from_the_right_that_is_not_trusted() {
    let clients = behind(&["172.16.0.0/12"]);
    assert_found(&clients, "172.18.0.1", &[("x-forwarded-for", "1.2.3.4, 172.17.0.1")], "1.2.3.4");
    assert_found(&clients, "172.18.0.1", &[("x-forwarded-for", "9.9.9.9, 1.2.3.4, 172.17.0.1")], "1.2.3.4");
    assert_found(&clients, "172.18.0.1", &[("x-forwarded-for", "172.17.0.9, 1.2.3.4")], "1.2.3.4");
    assert_found(&clients, "198.51.100.1", &[("x-forwarded-for", "1.2.3.4, 172.17.0.1")], "198.51.100.1");
}

#[test]
fn if_all_are_trusted_the_leftmost_is_the_client() {
    let clients = behind(&["172.16.0.0/12"]);
    assert_found(&clients, "172.18.0.1", &[("x-forwarded-for", "172.17.0.3, 172.17.0.2")], "172.17.0.3");
    assert_found(&clients, "172.18.0.1", &[], "172.18.0.1");
}

#[test]
fn header_names_in_any_case_and_several_lines_are_one_list() {
    let clients = behind(&["10.0.0.0/8"]);
    for name in ["X-Forwarded-For", "x-forwarded-for", "X-FORWARDED-FOR"] {
        assert_found(&clients, "10.0.0.1", &[(name, "9.9.9.9, 1.2.3.4"), (name, "10.0.0.3,10.0.0.2")], "1.2.3.4");
        assert_found(&clients, "10.0.0.1", &[(name, "9.9.9.9"), (name, "1.2.3.4"), (name, "10.0.0.2")], "1.2.3.4");
    }
}

#[test]
fn entries_with_ports_are_the_addresses_without() {
    let clients = behind(&["10.0.0.0/8"]);
    assert_found(&clients, "10.0.0.1", &[("x-forwarded-for", "203.0.113.7:5678")], "203.0.113.7");
    assert_found(&clients, "10.0.0.1", &[("x-forwarded-for", "[2001:db8::1]:443")], "2001:db8::1");
    assert_found(&clients, "10.0.0.1", &[("x-forwarded-for", "203.0.113.7, 10.0.0.2:80")], "203.0.113.7");
}

#[test]
fn mapped_ipv4_is_the_ipv4_address_as_peer_as_entry_and_in_networks() {
    let clients = behind(&["10.0.0.0/8"]);
    let plain = who(&clients, &from("192.0.2.1", &[]));
    assert_eq!(plain, "address:192.0.2.1");
    assert_eq!(who(&clients, &from("::ffff:192.0.2.1", &[])), plain);
    assert_eq!(who(&clients, &from("::ffff:10.0.0.1", &[("x-forwarded-for", "192.0.2.1")])), plain);
    assert_eq!(who(&clients, &from("10.0.0.1", &[("x-forwarded-for", "::ffff:192.0.2.1, ::ffff:10.0.0.2")])), plain);
    assert_eq!(who(&behind(&["::ffff:10.0.0.0/104"]), &from("10.0.0.1", &[("x-forwarded-for", "192.0.2.1")])), plain);
    assert_eq!(clients.client(ip("::ffff:192.0.2.1")), clients.client(ip("192.0.2.1")));
}

#[test]
fn ipv6_is_grouped_by_64_bits_or_as_configured() {
    let clients = ClientAddress::new();
    let client = |text| clients.client(ip(text));
    assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:2:ffff::9"));
    assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    assert_eq!(client("2001:db8:1:2::1").expose().to_string(), "address:2001:db8:1:2::/64");

    let clients = ClientAddress::new().ipv6_prefix(48).unwrap().ipv4_prefix(24).unwrap();
    let client = |text| clients.client(ip(text));
    assert_eq!(client("2001:db8:1:2::1"), client("2001:db8:1:3::1"));
    assert_ne!(client("2001:db8:1:2::1"), client("2001:db8:2:2::1"));
    assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.9"));
    assert_ne!(client("192.0.2.1"), client("192.0.3.1"));

    let clients = ClientAddress::new().ipv6_prefix(128).unwrap();
    assert_ne!(clients.client(ip("2001:db8::1")), clients.client(ip("2001:db8::2")));
}

#[test]
fn a_prefix_out_of_range_is_refused_with_the_range() {
    for bits in 0..=u8::MAX {
        let (ipv4, ipv6) = (ClientAddress::new().ipv4_prefix(bits), ClientAddress::new().ipv6_prefix(bits));
        assert_eq!(ipv4.err(), (!(1..=32).contains(&bits)).then_some(PrefixError::Ipv4(bits)));
        assert_eq!(ipv6.err(), (!(1..=128).contains(&bits)).then_some(PrefixError::Ipv6(bits)));
    }
    assert_eq!(PrefixError::Ipv6(0).to_string(), "cannot group IPv6 addresses by 0 bits: use 1 to 128");
}

#[test]
fn kinds_never_collide() {
    let key = ApiKey::new().client(&HeaderValue::from_static("10.0.0.1")).unwrap();
    let clients = [
        ApiKey::header(HeaderName::from_static("x-tenant-key")).client(&HeaderValue::from_static("10.0.0.1")).unwrap(),
        Bearer::new().client("10.0.0.1").unwrap(),
        Client::named("address", "10.0.0.1"),
        Client::named("x-api-key", "10.0.0.1"),
        Client::named("header:x-api-key=\"10.0.0.1\"", ""),
        ClientAddress::new().client(ip("10.0.0.1")),
        ClientAddress::new().ipv4_prefix(31).unwrap().client(ip("10.0.0.1")),
        key.clone().and(key.clone()),
        key,
    ];
    let limiter = Limiter::token_bucket(Quota::per_hour(1)).clock(ManualClock::new()).build().unwrap();
    assert!(clients.iter().all(|client| limiter.allow(client)));
    assert!(!clients.iter().any(|client| limiter.allow(client)));
    assert_eq!(clients.iter().collect::<HashSet<_>>().len(), clients.len());
    assert_eq!(clients.iter().map(|client| client.expose().to_string()).collect::<HashSet<_>>().len(), clients.len());
}

#[test]
fn joined_parts_end_where_they_end() {
    let pair = |a: &str, b: &str| Client::named("part", a).and(Client::named("part", b));
    assert_ne!(pair("10.0.0.1", "1/x"), pair("10.0.0.11", "/x"));
    assert_ne!(pair("a", ""), pair("", "a"));
    assert_ne!(pair("a\" + value:part=\"b", "c"), pair("a", "b\" + value:part=\"c"));
    let exposed = |a, b| pair(a, b).expose().to_string();
    assert_eq!(exposed("a", "b"), r#"(value:part="a" + value:part="b")"#);
    assert_ne!(exposed("a\" + value:part=\"b", "c"), exposed("a", "b\" + value:part=\"c"));

    let [a, b, c] = ["a", "b", "c"].map(|value| Client::named("part", value));
    assert_ne!(a.clone().and(b.clone()).and(c.clone()), a.and(b.and(c)));

    let clients = FromExtensions::<String>::new("user").and(ClientAddress::new());
    let mut request = from("192.0.2.1", &[]);
    assert_eq!(who(&clients, &request), "nobody");
    request.extensions_mut().insert(String::from("ann"));
    assert_eq!(who(&clients, &request), r#"(value:user="ann" + address:192.0.2.1)"#);
    request.extensions_mut().remove::<Peer>();
    assert_eq!(who(&clients, &request), "nobody");
}

#[test]
fn without_a_peer_there_is_no_client() {
    let spoofed = request(&[("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=203.0.113.7")]);
    for clients in [ClientAddress::new(), behind(&["0.0.0.0/0", "::/0"]), behind(&[])] {
        assert_eq!(who(&clients, &spoofed), "nobody");
        assert_eq!(who(&clients, &request(&[])), "nobody");
    }
}

#[test]
fn counted_hops_need_no_addresses() {
    let clients = ClientAddress::new().trust(Trust::hops(2)).header(ForwardingHeader::Forwarded);
    let over_a_unix_socket = |value| who(&clients, &request(&[("forwarded", value)]));
    assert_eq!(over_a_unix_socket("for=203.0.113.7, for=_edge"), "address:203.0.113.7");
    assert_eq!(over_a_unix_socket("for=unknown, for=_edge"), "nobody");
    assert_eq!(over_a_unix_socket("for=203.0.113.7, for="), "nobody");
    assert_eq!(who(&clients, &request(&[])), "nobody");
}

#[test]
fn with_n_hops_the_client_is_the_nth_entry_from_the_right_or_else_the_leftmost() {
    let list = [("x-forwarded-for", "203.0.113.4, 203.0.113.3, 203.0.113.2, 203.0.113.1")];
    let found = ["192.0.2.1", "203.0.113.1", "203.0.113.2", "203.0.113.3", "203.0.113.4", "203.0.113.4"];
    for (hops, address) in found.into_iter().chain(["203.0.113.4"]).enumerate() {
        assert_found(&ClientAddress::new().trust(Trust::hops(hops)), "192.0.2.1", &list, address);
    }
    let endless = ClientAddress::new().trust(Trust::hops(usize::MAX));
    assert_found(&endless, "192.0.2.1", &list, "203.0.113.4");
    assert_found(&endless, "192.0.2.1", &[], "192.0.2.1");
}

#[test]
fn an_entry_that_cannot_be_read_stops_the_walk_at_the_last_trusted_hop() {
    let bad = [
        "",
        " ",
        "garbage",
        "203.0.113.256",
        "10.0.0.7x",
        "10.0.0.7:",
        "[10.0.0.7]",
        "for=10.0.0.7",
        "\"10.0.0.7\"",
        "\"",
    ];
    for clients in [behind(&["10.0.0.0/8"]), ClientAddress::new().trust(Trust::hops(3))] {
        for bad in bad {
            let list = |text: String| [("x-forwarded-for", text)];
            for ([(name, value)], address) in [
                (list(format!("203.0.113.7, {bad}")), "10.0.0.1"),
                (list(bad.into()), "10.0.0.1"),
                (list(format!("203.0.113.7, {bad}, 10.0.0.2")), "10.0.0.2"),
            ] {
                assert_found(&clients, "10.0.0.1", &[(name, &value)], address);
            }
            assert_found(
                &clients,
                "10.0.0.1",
                &[("x-forwarded-for", "203.0.113.7"), ("x-forwarded-for", bad)],
                "10.0.0.1",
            );
        }
    }
    let not_text = HeaderValue::from_bytes(b"203.0.113.7, \xff").unwrap();
    let mut request = from("10.0.0.1", &[]);
    request.headers_mut().insert("x-forwarded-for", not_text);
    assert_eq!(who(&behind(&["10.0.0.0/8"]), &request), "address:10.0.0.1");
}

#[test]
fn an_entry_without_an_address_is_passed_where_hops_are_counted_only() {
    for hidden in ["unknown", "_edge", "_edge:80"] {
        let list = format!("203.0.113.7, {hidden}, 10.0.0.2");
        assert_found(&behind(&["10.0.0.0/8"]), "10.0.0.1", &[("x-forwarded-for", &list)], "10.0.0.2");
        let hops = |count| ClientAddress::new().trust(Trust::hops(count));
        assert_found(&hops(3), "10.0.0.1", &[("x-forwarded-for", &list)], "203.0.113.7");
        assert_found(&hops(2), "10.0.0.1", &[("x-forwarded-for", &list)], "10.0.0.2");
    }
}

#[test]
fn only_the_configured_header_is_believed() {
    let all = [("x-forwarded-for", "203.0.113.1"), ("forwarded", "for=203.0.113.2"), ("x-real-ip", "203.0.113.3")];
    let other = ForwardingHeader::Other(HeaderName::from_static("x-real-ip"));
    let headers = [ForwardingHeader::XForwardedFor, ForwardingHeader::Forwarded, other];
    for (i, header) in headers.into_iter().enumerate() {
        let clients = behind(&["10.0.0.0/8"]).header(header);
        assert_found(&clients, "10.0.0.1", &all, &format!("203.0.113.{}", i + 1));
        let without = [&all[..i], &all[i + 1..]].concat();
        assert_found(&clients, "10.0.0.1", &without, "10.0.0.1");
    }
}

#[test]
fn forwarded_is_walked_like_the_list_of_addresses() {
    let clients = behind(&["10.0.0.0/8", "2001:db8:cafe::/48"]).header(ForwardingHeader::Forwarded);
    // RFC 7239, section 7.1.
    let list = r#"for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown"#;
    assert_found(&clients, "10.0.0.1", &[("forwarded", list)], "10.0.0.1");
    let list = r#"for=192.0.2.43, for="[2001:db8:cafe::17]:47011";proto=http;by=203.0.113.43"#;
    assert_found(&clients, "10.0.0.1", &[("forwarded", list)], "192.0.2.43");
    assert_found(&clients, "10.0.0.1", &[("Forwarded", "for=192.0.2.43"), ("FORWARDED", "FOR=10.0.0.2")], "192.0.2.43");
    // A client's open quote does not swallow what the proxy adds.
    assert_found(&clients, "10.0.0.1", &[("forwarded", r#"for="192.0.2.43, for=203.0.113.7"#)], "203.0.113.7");
}

#[test]
fn a_list_of_a_hundred_thousand_commas_is_read() {
    let commas = ",".repeat(100_000);
    let trusted = "10.0.0.2,".repeat(20_000);
    let quotes = "\\\"".repeat(50_000);
    let cases = [
        (commas.clone(), "10.0.0.1"),
        (format!("{commas}203.0.113.7"), "203.0.113.7"),
        (format!("203.0.113.7,{trusted}10.0.0.2"), "203.0.113.7"),
        (format!("{quotes}{commas},203.0.113.7"), "203.0.113.7"),
        (format!("203.0.113.7,\"{quotes}"), "10.0.0.1"),
    ];
    for (list, address) in cases {
        for trust in [networks(&["10.0.0.0/8"]), Trust::hops(100_001)] {
            let clients = ClientAddress::new().trust(trust.clone());
            // Hops of any address are trusted: the walk goes on to what cannot be read, or to the end.
            assert_found(&clients, "10.0.0.1", &[("x-forwarded-for", &list)], address);
        }
    }
    let hidden = format!("203.0.113.7{}", ",_a".repeat(100_000));
    let clients = ClientAddress::new().trust(Trust::hops(usize::MAX));
    assert_found(&clients, "10.0.0.1", &[("x-forwarded-for", &hidden)], "203.0.113.7");
    let elements = format!("for=203.0.113.7{}", ",for=10.0.0.2".repeat(20_000));
    let clients = behind(&["10.0.0.0/8"]).header(ForwardingHeader::Forwarded);
    assert_found(&clients, "10.0.0.1", &[("forwarded", &elements)], "203.0.113.7");
    for hostile in [quotes, commas, "\\".repeat(100_000), "\"".repeat(99_999), ";".repeat(100_000)] {
        assert_found(&clients, "10.0.0.1", &[("forwarded", &format!("{hostile},for=203.0.113.7"))], "203.0.113.7");
        assert_found(&clients, "10.0.0.1", &[("forwarded", &format!("{hostile};for=_"))], "10.0.0.1");
    }
}

#[test]
fn a_key_counts_unless_it_is_empty_or_not_valid() {
    let keys = ApiKey::new();
    assert_eq!(who(&keys, &request(&[])), "nobody");
    assert_eq!(who(&keys, &request(&[("x-api-key", "")])), "nobody");
    assert_eq!(who(&keys, &request(&[("x-api-key", " \t")])), "nobody");
    assert_eq!(who(&keys, &request(&[("X-API-Key", "k-ann")])), r#"header:x-api-key="k-ann""#);
    // What HTTP/2 lets through is still the same key.
    assert_eq!(who(&keys, &request(&[("x-api-key", "\tk-ann ")])), r#"header:x-api-key="k-ann""#);
    assert_eq!(who(&keys, &request(&[("x-api-key", "k-ann"), ("x-api-key", "k-ben")])), r#"header:x-api-key="k-ann""#);

    let tenants = ApiKey::header(HeaderName::from_static("x-tenant-key"));
    assert_eq!(who(&tenants, &request(&[("x-api-key", "k-ann")])), "nobody");
    assert_eq!(who(&tenants, &request(&[("X-Tenant-Key", "k-ann")])), r#"header:x-tenant-key="k-ann""#);

    let given_out = ApiKey::new().valid_if(|key| ["k-ann", "k-bjørn"].contains(&key)).or(ClientAddress::new());
    assert_eq!(who(&given_out, &from("192.0.2.1", &[("x-api-key", "k-ann")])), r#"header:x-api-key="k-ann""#);
    assert_eq!(who(&given_out, &from("192.0.2.1", &[("x-api-key", " k-ann")])), r#"header:x-api-key="k-ann""#);
    assert_eq!(who(&given_out, &from("192.0.2.1", &[("x-api-key", "made up")])), "address:192.0.2.1");
    let mut request = from("192.0.2.1", &[]);
    request.headers_mut().insert("x-api-key", HeaderValue::from_bytes("k-bjørn".as_bytes()).unwrap());
    assert_eq!(who(&given_out, &request), r#"header:x-api-key="k-bj\xc3\xb8rn""#);
    request.headers_mut().insert("x-api-key", HeaderValue::from_bytes(b"k-\xff").unwrap());
    assert_eq!(who(&given_out, &request), "address:192.0.2.1");
    assert_eq!(who(&ApiKey::new(), &request), r#"header:x-api-key="k-\xff""#);
}

#[test]
fn a_bearer_token_counts_by_its_hash() {
    let tokens = Bearer::new();
    let token = |value| tokens.identify(&Head::from(&request(&[("Authorization", value)])));
    let client = token("Bearer s3cret").unwrap();
    for same in ["bearer s3cret", "BEARER s3cret", "Bearer   s3cret", "Bearer\ts3cret \t", " Bearer s3cret"] {
        assert_eq!(token(same).as_ref(), Some(&client), "{same:?}");
    }
    for other in ["Bearer S3cret", "Bearer s3cret2", "Bearer s3cret s3cret"] {
        assert!(token(other).is_some_and(|other| other != client), "{other:?}");
    }
    for none in ["", "Bearer", "Bearer ", "Bearer \t", "Basic s3cret", "Bearers3cret", "Bearer:s3cret", "s3cret"] {
        assert_eq!(token(none), None, "{none:?}");
    }

    let exposed = client.expose().to_string();
    assert!(exposed.starts_with("token:") && exposed.len() == 6 + 32 && !exposed.contains("s3cret"));
    // All of a process agree; a key of one's own makes others agree too, and only those.
    assert_eq!(Bearer::default().client("s3cret"), Some(client.clone()));
    let keyed = Bearer::keyed([7; 16]).client("s3cret");
    assert_eq!(Bearer::keyed([7; 16]).client(b"s3cret"), keyed);
    assert_ne!(keyed, Some(client));
    assert_ne!(Bearer::keyed([8; 16]).client("s3cret"), keyed);

    let checked = Bearer::new().valid_if(|token| token == "s3cret").or(ClientAddress::new());
    assert!(who(&checked, &from("192.0.2.1", &[("authorization", "Bearer s3cret")])).starts_with("token:"));
    assert_eq!(who(&checked, &from("192.0.2.1", &[("authorization", "Bearer made-up")])), "address:192.0.2.1");
}

#[test]
fn a_bearer_hash_is_siphash_2_4_with_128_bits() {
    // From the vectors published with SipHash: the key 00 01 .. 0f, the message 00.
    let key = std::array::from_fn(|i| i as u8);
    let client = Bearer::keyed(key).client([0_u8]).unwrap();
    assert_eq!(client.expose().to_string(), "token:da87c1d86b99af44347659119b22fc45");
}

#[test]
fn a_value_that_displays_as_nothing_is_no_client() {
    let users = FromExtensions::<String>::new("user").or(ClientAddress::new());
    let mut request = from("192.0.2.1", &[]);
    request.extensions_mut().insert(String::new());
    assert_eq!(who(&users, &request), "address:192.0.2.1");
    request.extensions_mut().insert(String::from("ann"));
    assert_eq!(who(&users, &request), r#"value:user="ann""#);
    let plans = FromExtensions::<String>::new("plan");
    assert_ne!(plans.identify(&Head::from(&request)), users.identify(&Head::from(&request)));
}

#[test]
fn the_first_that_tells_decides() {
    let clients: Arc<dyn Identify> = Arc::new(
        ApiKey::new()
            .or(Bearer::keyed([0; 16]))
            .or(|head: &Head<'_>| Some(Client::named("user", head.extensions().get::<u64>()?)))
            .or(ClientAddress::new()),
    );
    let mut request = from("192.0.2.1", &[("x-api-key", "k"), ("authorization", "Bearer t")]);
    request.extensions_mut().insert(7_u64);
    assert_eq!(who(&clients, &request), r#"header:x-api-key="k""#);
    request.headers_mut().remove("x-api-key");
    assert!(who(&clients, &request).starts_with("token:"));
    request.headers_mut().remove("authorization");
    assert_eq!(who(&clients, &request), r#"value:user="7""#);
    request.extensions_mut().remove::<u64>();
    assert_eq!(who(&clients, &request), "address:192.0.2.1");
    request.extensions_mut().remove::<Peer>();
    assert_eq!(who(&clients, &request), "nobody");
}

#[test]
fn debug_shows_no_values() {
    let request = from("192.0.2.1", &[("x-api-key", "s3cret"), ("authorization", "Bearer s3cret")]);
    let head = Head::from(&request);
    let clients = ApiKey::new().and(Bearer::new()).and(ClientAddress::new());
    let client = clients.identify(&head).unwrap().and(Client::named("user", "s3cret"));
    assert_eq!(format!("{client:?}"), "Client(x-api-key + token + address + user)");
    assert_eq!(format!("{:?}", client.expose()), "Exposed(Client(x-api-key + token + address + user))");
    let query = Request::get("/a?key=s3cret").header("x-api-key", "s3cret").body(()).unwrap();
    assert!(!format!("{:?}", Head::from(&query)).contains("s3cret"));
    assert!(format!("{:?}", Head::from(&query)).contains("/a"));
    let keyed = Bearer::keyed(*b"0123456789abcdef").valid_if(|_| true);
    assert_eq!(format!("{keyed:?}"), "Bearer { secret: validated, .. }");
    assert_eq!(format!("{:?}", ApiKey::new()), r#"ApiKey { header: "x-api-key", secret: any }"#);
}

#[test]
fn a_forwarding_header_is_noticed_while_nobody_is_trusted() {
    for (name, value) in [("x-forwarded-for", "203.0.113.7"), ("forwarded", "for=203.0.113.7")] {
        let clients = ClientAddress::new();
        let clone = clients.clone();
        assert_found(&clients, "192.0.2.1", &[("x-api-key", "k")], "192.0.2.1");
        assert!(!clients.ignored_a_proxy());
        assert_found(&clone, "192.0.2.1", &[(name, value)], "192.0.2.1");
        assert!(clients.ignored_a_proxy());

        for trusting in [behind(&["10.0.0.0/8"]), ClientAddress::new().trust(Trust::hops(1))] {
            who(&trusting, &from("192.0.2.1", &[(name, value)]));
            assert!(!trusting.ignored_a_proxy());
        }
    }
}

#[test]
fn the_peer_can_come_from_elsewhere() {
    let clients = ClientAddress::new().peer_from(|head| head.extensions().get().copied());
    let mut request = from("192.0.2.1", &[]);
    assert_eq!(who(&clients, &request), "nobody");
    request.extensions_mut().insert(ip("192.0.2.2"));
    assert_eq!(who(&clients, &request), "address:192.0.2.2");
}

#[cfg(feature = "axum")]
#[test]
fn the_connect_info_of_axum_is_the_peer_unless_a_peer_is_given() {
    let accepted: std::net::SocketAddr = "[::ffff:192.0.2.1]:40000".parse().unwrap();
    let mut request = request(&[]);
    request.extensions_mut().insert(axum::extract::ConnectInfo(accepted));
    assert_eq!(who(&ClientAddress::new(), &request), "address:192.0.2.1");
    request.extensions_mut().insert(Peer(ip("192.0.2.2")));
    assert_eq!(who(&ClientAddress::new(), &request), "address:192.0.2.2");
}

#[cfg(feature = "tracing")]
#[test]
fn an_ignored_proxy_is_warned_of_once_and_without_the_address() {
    use std::fmt::{Debug, Write};
    use std::sync::Mutex;
    use tracing::field::{Field, Visit};
    use tracing::{Event, Level, Metadata, Subscriber, span};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<(Level, String)>>>);

    struct Text<'a>(&'a mut String);

    impl Visit for Text<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            write!(self.0, "{field}={value:?}").unwrap();
        }
    }

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }
        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn event(&self, event: &Event<'_>) {
            let mut text = String::new();
            event.record(&mut Text(&mut text));
            self.0.lock().unwrap().push((*event.metadata().level(), text));
        }
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    let log = Log::default();
    let clients = ClientAddress::new();
    tracing::subscriber::with_default(log.clone(), || {
        for i in 0..10 {
            who(&clients.clone(), &from("192.0.2.1", &[("x-forwarded-for", &format!("203.0.113.{i}"))]));
        }
    });
    let events = log.0.lock().unwrap();
    let [(level, text)] = &events[..] else { panic!("one warning: {events:?}") };
    assert_eq!(*level, Level::WARN);
    assert!(text.contains("ClientAddress::trust") && !text.contains("203.0.113"), "{text}");
}

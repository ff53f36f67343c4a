//! Clients from any headers.

use http::{HeaderName, HeaderValue, Request};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tollgate::http::Head;
use tollgate::http::client::{ApiKey, Bearer, Client, ClientAddress, ForwardingHeader, Identify, Network, Peer, Trust};

const X_FORWARDED_FOR: &str = "x-forwarded-for";
const FORWARDED: &str = "forwarded";
const REAL: &str = "x-real-ip";

/// A text is a network, which displays as a text for itself and contains its own address, or there is a short reason.
pub fn network(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match text.parse::<Network>() {
        Ok(network) => {
            let canonical = network.to_string();
            assert_eq!(canonical.parse(), Ok(network));
            assert!(network.contains(canonical.split('/').next().unwrap().parse().unwrap()));
        }
        Err(error) => assert!(error.to_string().len() < 400),
    }
}

/// Whatever the lines of the headers are, who is not trusted stays who it is, and what a trusted proxy adds to them counts.
pub fn headers(data: &[u8]) {
    let lines: Vec<_> =
        data.split(|&byte| byte == b'\n').filter_map(|line| HeaderValue::from_bytes(line).ok()).collect();
    let proxy = IpAddr::from([10, 0, 0, 1]);
    let networks = || Trust::networks(["10.0.0.0/8".parse().unwrap()]);

    for (header, name) in [
        (ForwardingHeader::XForwardedFor, X_FORWARDED_FOR),
        (ForwardingHeader::Forwarded, FORWARDED),
        (ForwardingHeader::Other(HeaderName::from_static(REAL)), REAL),
    ] {
        let behind = |trust| ClientAddress::new().trust(trust).header(header.clone());
        let find = |clients: &ClientAddress, peer, lines: &[HeaderValue]| {
            clients.find(&Head::from(&request(peer, name, lines)))
        };

        let stranger = IpAddr::from([198, 51, 100, 1]);
        assert_eq!(find(&behind(networks()), Some(stranger), &lines), Some(stranger));
        assert_eq!(find(&behind(Trust::nobody()), Some(stranger), &lines), Some(stranger));
        assert_eq!(find(&behind(networks()), None, &lines), None);
        assert!(find(&behind(Trust::hops(usize::MAX)), Some(proxy), &lines).is_some());

        let client = IpAddr::from([203, 0, 113, 7]);
        let added = if name == FORWARDED {
            [r#"for="203.0.113.7:80";host="a\"\\,b""#, "for=203.0.113.7, for=10.0.0.2"]
        } else {
            ["203.0.113.7:80", "203.0.113.7,10.0.0.2"]
        };
        for (hops, added) in added.into_iter().enumerate() {
            let mut line_of_its_own = lines.clone();
            line_of_its_own.push(HeaderValue::from_static(added));
            let mut same_line = lines.clone();
            let last = same_line.pop().unwrap_or(HeaderValue::from_static(""));
            same_line.push(HeaderValue::from_bytes(&[last.as_bytes(), b", ", added.as_bytes()].concat()).unwrap());
            for lines in [line_of_its_own, same_line] {
                for trust in [networks(), Trust::hops(hops + 1)] {
                    assert_eq!(find(&behind(trust), Some(proxy), &lines), Some(client), "{lines:?}");
                }
            }
        }
    }

    let key = ApiKey::new().identify(&Head::from(&request(None, "x-api-key", &lines)));
    let blank = |line: &HeaderValue| line.as_bytes().trim_ascii().is_empty();
    assert_eq!(key.is_some(), lines.first().is_some_and(|first| !blank(first)));
    let token = Bearer::new().identify(&Head::from(&request(None, "authorization", &lines)));
    let text = Client::named("text", String::from_utf8_lossy(data));
    for client in [key, token, Some(text)].into_iter().flatten() {
        assert!(!client.expose().to_string().contains(char::is_control));
        assert!(format!("{client:?}").len() < 30);
    }
}

fn request(peer: Option<IpAddr>, name: &'static str, lines: &[HeaderValue]) -> Request<()> {
    let mut request = Request::new(());
    for line in lines {
        request.headers_mut().append(name, line.clone());
    }
    if let Some(peer) = peer {
        request.extensions_mut().insert(Peer(peer));
    }
    request
}

/// How a walk ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    NoPeer,
    PeerIsTheClient,
    FirstUntrusted,
    AllTrusted,
    Malformed,
    Hidden,
}

impl Outcome {
    #[allow(dead_code, reason = "looked at by the bounded run only")]
    pub const ALL: [Self; 6] =
        [Self::NoPeer, Self::PeerIsTheClient, Self::FirstUntrusted, Self::AllTrusted, Self::Malformed, Self::Hidden];
}

/// What an entry is meant to say, however it is spelled.
#[derive(Clone, Copy, Debug)]
enum Entry {
    At(IpAddr),
    Hidden,
    Malformed,
}

/// Whom the configuration trusts, as the oracle sees it.
#[derive(Debug)]
enum Trusted {
    Networks(Vec<(IpAddr, u32)>),
    Hops(usize),
}

/// Makes a configuration and a list of entries from the data, spells the list in some way, and looks whether the client is
/// the one that a walk over the entries themselves finds.
pub fn walk(data: &[u8]) -> Outcome {
    let mut choices = Choices(data.iter());
    let name = choices.one(&[X_FORWARDED_FOR, FORWARDED, REAL]);
    let trusted = trusted(&mut choices);
    let peer = (!choices.once_in(8)).then(|| address(&mut choices));
    let entries: Vec<_> = (0..choices.below(8)).map(|_| entry(&mut choices)).collect();

    let mut lines = vec![String::new(); entries.len().min(1)];
    for (i, &entry) in entries.iter().enumerate() {
        if i > 0 && choices.once_in(3) {
            lines.push(String::new());
        } else if i > 0 {
            lines.last_mut().unwrap().push(',');
        }
        let text = if name == FORWARDED { spell_element(entry, &mut choices) } else { spell_node(entry, &mut choices) };
        let padding = choices.one(&["", " ", "\t ", ""]);
        lines.last_mut().unwrap().extend([padding, &text, choices.one(&["", " "])]);
    }
    let values: Vec<_> = lines.iter().map(|line| HeaderValue::from_str(line).unwrap()).collect();

    let clients = ClientAddress::new()
        .trust(match &trusted {
            Trusted::Networks(networks) => {
                Trust::networks(networks.iter().map(|(address, bits)| format!("{address}/{bits}").parse().unwrap()))
            }
            Trusted::Hops(count) => Trust::hops(*count),
        })
        .header(match name {
            X_FORWARDED_FOR => ForwardingHeader::XForwardedFor,
            FORWARDED => ForwardingHeader::Forwarded,
            other => ForwardingHeader::Other(HeaderName::from_static(other)),
        });
    let request = request(peer, name, &values);
    let (client, outcome) = naive_walk(peer, &entries, &trusted);
    assert_eq!(clients.find(&Head::from(&request)), client, "peer {peer:?}, {trusted:?}, {entries:?} as {lines:?}");
    assert_eq!(clients.identify(&Head::from(&request)), client.map(|address| clients.client(address)));
    outcome
}

/// The chain as an array, nearest first, and the client by its place in it.
fn naive_walk(peer: Option<IpAddr>, entries: &[Entry], trusted: &Trusted) -> (Option<IpAddr>, Outcome) {
    let mut chain = vec![peer.map_or(Entry::Hidden, Entry::At)];
    chain.extend(entries.iter().rev());
    let trusts = |place: usize| match (trusted, chain[place]) {
        (_, Entry::Malformed) => false,
        (Trusted::Hops(count), _) => place < *count,
        (Trusted::Networks(_), Entry::Hidden) => false,
        (Trusted::Networks(networks), Entry::At(address)) => networks.iter().any(|&(network, bits)| {
            let differs = bits_of(address) ^ bits_of(network);
            network.is_ipv4() == address.to_canonical().is_ipv4()
                && differs.leading_zeros() >= (128 - width(network)) + bits
        }),
    };
    let last = (0..chain.len()).find(|&place| !trusts(place)).unwrap_or(chain.len() - 1);
    let mut addresses = chain[..=last].iter().filter_map(|entry| match entry {
        Entry::At(address) => Some(address.to_canonical()),
        _ => None,
    });
    let outcome = match chain[last] {
        _ if peer.is_none() && last == 0 => Outcome::NoPeer,
        Entry::Malformed => Outcome::Malformed,
        Entry::Hidden => Outcome::Hidden,
        Entry::At(_) if trusts(last) => Outcome::AllTrusted,
        Entry::At(_) if last == 0 => Outcome::PeerIsTheClient,
        Entry::At(_) => Outcome::FirstUntrusted,
    };
    (addresses.next_back(), outcome)
}

fn bits_of(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn width(network: IpAddr) -> u32 {
    if network.is_ipv4() { 32 } else { 128 }
}

fn trusted(choices: &mut Choices<'_>) -> Trusted {
    const NETWORKS: [(IpAddr, u32); 7] = [
        (IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8),
        (IpAddr::V4(Ipv4Addr::new(10, 1, 0, 0)), 16),
        (IpAddr::V4(Ipv4Addr::new(172, 16, 0, 0)), 12),
        (IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 32),
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        (IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0)), 8),
        (IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0),
    ];
    if choices.once_in(3) {
        return Trusted::Hops(choices.below(6));
    }
    // To trust everybody is rare.
    Trusted::Networks(
        NETWORKS
            .into_iter()
            .filter(|(_, bits)| if *bits == 0 { choices.once_in(16) } else { !choices.once_in(3) })
            .collect(),
    )
}

fn entry(choices: &mut Choices<'_>) -> Entry {
    match choices.below(12) {
        0 => Entry::Malformed,
        1 => Entry::Hidden,
        _ => Entry::At(address(choices)),
    }
}

fn address(choices: &mut Choices<'_>) -> IpAddr {
    let [a, b, c] = [(); 3].map(|()| choices.next());
    match choices.below(8) {
        0..=2 => [10, a & 3, b, c].into(),
        3 => [172, 14 + a % 20, b, c].into(),
        4 => [192, 0, 2, a & 3].into(),
        5 => [a, b, c, 1].into(),
        6 => Ipv6Addr::new(0xfc00 + u16::from(a) * 2, b.into(), 0, 0, 0, 0, 0, c.into()).into(),
        _ => Ipv4Addr::new(10, a, b, c).to_ipv6_mapped().into(),
    }
}

fn spell_node(entry: Entry, choices: &mut Choices<'_>) -> String {
    match entry {
        Entry::At(IpAddr::V4(address)) => match choices.below(3) {
            0 => address.to_string(),
            1 => format!("{address}:{}", choices.next()),
            _ => address.to_ipv6_mapped().to_string(),
        },
        Entry::At(IpAddr::V6(address)) => match choices.below(4) {
            0 => address.to_string(),
            1 => address.to_string().to_uppercase(),
            2 => format!("[{address}]"),
            _ => format!("[{address}]:{}", choices.next()),
        },
        Entry::Hidden => choices.one(&["unknown", "UNKNOWN:1", "_x", "_hidden.name-1:_port"]).into(),
        Entry::Malformed => {
            let bad = [
                "",
                "x",
                "10.0.0",
                "10.0.0.256",
                "[10.0.0.1]",
                "[::1",
                "10.0.0.1:",
                "10.0.0.1 10.0.0.1",
                "\"",
                "for=10.0.0.1",
            ];
            choices.one(&bad).into()
        }
    }
}

fn spell_element(entry: Entry, choices: &mut Choices<'_>) -> String {
    let other = choices.one(&["", "proto=https;", "by=_us ; ", "host=\"a, b;\\\"c\\\\\";", ";", "for2=10.0.0.9;"]);
    if let Entry::Malformed = entry {
        let bad = [
            "",
            "for",
            "for=",
            "10.0.0.1",
            "for=10.0.0.1;for=10.0.0.1",
            "for=\"10.0.0.1",
            "for=10.0.0.1\"",
            "for = 10.0.0.1",
            "for=\"\\\"10.0.0.1\"",
            "for=x",
            "for=10.0.0.1 by=x",
            "\"",
            "\\\"",
            ";",
        ];
        return choices.one(&bad).into();
    }
    if let (Entry::Hidden, true) = (entry, choices.once_in(3)) {
        return "proto=http;by=10.0.0.9".into();
    }
    let node = spell_node(entry, choices);
    let node = match choices.below(3) {
        0 => node,
        1 => format!("\"{node}\""),
        // Any character of a quoted string may be escaped.
        _ => format!("\"{}\"", node.chars().flat_map(|c| ['\\', c]).collect::<String>()),
    };
    format!("{other}{}={node}{}", choices.one(&["for", "For", "FOR"]), choices.one(&["", ";", " ; proto=\"h,t\\\\\""]))
}

/// Decisions, one byte each; all zero when the data is used up.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn next(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::from(self.next()) % end
    }

    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

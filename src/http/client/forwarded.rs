//! The lists of `X-Forwarded-For` and `Forwarded`, read from the right.
//!
//! Each proxy adds the address of its own peer at the right end of what it was sent, so the right end is where the truth
//! is. What stands to the left may be anything that a client has made up: an opened quote that is never closed, say, which
//! to a reader from the left would swallow what the proxies have added. A reader from the right finds an element of a
//! proxy whole, whatever is before it, since from there the quotes and escapes of a well-formed element are as
//! unambiguous.
//!
//! Everything here works on the bytes where they are, allocates nothing, and looks at each byte a fixed number of times.

use http::HeaderValue;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What one entry of a list says about one hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// Its address, canonical.
    At(IpAddr),
    /// Well-formed, but without an address: `unknown`, a name that stands for one, or nothing about that side at all.
    Hidden,
    /// Not to be understood.
    Malformed,
}

/// The hops of a header of addresses such as `X-Forwarded-For`, from the right. Several lines are one list.
pub(super) fn listed<'a>(
    lines: impl DoubleEndedIterator<Item = &'a HeaderValue> + 'a,
) -> impl Iterator<Item = Hop> + 'a {
    lines.rev().flat_map(|line| line.as_bytes().rsplit(|&byte| byte == b',')).map(|entry| node(entry.trim_ascii()))
}

/// The hops of `Forwarded`, from the right. Several lines are one list.
pub(super) fn elements<'a>(
    lines: impl DoubleEndedIterator<Item = &'a HeaderValue> + 'a,
) -> impl Iterator<Item = Hop> + 'a {
    lines.rev().flat_map(|line| Elements { rest: Some(line.as_bytes()) }).map(element)
}

/// Splits at the commas outside of quotes, from the right.
struct Elements<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let text = self.rest?;
        let (mut at, mut quoted) = (text.len(), false);
        while at > 0 {
            at -= 1;
            match text[at] {
                // The quote that opens a string stands after a `=`, so one after a backslash is a character of the string.
                b'"' => quoted = !quoted || text[..at].ends_with(b"\\"),
                b',' if !quoted => {
                    self.rest = Some(&text[..at]);
                    return Some(&text[at + 1..]);
                }
                _ => {}
            }
        }
        self.rest = None;
        Some(text)
    }
}

/// Reads an element: `name=value` pairs between semicolons, of which one may be `for`.
fn element(text: &[u8]) -> Hop {
    /// The hop told by `for`, `Hidden` without one.
    fn read(mut rest: &[u8]) -> Option<Hop> {
        let mut hop = None;
        let mut pairs = 0;
        loop {
            rest = rest.trim_ascii_start();
            match rest {
                [] => break,
                [b';', tail @ ..] => {
                    rest = tail;
                    continue;
                }
                _ => pairs += 1,
            }
            let (name, tail) = rest.split_at(rest.iter().position(|&byte| !is_token(byte))?);
            let (value, tail) = value(tail.strip_prefix(b"=")?)?;
            if name.is_empty() {
                return None;
            }
            if name.eq_ignore_ascii_case(b"for") && hop.replace(value.node()).is_some() {
                return None;
            }
            rest = tail.trim_ascii_start();
            if !matches!(rest, [] | [b';', ..]) {
                return None;
            }
        }
        (pairs > 0).then_some(hop.unwrap_or(Hop::Hidden))
    }
    read(text).unwrap_or(Hop::Malformed)
}

/// The value of a pair, as it stands in the header.
enum Value<'a> {
    Plain(&'a [u8]),
    /// What is between the quotes, escapes and all.
    Quoted(&'a [u8]),
}

/// Splits off a value. One without quotes may hold what an address with a port needs, though it should have them.
fn value(text: &[u8]) -> Option<(Value<'_>, &[u8])> {
    let Some(text) = text.strip_prefix(b"\"") else {
        let plain = |byte: &u8| is_token(*byte) || b":[]".contains(byte);
        let (value, rest) = text.split_at(text.iter().position(|byte| !plain(byte)).unwrap_or(text.len()));
        return (!value.is_empty()).then_some((Value::Plain(value), rest));
    };
    let mut escaped = false;
    let end = text.iter().position(|&byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    Some((Value::Quoted(&text[..end]), &text[end + 1..]))
}

impl Value<'_> {
    fn node(&self) -> Hop {
        match *self {
            Self::Plain(text) => node(text),
            Self::Quoted(text) if !text.contains(&b'\\') => node(text),
            Self::Quoted(text) => {
                // More than any address with a port takes.
                let mut plain = [0; 64];
                let mut len = 0;
                let mut bytes = text.iter();
                while let Some(&byte) = bytes.next() {
                    // The text ends before an unescaped quote, so something follows each escape.
                    let byte = if byte == b'\\' { bytes.next().copied().unwrap_or(byte) } else { byte };
                    let Some(place) = plain.get_mut(len) else { return Hop::Malformed };
                    *place = byte;
                    len += 1;
                }
                node(&plain[..len])
            }
        }
    }
}

/// Reads a node of RFC 7239, section 6: an address, `unknown` or a name that starts with `_`, and a port or not. Also an
/// IPv6 address without brackets, as it stands in `X-Forwarded-For`.
fn node(text: &[u8]) -> Hop {
    fn read(text: &str) -> Option<Hop> {
        let at = |address: IpAddr| Hop::At(address.to_canonical());
        if let Some(text) = text.strip_prefix('[') {
            let (address, port) = text.split_once(']')?;
            let address: Ipv6Addr = address.parse().ok()?;
            return (port.is_empty() || is_port(port.strip_prefix(':')?)).then_some(at(address.into()));
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            return Some(at(address.into()));
        }
        let name = match text.split_once(':') {
            Some((name, port)) => is_port(port).then_some(name)?,
            None => text,
        };
        if let Ok(address) = name.parse::<Ipv4Addr>() {
            return Some(at(address.into()));
        }
        (name.eq_ignore_ascii_case("unknown") || is_obfuscated(name)).then_some(Hop::Hidden)
    }
    str::from_utf8(text).ok().and_then(read).unwrap_or(Hop::Malformed)
}

fn is_port(text: &str) -> bool {
    let digits = matches!(text.len(), 1..=5) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits || is_obfuscated(text)
}

fn is_obfuscated(text: &str) -> bool {
    let name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    text.strip_prefix('_').is_some_and(|rest| !rest.is_empty() && name(rest))
}

/// Whether a byte may be part of a token, RFC 9110, section 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Hop::{Hidden, Malformed};

    fn at(text: &str) -> Hop {
        Hop::At(text.parse().unwrap())
    }

    #[test]
    fn reads_every_form_of_a_node() {
        let cases = [
            ("203.0.113.7", at("203.0.113.7")),
            ("203.0.113.7:5678", at("203.0.113.7")),
            ("203.0.113.7:_http", at("203.0.113.7")),
            ("2001:db8::1", at("2001:db8::1")),
            ("2001:DB8::1", at("2001:db8::1")),
            ("[2001:db8::1]", at("2001:db8::1")),
            ("[2001:db8::1]:443", at("2001:db8::1")),
            ("::ffff:192.0.2.1", at("192.0.2.1")),
            ("[::ffff:192.0.2.1]:443", at("192.0.2.1")),
            ("unknown", Hidden),
            ("Unknown:80", Hidden),
            ("_gateway-1.a_b", Hidden),
            ("_gateway:_port", Hidden),
        ];
        for (text, hop) in cases {
            assert_eq!(node(text.as_bytes()), hop, "{text}");
        }
    }

    #[test]
    fn what_is_no_node_is_malformed() {
        let cases: [&[u8]; 28] = [
            b"",
            b" ",
            b"-",
            b"_",
            b"__ ",
            b"localhost",
            b"1",
            b"203.0.113",
            b"203.0.113.256",
            b"203.0.113.07",
            b"0x7f.0.0.1",
            b"203.0.113.7:",
            b"203.0.113.7:123456",
            b"203.0.113.7:+1",
            b"203.0.113.7:80:80",
            b"203.0.113.7 ",
            b"203.0.113.7;",
            b"\"203.0.113.7\"",
            b"[203.0.113.7]",
            b"[2001:db8::1",
            b"2001:db8::1]",
            b"[2001:db8::1]443",
            b"[2001:db8::1]:",
            b"fe80::1%eth0",
            b"2001:db8::1::2",
            b"203.0.113.7\xff",
            b"\xe2\x82",
            b"unknowns",
        ];
        for text in cases {
            assert_eq!(node(text), Malformed, "{}", text.escape_ascii());
        }
    }

    #[test]
    fn reads_the_examples_of_rfc_7239() {
        let cases: [(&[&str], &[Hop]); 12] = [
            // Section 4.
            (&[r#"for="_gazonk""#], &[Hidden]),
            (&[r#"For="[2001:db8:cafe::17]:4711""#], &[at("2001:db8:cafe::17")]),
            (&["for=192.0.2.60;proto=http;by=203.0.113.43"], &[at("192.0.2.60")]),
            (&["for=192.0.2.43, for=198.51.100.17"], &[at("198.51.100.17"), at("192.0.2.43")]),
            // Section 6.
            (&[r#"for="192.0.2.43:47011""#], &[at("192.0.2.43")]),
            (&[r#"for="[2001:db8:cafe::17]:47011""#], &[at("2001:db8:cafe::17")]),
            (&["for=unknown"], &[Hidden]),
            (&["for=_hidden, for=_SEVKISEK"], &[Hidden, Hidden]),
            // Section 7.1: one list, written in three ways.
            (
                &[r#"for=192.0.2.43,for="[2001:db8:cafe::17]",for=unknown"#],
                &[Hidden, at("2001:db8:cafe::17"), at("192.0.2.43")],
            ),
            (
                &[r#"for=192.0.2.43, for="[2001:db8:cafe::17]", for=unknown"#],
                &[Hidden, at("2001:db8:cafe::17"), at("192.0.2.43")],
            ),
            (
                &["for=192.0.2.43", r#"for="[2001:db8:cafe::17]", for=unknown"#],
                &[Hidden, at("2001:db8:cafe::17"), at("192.0.2.43")],
            ),
            // Section 7.4.
            (&[r#"for=192.0.2.43, for="[2001:db8:cafe::17]""#], &[at("2001:db8:cafe::17"), at("192.0.2.43")]),
        ];
        for (lines, hops) in cases {
            assert_eq!(forwarded(lines), hops, "{lines:?}");
        }
    }

    #[test]
    fn reads_pairs_as_loosely_as_they_are_written() {
        let cases = [
            (r#"host="a;b,c\"d,\\";for=192.0.2.1"#, at("192.0.2.1")),
            (r#"for="\1\9\2.0.2.1""#, at("192.0.2.1")),
            (r#"for="\[2001:db8::1\]:80""#, at("2001:db8::1")),
            ("FOR=192.0.2.1", at("192.0.2.1")),
            (" ; proto=https ;for=192.0.2.1; ", at("192.0.2.1")),
            ("for=192.0.2.1:80;host=example.com:8080", at("192.0.2.1")),
            ("for=[2001:db8::1]:80", at("2001:db8::1")),
            (r#"for="2001:db8::1""#, at("2001:db8::1")),
            ("by=192.0.2.1;proto=http", Hidden),
            (r#"host="""#, Hidden),
        ];
        for (text, hop) in cases {
            assert_eq!(forwarded(&[text]), [hop], "{text}");
        }
    }

    #[test]
    fn what_is_no_element_is_malformed() {
        let long = format!(r#"for="\_{}""#, "a".repeat(64));
        let cases = [
            "",
            " ",
            ";",
            "for",
            "for=",
            "for=;",
            "=192.0.2.1",
            "192.0.2.1",
            "for 192.0.2.1",
            "for =192.0.2.1",
            "for= 192.0.2.1",
            "for=192.0.2.1;for=192.0.2.2",
            "for=192.0.2.1 proto=http",
            r#"for="192.0.2.1"#,
            r#"for=192.0.2.1""#,
            r#"for="192.0.2.1"x"#,
            r#"for="192.0.2.1\""#,
            r#"for="""#,
            r#"for=" 192.0.2.1""#,
            "for=192.0.2.1;proto",
            "for=192.0.2.1;@=1",
            "for=192.0.2.1;host=a/b",
            "for='192.0.2.1'",
            &long,
        ];
        for text in cases {
            assert_eq!(forwarded(&[text]), [Malformed], "{text}");
        }
    }

    #[test]
    fn an_element_is_found_whole_whatever_is_to_the_left_of_it() {
        let element = r#"for="[2001:db8::1]:80";host="a, \"b\\\", c\\""#;
        for hostile in ["\"", "for=\"", "for=\"x\\", "\\", "\\\\\"", "for=\"a\\\"", "\"\"\"", ",\",\",\"", "\"\\"] {
            let line = format!("{hostile},{element}");
            assert_eq!(forwarded(&[&line])[0], at("2001:db8::1"), "{line}");
            assert_eq!(forwarded(&[hostile, element])[0], at("2001:db8::1"), "{line}");
        }
    }

    fn forwarded(lines: &[&str]) -> Vec<Hop> {
        let lines: Vec<_> = lines.iter().map(|line| HeaderValue::from_str(line).unwrap()).collect();
        elements(lines.iter()).collect()
    }
}

//! Names of keys.
//!
//! ```text
//! tollgate:1:{5f1c0a...}:api:t
//!    |     |      |       |  algorithm
//!    |     |      |       name of the limit
//!    |     |      client, or what the demand was tagged with; the part in braces picks a cluster's slot
//!    |     version of the layout
//!    prefix
//! ```
//!
//! A demand with a tag of its own has the client's part behind the tag: `{tag}:client`. All limits of one client, and all
//! demands of one tag, share a slot.
//!
//! Clients are hashed by default, so that names are short whatever clients send, and a look into the store does not show
//! who they are. All processes must come to the same name, so the hash is no randomly seeded one, and clients choose their
//! keys, so it has to withstand those who look for collisions knowing all there is to know: 128 bits of BLAKE3, keyed by a
//! secret if one is given. Without one, whoever can read the store can try out likely keys.

use super::error::SetupError;

/// The version of keys and of what they hold.
const VERSION: &str = "1";

/// Separates this use of the hash from all others.
const CONTEXT: &str = "tollgate 2026-12-01 names of clients in a shared store";

/// How keys of clients come into names.
#[derive(Clone)]
pub(super) enum Naming {
    Hashed(Box<[u8; 32]>),
    Readable,
}

impl Naming {
    /// Hashed, with a secret that may be empty.
    pub(super) fn hashed(secret: &[u8]) -> Self {
        Self::Hashed(Box::new(blake3::derive_key(CONTEXT, secret)))
    }

    fn write(&self, name: &mut String, key: &[u8]) {
        match self {
            Self::Hashed(secret) => {
                let hash = blake3::keyed_hash(secret, key);
                hash.as_bytes()[..16].iter().for_each(|byte| write_byte(name, *byte));
            }
            Self::Readable => {
                for &byte in key {
                    match byte {
                        b'{' | b'}' | b':' | b'%' => escape(name, byte),
                        b'!'..=b'~' => name.push(byte.into()),
                        _ => escape(name, byte),
                    }
                }
                // An empty tag would be none.
                if key.is_empty() {
                    name.push('%');
                }
            }
        }
    }

    /// The name of a client's key.
    pub(super) fn name(&self, prefix: &str, limit: &str, letter: &str, client: &[u8], tag: Option<&[u8]>) -> String {
        let mut name = String::with_capacity(prefix.len() + limit.len() + 80);
        [prefix, ":", VERSION, ":{"].into_iter().for_each(|part| name.push_str(part));
        self.write(&mut name, tag.unwrap_or(client));
        name.push('}');
        if tag.is_some() {
            name.push(':');
            self.write(&mut name, client);
        }
        [":", limit, ":", letter].into_iter().for_each(|part| name.push_str(part));
        name
    }
}

fn write_byte(name: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    name.push(DIGITS[usize::from(byte >> 4)].into());
    name.push(DIGITS[usize::from(byte & 15)].into());
}

fn escape(name: &mut String, byte: u8) {
    name.push('%');
    write_byte(name, byte);
}

/// What a cluster picks the slot by.
pub(super) fn tag_of(name: &str) -> &str {
    let tag = name.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    tag.map_or(name, |(tag, _)| tag)
}

/// A prefix or the name of a limit.
pub(super) fn check(part: &str) -> Result<(), SetupError> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'{' && byte != b'}';
    match !part.is_empty() && part.bytes().all(fits) {
        true => Ok(()),
        false => Err(SetupError::Name(part.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_same_in_all_processes() {
        let naming = Naming::hashed(b"");
        let name = naming.name("tollgate", "api", "t", b"alice", None);
        assert_eq!(name, "tollgate:1:{ec3075616018f40b629dd9d369449bdc}:api:t");
        let tagged = naming.name("tollgate", "api", "t", b"alice", Some(b"acme"));
        assert_eq!(tag_of(&tagged), tag_of(&naming.name("tollgate", "day", "f", b"bob", Some(b"acme"))));
        assert!(tagged.ends_with(&name[name.find('{').unwrap() + 1..].replace('}', "")), "{tagged} {name}");
        assert_ne!(Naming::hashed(b"secret").name("tollgate", "api", "t", b"alice", None), name);
    }

    #[test]
    fn braces_in_keys_are_harmless() {
        let name = |client: &[u8], tag| Naming::Readable.name("shop", "api", "t", client, tag);
        assert_eq!(name(b"alice@example.org", None), "shop:1:{alice@example.org}:api:t");
        assert_eq!(name(b"}{a}:%\xff ", None), "shop:1:{%7d%7ba%7d%3a%25%ff%20}:api:t");
        assert_eq!(name(b"", None), "shop:1:{%}:api:t");
        assert_eq!(name(b"a:b", Some(b"{x}")), "shop:1:{%7bx%7d}:a%3ab:api:t");
        assert_eq!(tag_of(&name(b"a", Some(b"{x}"))), "%7bx%7d");
    }

    #[test]
    fn parts_of_names_are_checked() {
        assert_eq!(check("api/v1.per-day"), Ok(()));
        for part in ["", "a b", "{a}", "ä", "a\n"] {
            assert_eq!(check(part), Err(SetupError::Name(part.to_owned())));
        }
    }
}

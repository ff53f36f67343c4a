//! [`Network`], addresses by prefix, and why one is refused.

use crate::quota::Excerpt;
use ipnet::IpNet;
use std::error::Error;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A network of addresses, as `10.0.0.0/8`, `fd00::/8` or one address.
///
/// IPv4 in IPv6 is IPv4 here: `10.0.0.0/8` contains ::ffff:10.0.0.1, and `::ffff:10.0.0.0/104` is read as `10.0.0.0/8`. The
/// other way round, no network of IPv6 contains an address of IPv4, not even `::/0`.
///
/// ```
/// use tollgate::http::client::Network;
///
/// let network: Network = "10.0.0.0/8".parse().unwrap();
/// assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
/// assert_eq!(
///     "10.0.0.1/8".parse::<Network>().unwrap_err().to_string(),
///     "10.0.0.1/8 is no network, as bits are set after its prefix: write 10.0.0.0/8 or 10.0.0.1/32",
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Network(IpNet);

impl Network {
    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    /// Parses an address, or an address, `/` and the length of a prefix.
    ///
    /// # Errors
    ///
    /// Any variant of [`NetworkError`], for the case it describes.
    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| NetworkError::Address(Excerpt::new(address)))?;
        let Some(prefix) = prefix else { return Ok(address.into()) };

        let digits = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let network = digits.then(|| prefix.parse().ok()).flatten().and_then(|len| IpNet::new(address, len).ok());
        let network = network.ok_or_else(|| NetworkError::Prefix(Excerpt::new(prefix)))?;
        if network != network.trunc() {
            return Err(NetworkError::HostBits(network));
        }
        Ok(network.into())
    }
}

impl From<IpNet> for Network {
    /// The network that this one is in: bits after the prefix do not count.
    fn from(network: IpNet) -> Self {
        let network = network.trunc();
        Self(unmapped(network).unwrap_or(network))
    }
}

impl From<IpAddr> for Network {
    fn from(address: IpAddr) -> Self {
        Self(IpNet::from(address.to_canonical()))
    }
}

/// A network within ::ffff:0:0/96, as the IPv4 that it stands for.
fn unmapped(network: IpNet) -> Option<IpNet> {
    let IpAddr::V6(address) = network.addr() else { return None };
    let prefix = network.prefix_len().checked_sub(96)?;
    IpNet::new(address.to_ipv4_mapped()?.into(), prefix).ok()
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Network({})", self.0)
    }
}

/// A set of networks.
#[derive(Clone, Debug)]
pub(super) struct Networks {
    /// Ascending, and no two overlap.
    networks: Box<[IpNet]>,
}

impl Networks {
    pub(super) fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Whether a canonical address is in one of them.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let after = self.networks.partition_point(|network| network.network() <= address);
        after.checked_sub(1).is_some_and(|last| self.networks[last].contains(&address))
    }
}

impl FromIterator<Network> for Networks {
    fn from_iter<I: IntoIterator<Item = Network>>(networks: I) -> Self {
        let networks = networks.into_iter().map(|network| network.0).collect();
        let mut merged = IpNet::aggregate(&networks);
        merged.sort_unstable_by_key(IpNet::network);
        Self { networks: merged.into() }
    }
}

/// Why a text is no [`Network`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkError {
    /// What should be an address is none.
    Address(Excerpt),
    /// The length of the prefix is no number, or more bits than the address has.
    Prefix(Excerpt),
    /// Bits are set after the prefix, so either the address or the prefix is not what was meant.
    HostBits(IpNet),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(found) => {
                write!(f, "{found:?} is no address: write a network as 10.0.0.0/8, fd00::/8 or 192.0.2.1")
            }
            Self::Prefix(found) => {
                write!(f, "{found:?} is no length of a prefix: use 0 to 32 for IPv4, 0 to 128 for IPv6")
            }
            Self::HostBits(found) => {
                let (network, address) = (found.trunc(), IpNet::from(found.addr()));
                write!(f, "{found} is no network, as bits are set after its prefix: write {network} or {address}")
            }
        }
    }
}

impl Error for NetworkError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn reads_networks_and_single_addresses() {
        let cases = [
            ("10.0.0.0/8", "10.0.0.0/8"),
            ("192.0.2.1", "192.0.2.1/32"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("fd00::/8", "fd00::/8"),
            ("2001:DB8::1", "2001:db8::1/128"),
            ("::/0", "::/0"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:192.0.2.1", "192.0.2.1/32"),
        ];
        for (text, canonical) in cases {
            assert_eq!(network(text).to_string(), canonical);
            assert_eq!(network(canonical), network(text));
        }
    }

    #[test]
    fn refuses_a_text_that_is_no_network_with_a_reason() {
        use NetworkError::*;
        let found = Excerpt::new;
        let cases = [
            ("", Address(found(""))),
            ("/8", Address(found(""))),
            ("10.0.0/8", Address(found("10.0.0"))),
            ("010.0.0.0/8", Address(found("010.0.0.0"))),
            (" 10.0.0.0/8", Address(found(" 10.0.0.0"))),
            ("[fd00::]/8", Address(found("[fd00::]"))),
            ("proxy.example", Address(found("proxy.example"))),
            ("10.0.0.0/", Prefix(found(""))),
            ("10.0.0.0/33", Prefix(found("33"))),
            ("10.0.0.0/+8", Prefix(found("+8"))),
            ("10.0.0.0/8/8", Prefix(found("8/8"))),
            ("10.0.0.0/255.0.0.0", Prefix(found("255.0.0.0"))),
            ("fd00::/129", Prefix(found("129"))),
            ("fd00::/99999999999", Prefix(found("99999999999"))),
            ("fd00::1/8", HostBits(IpNet::new("fd00::1".parse().unwrap(), 8).unwrap())),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Network>(), Err(error), "{text}");
        }
    }

    #[test]
    fn ipv4_and_ipv6_never_contain_each_other() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        assert!(network("10.0.0.0/8").contains(address("::ffff:10.0.0.1")));
        assert!(network("::ffff:10.0.0.0/104").contains(address("10.0.0.1")));
        assert!(!network("::/0").contains(address("10.0.0.1")));
        assert!(!network("::/0").contains(address("::ffff:10.0.0.1")));
        assert!(!network("0.0.0.0/0").contains(address("2001:db8::1")));
        // The compatible form is long deprecated, and no system maps it.
        assert!(!network("0.0.0.0/0").contains(address("::10.0.0.1")));
    }

    #[test]
    fn a_set_contains_what_one_of_its_networks_does() {
        let texts = ["10.0.0.0/8", "10.1.0.0/16", "192.0.2.1", "198.51.100.0/25", "fd00::/8", "2001:db8::/33"];
        let set: Networks = texts.into_iter().map(network).collect();
        let addresses = [
            "0.0.0.0",
            "9.255.255.255",
            "10.0.0.0",
            "10.1.0.0",
            "10.255.255.255",
            "11.0.0.0",
            "192.0.2.0",
            "192.0.2.1",
            "192.0.2.2",
            "198.51.100.127",
            "198.51.100.128",
            "255.255.255.255",
            "::",
            "fcff::ffff",
            "fd00::",
            "fdff::1",
            "fe00::",
            "2001:db8:7fff:ffff::",
            "2001:db8:8000::",
        ];
        for address in addresses.map(|text| text.parse::<IpAddr>().unwrap()) {
            let one = texts.into_iter().any(|text| network(text).contains(address));
            assert_eq!(set.contains(address), one, "{address}");
        }

        let everything: Networks = ["0.0.0.0/0", "::/0", "10.0.0.0/8"].into_iter().map(network).collect();
        assert!(addresses.iter().all(|text| everything.contains(text.parse().unwrap())));
        let nothing: Networks = [].into_iter().collect();
        assert!(!addresses.iter().any(|text| nothing.contains(text.parse().unwrap())));
    }
}

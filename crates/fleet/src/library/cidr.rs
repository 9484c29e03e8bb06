//! Networks of `cidr_match()`. Addresses of both kinds are 128 bits: IPv4 is mapped.

use std::net::{Ipv4Addr, Ipv6Addr};

/// A network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: u128,
    /// How many bits of the address count.
    length: u32,
}

/// An address as 128 bits, and whether it is IPv4.
pub fn address(text: &[u8]) -> Option<(u128, bool)> {
    let text = std::str::from_utf8(text).ok()?;
    let four = text.parse::<Ipv4Addr>().ok().map(|four| (four.to_ipv6_mapped().to_bits(), true));
    four.or_else(|| text.parse::<Ipv6Addr>().ok().map(|six| (six.to_bits(), false)))
}

impl Network {
    /// `address[/length]`.
    ///
    /// # Errors
    /// What the installed program says of it.
    pub fn parse(text: &[u8]) -> Result<Network, String> {
        let slash = text.iter().position(|byte| *byte == b'/');
        let (host, length) = text.split_at(slash.unwrap_or(text.len()));
        let parsed = address(host);
        let is_four = parsed.map_or(!host.contains(&b':'), |(_, four)| four);
        let bits = if is_four { 32 } else { 128 };
        let length = match length.split_first() {
            None => bits,
            Some((_, digits)) => prefix_length(digits, bits)?,
        };
        let (address, _) = parsed.ok_or("Invalid IP address specified.")?;
        let network = Network { address, length: length + 128 - bits };
        match address & !network.mask() {
            0 => Ok(network),
            _ => Err("Masked-off bits must all be zero.".to_owned()),
        }
    }

    fn mask(&self) -> u128 {
        u128::MAX.checked_shl(128 - self.length).unwrap_or(0)
    }

    /// The first and the last address in it.
    pub fn range(&self) -> (u128, u128) {
        (self.address, self.address | !self.mask())
    }

    /// Whether an address is in it; what is no address is not.
    pub fn contains(&self, text: &[u8]) -> bool {
        address(text).is_some_and(|(address, _)| address & self.mask() == self.address)
    }
}

fn prefix_length(digits: &[u8], bits: u32) -> Result<u32, String> {
    let text = String::from_utf8_lossy(digits);
    let length: i64 = text.parse().map_err(|_| format!("Can't convert '{text}' to an integer."))?;
    let kind = if bits == 32 { "IPv4" } else { "IPv6" };
    let fits = (0..=i64::from(bits)).contains(&length);
    fits.then_some(length as u32)
        .ok_or_else(|| format!("Mask must be between 0 and {bits} for {kind} CIDR masks."))
}

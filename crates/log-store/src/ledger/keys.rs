//! Keys and how they follow one another. Pure.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::entry::Id128;

/// Length of an epoch without another one, µs.
pub const INTERVAL_DEFAULT_US: u64 = 15 * 60 * 1_000_000;

/// Shortest epoch, µs: each costs a line, and a file if there are messages.
pub const INTERVAL_MIN_US: u64 = 1_000_000;

/// Most epochs from one use to the next: three centuries of quarter hours.
pub const EPOCHS_MAX: u64 = 10_000_000;

/// 32 bytes: a key, a checksum or a signature.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes32(pub [u8; 32]);

impl Bytes32 {
    /// Before the first line.
    pub const ZERO: Bytes32 = Bytes32([0; 32]);

    /// Reads 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Bytes32> {
        let (high, low) = text.split_at_checked(32)?;
        let halves = [Id128::parse(high)?.0, Id128::parse(low)?.0].concat();
        Some(Bytes32(halves.try_into().ok()?))
    }
}

impl fmt::Display for Bytes32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Bytes32 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bytes32")
    }
}

/// HMAC-SHA256, RFC 2104, with a key of 32 bytes.
fn hmac(key: &Bytes32, parts: &[&[u8]]) -> Bytes32 {
    /// Bytes of a block of SHA-256.
    const BLOCK: usize = 64;
    let pad = |byte: u8| {
        let mut block = [byte; BLOCK];
        block.iter_mut().zip(key.0).for_each(|(to, key)| *to ^= key);
        block
    };
    let mut inner = Sha256::new().chain_update(pad(0x36));
    parts.iter().for_each(|part| inner.update(part));
    let outer = Sha256::new().chain_update(pad(0x5c)).chain_update(inner.finalize());
    Bytes32(outer.finalize().into())
}

/// The key of an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Which epoch, from 0.
    pub epoch: u64,
    secret: Bytes32,
}

impl Key {
    /// The key of the next epoch. There is no way back.
    pub fn next(&self) -> Key {
        Key { epoch: self.epoch + 1, secret: hmac(&self.secret, &[b"warren ledger: next key"]) }
    }

    /// Signs a line and what was signed before it.
    pub fn sign(&self, before: &Bytes32, line: &[u8]) -> Bytes32 {
        let signer = hmac(&self.secret, &[b"warren ledger: signatures"]);
        hmac(&signer, &[&before.0, line])
    }
}

/// A key and what its epoch means: the verification key is that of epoch 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// When epoch 0 began, µs since 1970.
    pub start_us: u64,
    /// Length of an epoch, µs.
    pub interval_us: u64,
    /// The key.
    pub key: Key,
}

impl State {
    /// A new one from random bytes.
    pub fn new(secret: [u8; 32], start_us: u64, interval_us: u64) -> State {
        State { start_us, interval_us, key: Key { epoch: 0, secret: Bytes32(secret) } }
    }

    /// The epoch of a time; that of the key, if the clock went back.
    pub fn epoch_at(&self, now_us: u64) -> u64 {
        let epoch = now_us.saturating_sub(self.start_us) / self.interval_us.max(INTERVAL_MIN_US);
        epoch.clamp(self.key.epoch, self.key.epoch + EPOCHS_MAX)
    }

    /// When an epoch begins, µs since 1970.
    pub fn begin_us(&self, epoch: u64) -> u64 {
        self.start_us.saturating_add(epoch.saturating_mul(self.interval_us))
    }

    /// Reads what [`State`] prints.
    pub fn parse(text: &str) -> Option<State> {
        let mut parts = text.trim().split('-');
        let secret = Bytes32::parse(parts.next()?)?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (start_us, interval_us, epoch) = (number()?, number()?, number()?);
        let whole = parts.next().is_none() && interval_us >= INTERVAL_MIN_US;
        whole.then_some(State { start_us, interval_us, key: Key { epoch, secret } })
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let State { start_us, interval_us, key } = self;
        write!(f, "{}-{start_us:x}-{interval_us:x}-{:x}", key.secret, key.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_what_openssl_says() {
        // Test case 1 with a key of 32 bytes; `openssl dgst -sha256 -mac HMAC` says the same.
        let mac = hmac(&Bytes32([0x0b; 32]), &[b"Hi ", b"There"]);
        assert_eq!(
            mac.to_string(),
            "198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"
        );
    }

    #[test]
    fn states_come_back() {
        let state = State::new([7; 32], 1_700_000_000_000_000, INTERVAL_DEFAULT_US);
        assert_eq!(State::parse(&state.to_string()), Some(state.clone()));
        let later = State { key: state.key.next(), ..state };
        assert_eq!(State::parse(&format!("{later}\n")), Some(later));
        for bad in ["", "x", "00-1-2-3", &format!("{}-1-1-0", "0".repeat(64))] {
            assert_eq!(State::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn epochs_go_forward() {
        let state = State::new([7; 32], 100_000_000, 10_000_000);
        assert_eq!(
            [0, 100_000_000, 109_999_999, 110_000_000].map(|us| state.epoch_at(us)),
            [0, 0, 0, 1]
        );
        let later = State { key: state.key.next().next(), ..state };
        assert_eq!(later.epoch_at(0), 2, "the clock went back");
        assert_eq!(later.epoch_at(u64::MAX), 2 + EPOCHS_MAX, "and not without a bound");
    }
}

//! ed25519 keys: made, read, used.

use std::path::Path;

use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use warren_hosts::digest::Digest;
use warren_hosts::release::{Release, Signed, to_hex};

/// A key to sign with.
#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// Makes a key and returns its file's text: PKCS #8 in PEM, as openssl has it.
    ///
    /// # Errors
    /// The kernel gives no random numbers.
    pub fn generate() -> Result<String, String> {
        use base64::Engine as _;
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| "the kernel gives no random numbers".to_owned())?;
        let text = base64::engine::general_purpose::STANDARD.encode(document.as_ref());
        let lines: Vec<&str> =
            text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
        Ok(format!(
            "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
            lines.join("\n")
        ))
    }

    /// Reads a key's file.
    ///
    /// # Errors
    /// It is not there, or no ed25519 key in PKCS #8.
    pub fn read(path: &Path) -> Result<SigningKey, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        SigningKey::parse(&text).ok_or_else(|| format!("{}: no ed25519 key in PEM", path.display()))
    }

    fn parse(text: &str) -> Option<SigningKey> {
        use base64::Engine as _;
        let (_, rest) = text.split_once("-----BEGIN PRIVATE KEY-----")?;
        let (body, _) = rest.split_once("-----END PRIVATE KEY-----")?;
        let body: String = body.split_ascii_whitespace().collect();
        let der = base64::engine::general_purpose::STANDARD.decode(body).ok()?;
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der).ok().map(SigningKey)
    }

    /// The line of a file of trusted keys.
    pub fn public_line(&self) -> String {
        to_hex(self.0.public_key().as_ref())
    }

    /// Signs a release, as it is stored.
    pub fn sign(&self, release: &Release) -> Vec<u8> {
        let (text, message) = release.to_be_signed();
        let signature = to_hex(self.0.sign(&message).as_ref());
        let key = Digest::of(self.0.public_key().as_ref());
        serde_json::to_vec(&Signed { release: text, key, signature }).unwrap_or_default()
    }
}

/// 256 random bits as text.
///
/// # Errors
/// The kernel gives no random numbers.
pub fn random_text() -> Result<String, String> {
    use ring::rand::SecureRandom as _;
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| "the kernel gives no random numbers".to_owned())?;
    Ok(to_hex(&bytes))
}

/// Whether a signature is that of a key.
pub fn verify(key: &[u8], message: &[u8], signature: &[u8]) -> bool {
    UnparsedPublicKey::new(&ED25519, key).verify(message, signature).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_hosts::policy::Policy;
    use warren_hosts::release::read_keys;

    #[test]
    fn a_release_is_that_of_the_key_that_signed_it() {
        let key = SigningKey::parse(&SigningKey::generate().expect("a key")).expect("the same");
        let other = SigningKey::parse(&SigningKey::generate().expect("a key")).expect("another");
        let release =
            Release::new(3, (Digest::of(b"r"), None), ("me", "why"), 0, Policy::default());
        let bytes = key.sign(&release);
        let trusted = read_keys(&key.public_line()).expect("a line");
        assert_eq!(Signed::open(&bytes, 3, &trusted, verify), Ok(release.clone()));
        let trusted = read_keys(&other.public_line()).expect("a line");
        assert!(Signed::open(&bytes, 3, &trusted, verify).is_err());
        assert!(
            SigningKey::parse("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----")
                .is_none()
        );
    }
}

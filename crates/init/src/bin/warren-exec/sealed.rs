//! Encrypted credentials (systemd-creds(1)): opened with the key of the host, before there is a process.
//!
//! What such a credential looks like was found by opening those that `systemd-creds encrypt` of systemd 252 makes. In
//! base64, all numbers with the lowest byte first: 16 bytes that say which key it is; the lengths of key, block, nonce
//! and tag in 4 bytes each; the nonce, filled up to a multiple of 8; the rest encrypted with AES-256 in GCM, of which
//! all before it is authenticated too; the tag. In what was encrypted are, in 8 bytes each, when it was made and after
//! when it does not count, in microseconds; in 4 bytes the length of its name; the name, filled up to a multiple of 8;
//! the content.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The key of the host.
pub const HOST_KEY: &str = "/var/lib/systemd/credential.secret";

/// Bytes of a credential in base64.
pub const TEXT_BYTES_MAX: usize = 2 << 20;

/// Bytes of the host's key: what names the machine, and what the key is made of.
const SECRET_BYTES: usize = 4112;
const MACHINE_BYTES: usize = 16;

/// Which key it is.
const HOST: [u8; 16] = [
    0x5a, 0x1c, 0x6a, 0x86, 0xdf, 0x9d, 0x40, 0x96, 0xb1, 0xd5, 0xa6, 0x5e, 0x08, 0x62, 0xf1, 0x9a,
];
const NONE: [u8; 16] = [
    0x05, 0x84, 0x69, 0xda, 0xf6, 0xf5, 0x43, 0x24, 0x80, 0x05, 0x49, 0xda, 0x0f, 0x8e, 0xa2, 0xfb,
];

/// Lengths of key, block, nonce and tag of AES-256 in GCM.
const LENGTHS: [u8; 16] = [32, 0, 0, 0, 1, 0, 0, 0, 12, 0, 0, 0, 16, 0, 0, 0];
const NONCE_BYTES: usize = 12;
const HEADER_BYTES: usize = 48;

/// Keys of a machine, each read when it is asked for.
pub struct Keys<'a> {
    /// Where the host's key is.
    pub host: &'a Path,
    /// Whether what everybody could have made is refused.
    pub refuses_keyless: bool,
}

impl Keys<'_> {
    /// Those of this machine.
    pub fn own() -> Keys<'static> {
        let has_tpm = Path::new("/sys/class/tpm/tpm0").exists();
        Keys { host: Path::new(HOST_KEY), refuses_keyless: has_tpm && is_boot_secured() }
    }

    fn of_host(&self) -> Result<[u8; 32], String> {
        let path = self.host;
        let said = |why: &dyn std::fmt::Display| {
            format!("cannot use the host key: {}: {why}", path.display())
        };
        let flags = warren_sys::file::NONBLOCK | warren_sys::file::NOFOLLOW;
        let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let file = file.map_err(|e| said(&e))?;
        let own = warren_sys::process::own_ids().0;
        let found = file.metadata().map_err(|e| said(&e))?;
        if !found.is_file() || found.mode() & 0o077 != 0 || found.uid() != own {
            return Err(said(&"other users may have read or written it"));
        }
        let mut secret = Vec::new();
        file.take(SECRET_BYTES as u64 + 1).read_to_end(&mut secret).map_err(|e| said(&e))?;
        match secret.get(MACHINE_BYTES..) {
            Some(secret) if secret.len() + MACHINE_BYTES == SECRET_BYTES => Ok(hash(secret)),
            _ => Err(said(&format_args!("it is not {SECRET_BYTES} bytes long"))),
        }
    }
}

/// Whether the firmware started only what is signed.
fn is_boot_secured() -> bool {
    const VARIABLE: &str =
        "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    const ATTRIBUTES_BYTES: usize = 4;
    fs::read(VARIABLE).is_ok_and(|value| value.get(ATTRIBUTES_BYTES) == Some(&1))
}

fn hash(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// Opens what was sealed for this name, at this time in microseconds of the wall clock.
///
/// # Errors
/// Why it cannot be used.
pub fn open(text: &[u8], name: &str, now_us: u64, keys: &Keys<'_>) -> Result<Vec<u8>, String> {
    let damaged = || "it is damaged, or was encrypted with another key".to_owned();
    let unknown = || "not an encrypted credential of a known format".to_owned();
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("it is larger than {TEXT_BYTES_MAX} bytes"));
    }
    let text: Vec<u8> = text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let sealed = STANDARD.decode(&text).map_err(|_| "it is not valid base64".to_owned())?;
    let (header, body) = sealed.split_at_checked(HEADER_BYTES).ok_or_else(unknown)?;
    let (id, lengths) = header.split_at(HOST.len());
    let key = match id {
        id if id == HOST => keys.of_host()?,
        id if id == NONE && keys.refuses_keyless => {
            return Err("it was encrypted without a key, which a machine with a TPM and Secure Boot refuses".into());
        }
        id if id == NONE => hash(&[]),
        _ => {
            return Err(
                "it is not encrypted with the host key alone; TPM keys are not supported".into()
            );
        }
    };
    let nonce = lengths.strip_prefix(&LENGTHS).and_then(|rest| rest.first_chunk::<NONCE_BYTES>());
    let nonce = nonce.ok_or_else(unknown)?;
    let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from(key));
    let payload = Payload { msg: body, aad: header };
    let opened = cipher.decrypt(&Nonce::from(*nonce), payload).map_err(|_| damaged())?;
    content(&opened, name, now_us)
}

/// What is in it, if it is for this name and still counts.
fn content(opened: &[u8], name: &str, now_us: u64) -> Result<Vec<u8>, String> {
    let short = || "it is truncated".to_owned();
    let (_made, rest) = opened.split_first_chunk::<8>().ok_or_else(short)?;
    let (not_after, rest) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| short())?;
    let own = rest.get(..length).ok_or_else(short)?;
    // What comes before the name is half a multiple.
    let filled = length.checked_add(4).ok_or_else(short)?.next_multiple_of(8) - 4;
    let content = rest.get(filled..).ok_or_else(short)?;
    if !own.is_empty() && own != name.as_bytes() {
        let own = String::from_utf8_lossy(own);
        return Err(format!("it was encrypted for the name {own:?}"));
    }
    match u64::from_le_bytes(*not_after) < now_us {
        true => Err("it has expired".to_owned()),
        false => Ok(content.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use warren_testkit::Scratch;

    const NOW: u64 = 1_796_000_000_000_000;

    /// `printf 'the secret' | systemd-creds encrypt --with-key=tpm2-absent --name=foo - -`, systemd 252.
    const KEYLESS: &str =
        "BYRp2vb1QySABUnaD46i+yAAAAABAAAADAAAABAAAACxyC9iMaTeFKu0NuQAAAAAgZ9bd5JLgk/LuEf
        St5lyzfy2EVmuujhNacu1eW9xIyPptt7ycvVcsc5qoGyHzux20eY=";

    fn keys(host: &Path) -> Keys<'_> {
        Keys { host, refuses_keyless: false }
    }

    /// Seals as systemd-creds(1) does, with a nonce that is always the same.
    fn seal(id: [u8; 16], key: [u8; 32], not_after: u64, name: &str, content: &[u8]) -> Vec<u8> {
        let nonce = [7; NONCE_BYTES];
        let mut out = [&id[..], &LENGTHS, &nonce, &[0; 4]].concat();
        let mut inner = [1u64.to_le_bytes(), not_after.to_le_bytes()].concat();
        inner.extend((name.len() as u32).to_le_bytes());
        inner.extend(name.bytes());
        inner.resize(inner.len().next_multiple_of(8), 0);
        inner.extend(content);
        let cipher = Aes256Gcm::new(&Key::<Aes256Gcm>::from(key));
        let payload = Payload { msg: &inner, aad: &out };
        let sealed = cipher.encrypt(&Nonce::from(nonce), payload).expect("it is small");
        out.extend(sealed);
        STANDARD.encode(out).into_bytes()
    }

    #[test]
    fn what_systemd_sealed_is_opened() {
        let nowhere = Path::new("/nonexistent");
        let opened = open(KEYLESS.as_bytes(), "foo", NOW, &keys(nowhere));
        assert_eq!(opened, Ok(b"the secret".to_vec()));
        let refusing = Keys { refuses_keyless: true, ..keys(nowhere) };
        let why = open(KEYLESS.as_bytes(), "foo", NOW, &refusing).expect_err("refused");
        assert!(why.contains("without a key"), "{why}");
    }

    #[test]
    fn what_is_for_another_name_late_or_damaged_is_refused() {
        let nowhere = Path::new("/nonexistent");
        let open = |text: &[u8], name: &str| super::open(text, name, NOW, &keys(nowhere));
        let sealed = |not_after, name: &str| seal(NONE, hash(&[]), not_after, name, b"x\0y");
        for length in 0..20 {
            let name = "n".repeat(length);
            assert_eq!(open(&sealed(u64::MAX, &name), &name), Ok(b"x\0y".to_vec()), "{length}");
        }
        assert_eq!(open(&sealed(NOW, ""), "any"), Ok(b"x\0y".to_vec()));
        for (text, why) in [
            (sealed(u64::MAX, "foo"), "it was encrypted for the name \"foo\""),
            (sealed(NOW - 1, "bar"), "it has expired"),
            (b"!!".to_vec(), "it is not valid base64"),
            (b"".to_vec(), "not an encrypted credential of a known format"),
            (vec![b'A'; TEXT_BYTES_MAX + 1], "it is larger than 2097152 bytes"),
        ] {
            assert_eq!(open(&text, "bar"), Err(why.to_owned()));
        }
        let tpm = seal([9; 16], hash(&[]), u64::MAX, "bar", b"x");
        assert!(open(&tpm, "bar").expect_err("refused").contains("TPM keys are not supported"));
        // Each bit of it counts.
        let good = STANDARD.decode(sealed(u64::MAX, "bar")).expect("it is base64");
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(open(STANDARD.encode(&bad).as_bytes(), "bar").is_err(), "byte {at}");
            assert!(open(STANDARD.encode(&good[..at]).as_bytes(), "bar").is_err(), "{at} bytes");
        }
    }

    #[test]
    fn the_key_of_the_host_is_root_s_alone() {
        let scratch = Scratch::new("sealed");
        let path = scratch.path("credential.secret");
        let secret: Vec<u8> = (0..SECRET_BYTES).map(|at| at as u8).collect();
        let sealed = seal(HOST, hash(&secret[MACHINE_BYTES..]), u64::MAX, "foo", b"word");
        let open = || super::open(&sealed, "foo", NOW, &keys(&path));
        assert!(open().expect_err("no key").contains("cannot use the host key"));
        let write = |bytes: &[u8], mode| {
            let _ = fs::remove_file(&path);
            fs::write(&path, bytes).expect("a key");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("its mode");
        };
        write(&secret, 0o400);
        assert_eq!(open(), Ok(b"word".to_vec()));
        write(&secret, 0o440);
        assert!(open().expect_err("read by others").contains("other users may have"));
        write(&secret[1..], 0o400);
        assert!(open().expect_err("too short").contains("4112 bytes"));
        write(&[&secret[..], b"x"].concat(), 0o400);
        assert!(open().expect_err("too long").contains("4112 bytes"));
        write(&vec![0; SECRET_BYTES], 0o400);
        assert!(open().expect_err("another key").contains("another key"));
    }
}

//! The pure crates depend on nothing impure, and no crate but two on TLS: proved from `cargo tree`.
//!
//! For purity an allow list, not a deny list: a new dependency of a pure crate needs a line here.

use anyhow::{Result, ensure};

use crate::command::output;

/// Crates that must stay pure.
const PURE: [&str; 9] = [
    "warren-calendar",
    "warren-unit",
    "warren-core",
    "warren-sim",
    "warren-fleet",
    "warren-trace",
    "warren-sandbox",
    "warren-wire",
    "warren-hosts",
];

/// What they may use, and why it is harmless: data structures, encoders, checksums; none does
/// I/O, reads a clock or starts a thread.
const ALLOWED: &[&str] = &[
    // Serialization of run-state records.
    "serde",
    "serde_core",
    "serde_derive",
    "postcard",
    "cobs",
    "thiserror",
    "thiserror-impl",
    "base64",
    "crc32fast",
    // JSON of messages, whose objects keep the order of their keys.
    "serde_json",
    "indexmap",
    "hashbrown",
    "foldhash",
    "itoa",
    "zmij",
    // Persistent maps of the published view.
    "imbl",
    "imbl-sized-chunks",
    "archery",
    "rand_core",
    "rand_xoshiro",
    "wide",
    "safe_arch",
    "bytemuck",
    "equivalent",
    // Numbers of system calls.
    "syscalls",
    // Search in bytes.
    "memchr",
    // Deflating the data of charts.
    "miniz_oxide",
    "adler2",
    // Local time: of it nothing is used that reads a clock or files, which `order::names` holds.
    "jiff",
    "jiff-core",
    // Names of revisions are digests of what they hold.
    "sha2",
    "digest",
    "block-buffer",
    "crypto-common",
    "hybrid-array",
    "typenum",
    "cpufeatures",
    // At build time only.
    "cfg-if",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

/// Crates that print, keep or take log lines, and must not carry what only servers and warren-agent need.
const WITHOUT_NETWORK: [&str; 4] =
    ["warren-cli", "warren-log-store", "warren-log-daemon", "warren-log-show"];

/// What only servers of HTTP and warren-agent need: TLS, which is warren-log-net's (warren-web takes it from there) and
/// warren-agent's, and the parser of HTTP.
const NETWORK: [&str; 3] = ["rustls", "ring", "httparse"];

/// Fails when a pure crate has gained a dependency that is not on the list, or one that must do
/// without the network has gained TLS.
pub fn check() -> Result<()> {
    for name in PURE {
        let strangers = strangers(&tree(name)?);
        ensure!(strangers.is_empty(), "{name} must stay pure but uses: {}", strangers.join(", "));
    }
    println!("pure: {}", PURE.join(", "));
    for name in WITHOUT_NETWORK {
        let tree = tree(name)?;
        let network = network(&tree);
        ensure!(network.is_empty(), "{name} must not link {}", network.join(", "));
    }
    println!("without TLS: {}", WITHOUT_NETWORK.join(", "));
    Ok(())
}

/// All that a crate links, a name and a version on each line.
fn tree(name: &str) -> Result<String> {
    let format = ["--prefix", "none", "--format", "{p}"];
    let command = [&["tree", "--locked", "-p", name, "-e", "normal"], &format[..]].concat();
    output("cargo", &command)
}

/// Names in the tree that only those two may have.
fn network(tree: &str) -> Vec<&str> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let names: std::collections::BTreeSet<&str> = names.collect();
    NETWORK.into_iter().filter(|name| names.contains(name)).collect()
}

/// Names in the tree that are neither pure crates of ours nor allowed.
fn strangers(tree: &str) -> Vec<String> {
    let names = tree.lines().filter_map(|line| line.split(' ').next());
    let strange = |name: &&str| !name.is_empty() && !PURE.contains(name) && !ALLOWED.contains(name);
    let mut out: Vec<String> = names.filter(strange).map(str::to_owned).collect();
    out.sort();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_named_once() {
        let tree = "warren-core v0.1.0 (/x)\nserde v1.0.1\nlibc v0.2.1\nlibc v0.2.1 (*)\n";
        assert_eq!(strangers(tree), ["libc"]);
    }

    #[test]
    fn tls_is_named() {
        let tree =
            "warren-cli v0.1.0 (/x)\nrustls v0.23.1\nrustls-pki-types v1.0.0\nring v0.17.0\n";
        assert_eq!(network(tree), ["rustls", "ring"]);
        assert!(network("warren-cli v0.1.0 (/x)\nrustls-pki-types v1.0.0\n").is_empty());
    }
}

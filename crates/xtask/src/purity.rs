//! The pure crates depend on nothing impure: proved from `cargo tree`.
//!
//! An allow list, not a deny list: a new dependency of a pure crate needs a line here.

use anyhow::{Result, ensure};

use crate::command::output;

/// Crates that must stay pure.
const PURE: [&str; 5] =
    ["warren-unit", "warren-core", "warren-sim", "warren-fleet", "warren-trace"];

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
    "crc32fast",
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
    // Search in bytes.
    "memchr",
    // Deflating the data of charts.
    "miniz_oxide",
    "adler2",
    // At build time only.
    "cfg-if",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
];

/// Fails when a pure crate has gained a dependency that is not on the list.
pub fn check() -> Result<()> {
    for name in PURE {
        let tree = output(
            "cargo",
            &[
                "tree", "--locked", "-p", name, "-e", "normal", "--prefix", "none", "--format",
                "{p}",
            ],
        )?;
        let strangers = strangers(&tree);
        ensure!(strangers.is_empty(), "{name} must stay pure but uses: {}", strangers.join(", "));
    }
    println!("pure: {}", PURE.join(", "));
    Ok(())
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
}

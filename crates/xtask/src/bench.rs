//! `cargo xtask bench units`.

use anyhow::Result;

/// Runs the bench.
pub fn units(_args: &[&str]) -> Result<()> {
    anyhow::bail!("not yet")
}

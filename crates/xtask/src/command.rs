//! Runs cargo and other programs in the workspace.
//! Must not: know what for.
//! Runs on the main thread of xtask.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The workspace's directory.
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// Runs cargo in the workspace, showing what it says.
pub fn cargo(args: &[&str]) -> Result<()> {
    cargo_with(args, &[])
}

/// The same with more variables.
pub fn cargo_with(args: &[&str], variables: &[(&str, &str)]) -> Result<()> {
    println!("+ cargo {}", args.join(" "));
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    let status = command.args(args).envs(variables.iter().copied()).current_dir(root()).status();
    let status = status.context("cannot start cargo")?;
    ensure!(status.success(), "cargo {} failed", args.join(" "));
    Ok(())
}

/// What a program prints.
pub fn output(program: &str, args: &[&str]) -> Result<String> {
    let output = Command::new(program).args(args).current_dir(root()).output();
    let output = output.with_context(|| format!("cannot start {program}"))?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{program} {} failed: {errors}", args.join(" "));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

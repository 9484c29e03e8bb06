//! The order of the house: which file uses which, held against what each crate states.
//! Must not: run cargo's build, or change a file. Start reading at `check`.
//! Runs on the main thread of xtask.

mod circles;
mod names;
mod rooms;
mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use source::Source;

use crate::command::{output, root};

/// Faults that are shown of one kind and crate.
const SHOWN_MAX: usize = 20;

/// Fails when a crate's files use one another against the order that it states, when more than five use one
/// another in a circle, or when a pure crate names something impure.
pub fn check() -> Result<()> {
    let mut faults = Vec::new();
    let mut count = 0;
    let mut ordered = Vec::new();
    for (name, roots) in crates()? {
        let folder = root().join("crates").join(&name).join("src");
        let source = read(&folder, &roots)?;
        if let Some(text) = text_of(&root().join("crates").join(&name).join("rooms.txt"))? {
            let shown = rooms::faults(&text, &source);
            faults.extend(
                shown.iter().take(SHOWN_MAX).map(|fault| format!("crates/{name}: {fault}")),
            );
            ordered.push(name.clone());
        }
        faults.extend(names::faults(&name, &source).into_iter().take(SHOWN_MAX));
        faults.extend(circles::faults(&name, &circles::of(&source)));
        count += 1;
    }
    ensure!(faults.is_empty(), "{} faults of order:\n  {}", faults.len(), faults.join("\n  "));
    println!("order: {count} crates, of which these state theirs: {}", ordered.join(", "));
    Ok(())
}

/// Prints which rooms of a crate use which: the order that could be stated, from the ground up. Then the
/// circles of its files, and for those over the bound each place where one of their files names another.
pub fn show(name: &str) -> Result<()> {
    let crates = crates()?;
    let roots = crates.get(name).with_context(|| format!("no crate {name}"))?;
    let source = read(&root().join("crates").join(name).join("src"), roots)?;
    print!("{}", rooms::proposal(&source));
    for circle in circles::of(&source) {
        println!("circle of {}: {}", circle.len(), circle.join(" "));
        if circle.len() > circles::CIRCLE_FILES_MAX {
            let is_in =
                |arrow: &&source::Arrow| circle.contains(&arrow.from) && circle.contains(&arrow.to);
            for source::Arrow { from, to, line, path } in source.arrows.iter().filter(is_in) {
                println!("  {from}:{line} {path} ({to})");
            }
        }
    }
    Ok(())
}

fn read(folder: &Path, roots: &[PathBuf]) -> Result<Source> {
    source::read(folder, roots, &text_of)
}

/// The text of a file; nothing when it is not there.
fn text_of(path: &Path) -> Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{}", path.display())),
    }
}

/// The folders of the crates below `crates`, and the root files of their library and programs.
fn crates() -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let text = output(
        "cargo",
        &["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"],
    )?;
    let metadata: serde_json::Value = serde_json::from_str(&text).context("cargo metadata")?;
    let mut out: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    for package in list(&metadata["packages"]) {
        let manifest = Path::new(package["manifest_path"].as_str().context("manifest_path")?);
        let folder = manifest.parent().context("the folder of a crate")?;
        let name = folder.file_name().context("the name of a crate")?.display().to_string();
        for target in list(&package["targets"]) {
            let kinds = list(&target["kind"]);
            if kinds.iter().any(|kind| kind == "lib" || kind == "bin") {
                let path = target["src_path"].as_str().context("src_path")?;
                out.entry(name.clone()).or_default().push(path.into());
            }
        }
    }
    Ok(out)
}

//! `warren fleet fmt`: files of rules laid out one way; comments stay.

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use warren_fleet::{FileId, Severity, Source, diagnostic, format, parse};
use warren_fleet_files::{rules_below, tests_below};

use crate::args::FmtArgs;
use crate::output::tell;

pub(super) fn run(args: &FmtArgs) -> Result<i32> {
    let mut status = 0;
    let files: Vec<PathBuf> = args.files.iter().flat_map(|path| files_of(path)).collect();
    for path in &files {
        let differs = match path.as_os_str() == "-" {
            true => standard_input(args.check)?,
            false => file(path, args.check)?,
        };
        if differs && args.check {
            complain!("{} would change", path.display());
            status = 1;
        }
    }
    Ok(status)
}

/// A file, or all files of rules and tests in a directory and below it.
fn files_of(path: &Path) -> Vec<PathBuf> {
    match path.is_dir() {
        true => rules_below(path).into_iter().chain(tests_below(path)).collect(),
        false => vec![path.to_path_buf()],
    }
}

fn standard_input(check: bool) -> Result<bool> {
    let mut text = Vec::new();
    std::io::stdin().take(warren_fleet_files::FILE_BYTES_MAX).read_to_end(&mut text)?;
    let new = formatted("(standard input)", &text)?;
    if !check {
        tell(&String::from_utf8_lossy(&new));
    }
    Ok(new != text)
}

/// Written beside and renamed, with the mode of the old one: there is no moment without the file.
fn file(path: &Path, check: bool) -> Result<bool> {
    let name = path.display().to_string();
    let text = fs::read(path).with_context(|| name.clone())?;
    let new = formatted(&name, &text)?;
    if new == text || check {
        return Ok(new != text);
    }
    let fresh = path.with_extension(format!("new-{}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut out = fs::File::create_new(&fresh)?;
        out.set_permissions(fs::metadata(path)?.permissions())?;
        out.write_all(&new)?;
        fs::rename(&fresh, path)
    };
    write().inspect_err(|_| drop(fs::remove_file(&fresh))).with_context(|| name)?;
    Ok(true)
}

/// The text laid out. One with faults is better left alone.
fn formatted(name: &str, text: &[u8]) -> Result<Vec<u8>> {
    let source = Source::new(name, text);
    let (module, faults) = parse(FileId(0), source.clone());
    if let Some(fault) = faults.iter().find(|fault| fault.severity == Severity::Error) {
        bail!("{name} is not changed\n{}", diagnostic::render(fault, &|_| Some(source.clone())));
    }
    Ok(format::format(&module))
}

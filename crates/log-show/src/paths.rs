//! Paths in place of matches: journalctl(1). A program stands for what it said, a script for what
//! was said under its name, a device node for what the kernel said of the device.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::failure::Failure;

/// Longest name of a process, bytes; proc_pid_comm(5).
const COMM_BYTES_MAX: usize = 15;

/// Most devices between one and the root of all.
const ANCESTORS_MAX: usize = 64;

/// What matches mean, with paths among them replaced.
pub struct Meant {
    /// Matches, and `+` between alternatives.
    pub matches: Vec<String>,
    /// A device was named: nodes are another's after a boot, so that the last one alone counts.
    pub of_device: bool,
}

/// Replaces paths, which begin with `/`, by matches.
///
/// # Errors
/// For a path that leads nowhere, or to what is neither a program nor a device.
pub fn replace(words: &[String]) -> Result<Meant, Failure> {
    let mut meant = Meant { matches: Vec::new(), of_device: false };
    for word in words {
        if !word.starts_with('/') {
            meant.matches.push(word.clone());
            continue;
        }
        let failed = |e: std::io::Error| Failure(format!("{word}: {e}"));
        let path = Path::new(word).canonicalize().map_err(failed)?;
        let about = path.metadata().map_err(failed)?;
        let kind = about.file_type();
        if kind.is_file() && about.permissions().mode() & 0o111 != 0 {
            meant.matches.push(of_program(&path).map_err(failed)?);
        } else if kind.is_block_device() || kind.is_char_device() {
            let kind = if kind.is_block_device() { "block" } else { "char" };
            meant.matches.extend(of_device(kind, about.rdev()));
            meant.of_device = true;
        } else {
            return Err(Failure(format!("{word}: neither a program nor a device")));
        }
    }
    Ok(meant)
}

fn of_program(path: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut begin = Vec::new();
    std::fs::File::open(path)?.take(2).read_to_end(&mut begin)?;
    let name = path.file_name().unwrap_or_default().as_bytes();
    let name = &name[..name.len().min(COMM_BYTES_MAX)];
    Ok(match begin == b"#!" {
        true => format!("_COMM={}", String::from_utf8_lossy(name)),
        false => format!("_EXE={}", path.display()),
    })
}

/// A device and those that it is a part of, by their names in systemd.journal-fields(7).
fn of_device(kind: &str, number: u64) -> Vec<String> {
    let letter = if kind == "block" { 'b' } else { 'c' };
    let number = format!("{}:{}", major(number), minor(number));
    let mut found = vec![format!("_KERNEL_DEVICE={letter}{number}")];
    let mut at = std::fs::canonicalize(format!("/sys/dev/{kind}/{number}")).unwrap_or_default();
    for _ in 0..ANCESTORS_MAX {
        found.extend(kernel_name(&at).map(|name| format!("_KERNEL_DEVICE={name}")));
        if !at.pop() {
            break;
        }
    }
    found.dedup();
    found
}

/// What the kernel calls the device of a directory in sysfs.
fn kernel_name(at: &Path) -> Option<String> {
    let subsystem = at.join("subsystem").canonicalize().ok()?;
    let base = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let (subsystem, name) = (base(&subsystem)?, base(&at.to_owned())?);
    match std::fs::read_to_string(at.join("dev")) {
        Ok(number) => {
            let letter = if subsystem == "block" { 'b' } else { 'c' };
            Some(format!("{letter}{}", number.trim()))
        }
        Err(_) => Some(format!("+{subsystem}:{name}")),
    }
}

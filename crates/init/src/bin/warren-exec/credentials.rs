//! Credentials, read before there is a process: each process of a unit gets its own copy, in memory that is never
//! swapped and that nobody else sees.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use warren_init::protocol::ExecStep;
use warren_init::protocol::exec::{ExecSpec, SpawnError};
use warren_sandbox::credentials::{BYTES_MAX, Credential, Source, is_name};
use warren_sys::errno::ENOENT;
use warren_sys::{Error, random, socket};

use crate::fault::failed;

const STEP: ExecStep = ExecStep::Credentials;

/// Files of one directory, and directories in one another.
const FILES_MAX: usize = 1024;
const DEPTH_MAX: usize = 16;

/// Where credentials of the machine are looked for, after those that it was given (systemd.exec(5), "CREDENTIALS").
const STORES: [&str; 4] =
    ["/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore"];

/// What is in files of these names.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Reads what the spec asks for.
pub fn read(spec: &ExecSpec) -> Result<Contents, SpawnError> {
    let asked = &spec.view.credentials;
    let mut out = Contents::new();
    for credential in asked {
        let has_default =
            asked.iter().any(|other| other.id == credential.id && is_value(&other.source));
        let found = read_one(credential, &spec.view.unit, &mut out);
        match found {
            Err(e) if has_default && !is_value(&credential.source) => drop(e),
            other => other.map_err(|e| {
                failed(STEP, e.errno, format!("credential {}: {}", credential.id, e.what()))
            })?,
        }
        let bytes: usize = out.values().map(Vec::len).sum();
        if bytes > BYTES_MAX {
            return Err(failed(STEP, 0, format!("credentials are larger than {BYTES_MAX} bytes")));
        }
    }
    Ok(out)
}

fn is_value(source: &Source) -> bool {
    matches!(source, Source::Value(_))
}

fn read_one(credential: &Credential, unit: &str, out: &mut Contents) -> Result<(), Error> {
    let Credential { id, source } = credential;
    match source {
        Source::Value(value) => {
            out.entry(id.clone()).or_insert_with(|| value.clone());
        }
        Source::Path(path) => {
            let path = Path::new(path);
            match fs::metadata(path).map_err(|e| failure(&e, path))? {
                found if found.is_dir() => read_directory(path, id, 0, out)?,
                found if found.file_type().is_socket() => {
                    out.insert(id.clone(), read_socket(path, unit, id)?);
                }
                _ => _ = out.insert(id.clone(), read_file(path)?),
            }
        }
        Source::Store(name) => {
            if let Some(path) = stores().map(|store| store.join(name)).find(|path| path.is_file()) {
                out.insert(id.clone(), read_file(&path)?);
            }
        }
        Source::StoreBeginning(begin) => {
            for store in stores() {
                for (name, path) in listed(&store) {
                    let Some(rest) = name.strip_prefix(begin) else { continue };
                    let id = format!("{id}{rest}");
                    if !out.contains_key(&id) && is_name(&id) && path.is_file() {
                        out.insert(id, read_file(&path)?);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Those that the machine was given come first.
fn stores() -> impl Iterator<Item = PathBuf> {
    let given = std::env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
    given.into_iter().chain(STORES.iter().map(PathBuf::from))
}

/// Names and paths in a directory, in order, of which there are not more than can be looked at.
fn listed(directory: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(FILES_MAX);
    let named = |entry: fs::DirEntry| Some((entry.file_name().into_string().ok()?, entry.path()));
    let mut out: Vec<_> = entries.filter_map(named).collect();
    out.sort();
    out
}

/// Every file below a directory; links are not followed.
fn read_directory(
    directory: &Path,
    id: &str,
    depth: usize,
    out: &mut Contents,
) -> Result<(), Error> {
    for (name, path) in listed(directory) {
        let id = format!("{id}_{name}");
        let kind = fs::symlink_metadata(&path).map_err(|e| failure(&e, &path))?.file_type();
        if kind.is_dir() && depth < DEPTH_MAX {
            read_directory(&path, &id, depth + 1, out)?;
        } else if kind.is_file() && is_name(&id) {
            out.insert(id, read_file(&path)?);
        }
    }
    Ok(())
}

fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    // A FIFO that nobody writes to holds nobody up.
    let flags = warren_sys::file::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    contents(file.map_err(|e| failure(&e, path))?, path)
}

/// What is told to who connects, from an address that says for whom (systemd.exec(5), "CREDENTIALS").
fn read_socket(path: &Path, unit: &str, id: &str) -> Result<Vec<u8>, Error> {
    let token = random::u128() as u64;
    let name = format!("{token:016x}/unit/{unit}/{id}");
    let stream = socket::connect_from(&name, path)?;
    contents(fs::File::from(stream), path)
}

fn contents(file: fs::File, path: &Path) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    // One more than is allowed, which is then found to be too much.
    let most = BYTES_MAX as u64 + 1;
    file.take(most).read_to_end(&mut out).map_err(|e| failure(&e, path))?;
    Ok(out)
}

fn failure(error: &std::io::Error, path: &Path) -> Error {
    Error::at("reading", path, error.raw_os_error().unwrap_or(ENOENT))
}

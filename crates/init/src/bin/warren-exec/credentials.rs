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
use crate::sealed::{self, Keys};

const STEP: ExecStep = ExecStep::Credentials;

/// Files of one directory, and directories in one another.
const FILES_MAX: usize = 1024;
const DEPTH_MAX: usize = 16;

/// Where credentials of the machine are looked for, after those that it was given (systemd.exec(5), "CREDENTIALS").
const STORES: [&str; 4] =
    ["/etc/credstore", "/run/credstore", "/usr/local/lib/credstore", "/usr/lib/credstore"];

/// Where encrypted ones are looked for, after those.
const SEALED_STORES: [&str; 4] = [
    "/run/credstore.encrypted",
    "/etc/credstore.encrypted",
    "/usr/local/lib/credstore.encrypted",
    "/usr/lib/credstore.encrypted",
];

/// What is in files of these names.
pub type Contents = BTreeMap<String, Vec<u8>>;

/// Reads what the spec asks for.
pub fn read(spec: &ExecSpec) -> Result<Contents, SpawnError> {
    let asked = &spec.view.credentials;
    let mut out = Contents::new();
    for (at, credential) in asked.iter().enumerate() {
        if is_replaced(credential, at, asked) {
            continue;
        }
        let has_default =
            asked.iter().any(|other| other.id == credential.id && is_value(&other.source));
        let wrong = |errno: i32, what: &str| {
            failed(STEP, errno, format!("credential {}: {what}", credential.id))
        };
        let found = match found(credential, &spec.view.unit) {
            Err(_) if has_default && !is_value(&credential.source) => continue,
            other => other.map_err(|e| wrong(e.errno, &e.what()))?,
        };
        for (id, content) in found {
            if out.contains_key(&id) && gives_way(&credential.source) {
                continue;
            }
            // What is damaged or not for this unit is no reason to take something else.
            let content = match credential.is_sealed {
                true => opened(&content, &id).map_err(|why| wrong(0, &why))?,
                false => content,
            };
            out.insert(id, content);
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

/// Whether another one of its kind counts instead: the last of a name, and one that is encrypted before others.
fn is_replaced(credential: &Credential, at: usize, asked: &[Credential]) -> bool {
    let is_one = |source: &Source| !matches!(source, Source::StoreBeginning(_));
    let kind = |source: &Source| is_one(source).then(|| is_value(source));
    let rank = |credential: &Credential, at: usize| (credential.is_sealed, at);
    is_one(&credential.source)
        && asked.iter().enumerate().any(|(other_at, other)| {
            other.id == credential.id
                && kind(&other.source) == kind(&credential.source)
                && rank(other, other_at) > rank(credential, at)
        })
}

/// Whether it counts only where nothing else has the name.
fn gives_way(source: &Source) -> bool {
    matches!(source, Source::Value(_) | Source::StoreBeginning(_))
}

fn opened(text: &[u8], id: &str) -> Result<Vec<u8>, String> {
    sealed::open(text, id, warren_sys::time::realtime_ns() / 1000, &Keys::own())
}

/// What there is, as it is there.
fn found(credential: &Credential, unit: &str) -> Result<Contents, Error> {
    let Credential { id, source, is_sealed } = credential;
    let bytes_max = if *is_sealed { sealed::TEXT_BYTES_MAX } else { BYTES_MAX };
    let read_file = |path: &Path| read_file(path, bytes_max);
    let mut out = Contents::new();
    match source {
        Source::Value(value) => _ = out.insert(id.clone(), value.clone()),
        Source::Path(path) => {
            let path = Path::new(path);
            match fs::metadata(path).map_err(|e| failure(&e, path))? {
                found if found.is_dir() => read_directory(path, id, (0, bytes_max), &mut out)?,
                found if found.file_type().is_socket() => {
                    out.insert(id.clone(), read_socket(path, (unit, id), bytes_max)?);
                }
                _ => _ = out.insert(id.clone(), read_file(path)?),
            }
        }
        Source::Store(name) => {
            let sealed = SEALED_STORES.iter().map(PathBuf::from).filter(|_| *is_sealed);
            let mut paths = stores().chain(sealed).map(|store| store.join(name));
            if let Some(path) = paths.find(|path| path.is_file()) {
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
    Ok(out)
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
    (depth, bytes_max): (usize, usize),
    out: &mut Contents,
) -> Result<(), Error> {
    for (name, path) in listed(directory) {
        let id = format!("{id}_{name}");
        let kind = fs::symlink_metadata(&path).map_err(|e| failure(&e, &path))?.file_type();
        if kind.is_dir() && depth < DEPTH_MAX {
            read_directory(&path, &id, (depth + 1, bytes_max), out)?;
        } else if kind.is_file() && is_name(&id) {
            out.insert(id, read_file(&path, bytes_max)?);
        }
    }
    Ok(())
}

fn read_file(path: &Path, bytes_max: usize) -> Result<Vec<u8>, Error> {
    // A FIFO that nobody writes to holds nobody up.
    let flags = warren_sys::file::NONBLOCK;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
    contents(file.map_err(|e| failure(&e, path))?, path, bytes_max)
}

/// What is told to who connects, from an address that says for whom (systemd.exec(5), "CREDENTIALS").
fn read_socket(path: &Path, (unit, id): (&str, &str), bytes_max: usize) -> Result<Vec<u8>, Error> {
    let token = random::u128() as u64;
    let name = format!("{token:016x}/unit/{unit}/{id}");
    let stream = socket::connect_from(&name, path)?;
    contents(fs::File::from(stream), path, bytes_max)
}

fn contents(file: fs::File, path: &Path, bytes_max: usize) -> Result<Vec<u8>, Error> {
    let mut out = Vec::new();
    // One more than is allowed, which is then found to be too much.
    let most = bytes_max as u64 + 1;
    file.take(most).read_to_end(&mut out).map_err(|e| failure(&e, path))?;
    Ok(out)
}

fn failure(error: &std::io::Error, path: &Path) -> Error {
    Error::at("reading", path, error.raw_os_error().unwrap_or(ENOENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use warren_sandbox::credentials::parse;

    #[test]
    fn of_one_name_the_last_and_the_encrypted_one_counts() {
        let counts = |lines: &[(&str, &str)]| {
            let asked: Vec<Credential> =
                lines.iter().map(|(setting, line)| parse(setting, line).expect("good")).collect();
            let all = asked.iter().enumerate();
            all.filter(|(at, one)| !is_replaced(one, *at, &asked)).map(|(at, _)| at).collect()
        };
        let (set, load) = ("SetCredential", "LoadCredential");
        let (set_sealed, load_sealed) = ("SetCredentialEncrypted", "LoadCredentialEncrypted");
        let check = |lines: &[(&str, &str)], want: &[usize]| {
            let got: Vec<usize> = counts(lines);
            assert_eq!(got, want, "{lines:?}");
        };
        check(&[(set, "a:1"), (set, "a:2"), (set, "b:3")], &[1, 2]);
        check(&[(set, "a:1"), (load, "a:/x")], &[0, 1]);
        check(&[(load, "a:/x"), (load, "a")], &[1]);
        check(&[(load_sealed, "a:/x"), (load, "a:/y")], &[0]);
        check(&[(set_sealed, "a:YWJj"), (set, "a:x"), (load, "a:/y")], &[0, 2]);
        check(&[("ImportCredential", "a*"), (load, "a")], &[0, 1]);
    }
}

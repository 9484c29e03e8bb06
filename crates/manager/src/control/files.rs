//! What unit files say, for clients of the control socket: each is shown what he could read himself.

use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use warren_core::protocol::request::Asker;
use warren_unit::parse::FILE_BYTES_MAX;
use warren_wire::control::{Cat, CatAnswer, CatFile, ErrorName};

use crate::base::open_files::is_open_to_all;
use crate::config::snapshot::open_to_read;
use crate::control::answer::{Answered, Refused, find_or_load, look_at_file, unit_name};
use crate::control::caller::{Caller, is_privileged};
use crate::published::shared::Shared;

/// Answers `Cat`: the files of a unit with their texts; of a template, which is no unit, its file.
pub(crate) fn cat(request: &Cat, caller: &Caller<'_>, shared: &Arc<Shared>) -> Answered<CatAnswer> {
    let asked = request.unit.as_deref();
    let files: Vec<Arc<str>> = match template_path(asked, caller, shared)? {
        Some(path) => vec![path.into()],
        None => {
            let (view, unit) = find_or_load(asked, request.pid, caller, shared)?;
            view.definition(unit).file_paths()
        }
    };
    if files.is_empty() {
        return Err((ErrorName::NoSuchUnit, format!("No files found for {}.", unit_name(asked)?)));
    }
    let row = |path: &Arc<str>| {
        let made = shared.made_text(path, is_privileged(caller.asker)).map(Ok);
        let empty = CatFile { path: path.to_string(), ..CatFile::default() };
        match made.unwrap_or_else(|| text_for(caller.asker, Path::new(&**path))) {
            Ok(Some(text)) => CatFile { text, ..empty },
            Ok(None) => CatFile { withheld: Some(true), ..empty },
            Err(error) => CatFile { unread: Some(error.to_string()), ..empty },
        }
    };
    Ok(CatAnswer { files: files.iter().map(row).collect() })
}

/// Where the file of a template is, if it is one that is asked for.
fn template_path(
    unit: Option<&str>,
    caller: &Caller<'_>,
    shared: &Arc<Shared>,
) -> Result<Option<String>, Refused> {
    let name = unit_name(unit)?;
    if !name.is_template() {
        return Ok(None);
    }
    look_at_file(&name, caller, shared)?;
    Ok(shared.states().path(&name))
}

/// The text of a unit file, where bytes that are not UTF-8 are U+FFFD; nothing if the asker could not read it
/// himself.
///
/// # Errors
/// As [`bytes_for`], and if it is larger than a unit file may be.
fn text_for(asker: Asker, path: &Path) -> io::Result<Option<String>> {
    let Some(bytes) = bytes_for(asker, path)? else { return Ok(None) };
    if bytes.len() > FILE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// What is in a unit file, one byte more than one may have at most; nothing if the asker could not read it
/// himself.
///
/// # Errors
/// As open(2) and read(2), and if it is no file that the loader would read.
pub(crate) fn bytes_for(asker: Asker, path: &Path) -> io::Result<Option<Vec<u8>>> {
    let file = open_to_read(path)?;
    if !is_privileged(asker) && !is_open_to_all(&file) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::base::scratch::Scratch;

    #[test]
    fn a_file_that_is_no_text_is_shown_and_one_that_cannot_be_read_is_said_to_be() {
        let scratch = Scratch::new("cat");
        let path = scratch.0.join("a.service");
        fs::write(&path, b"# gr\xfc\xdfe\n[Unit]\n").expect("it is written");
        let root = Asker { uid: 0, ..Asker::default() };
        let shown = text_for(root, &path).expect("it can be read");
        assert_eq!(shown.as_deref(), Some("# gr\u{fffd}\u{fffd}e\n[Unit]\n"));
        assert!(text_for(root, &scratch.0).is_err(), "a directory");
        assert!(text_for(root, &scratch.0.join("none")).is_err());
    }
}
